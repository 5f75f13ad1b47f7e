import { htmlOf, saveFile, seenOf } from './html_file.js'
import { html, useRef, useState } from './preact.js'
import { stored } from './service.js'
import { taskOf } from './tasks.js'

const LOOKS = 'regard-looks'
const MOST = 50

const seen = new Map() // what kept looks show, by their addresses: this page alone has it

/** Return the looks that this tab keeps: [{name, address}]. */
const keptLooks = () => JSON.parse(stored.getItem(LOOKS) ?? '[]')

/** Return what a look is called, unless somebody calls it otherwise. */
function nameOf({ answer, model, options }) {
  const said = answer.results?.[0] && taskOf(model).said(answer.results[0])
  return [model.name, options.attention, said].filter(Boolean).join(', ').slice(0, 80)
}

/** What the link of this page holds, what copies it, and looks that are kept: named, gone through, saved in a file. */
export function Share({ main, compared, selection }) {
  const { look, stale } = main
  const [kept, setKept] = useState(keptLooks)
  const [name, setName] = useState('')
  const [said, say] = useState('')
  const [busy, work] = useState(false)
  const box = useRef()
  const picture = selection.id !== ''
  const write = (next) => setKept((old) => {
    const looks = next(old)
    stored.setItem(LOOKS, JSON.stringify(looks))
    return looks
  })
  const copy = async () => {
    const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false)
    say(copied ? 'The address is copied.' : 'Copy the address of this page: it says all that you see.')
  }
  const capture = async () => { // with the look beside it, if there is one
    const one = { name: name.trim() || nameOf(look), address: location.hash }
    const other = compared.look && { look: compared.look, selection, name: `${one.name}: ${compared.there}` }
    const shown = [{ look, selection, name: one.name }, other].filter(Boolean)
    seen.set(one.address, await Promise.all(shown.map(seenOf)))
    return one
  }
  const keep = async () => {
    const one = await capture()
    write((old) => [...old.filter(({ address }) => address !== one.address), one].slice(-MOST))
    setName('')
    say(`Kept as “${one.name}”.`)
  }
  const remove = (address) => {
    seen.delete(address)
    write((old) => old.filter((one) => one.address !== address))
    box.current.focus() // the button is gone
  }
  const save = async () => {
    const there = kept.some((one) => seen.has(one.address)) ? kept : [await capture()]
    const looks = there.flatMap(({ address }) => seen.get(address) ?? [])
    saveFile(await htmlOf(looks), 'regard.html')
    const missing = there.filter(({ address }) => !seen.has(address)).length
    say(!missing ? 'Saved.'
      : `Saved without ${missing} that were kept before the page was loaded anew: keep them once more.`)
  }
  const doing = (what) => (event) => {
    event.preventDefault()
    work(true)
    what().catch((refusal) => say(refusal.message)).then(() => work(false))
  }
  const item = ({ name: words, address }) => html`<li class="row" key=${address}>
    <a href=${address} aria-current=${address === location.hash ? 'true' : null}>${words}</a>
    <button type="button" class="plain" aria-label=${`Remove “${words}”`}
      onClick=${() => remove(address)}>remove</button>
  </li>`
  const off = busy || stale || !look
  const half = look?.attention.against?.maps
  return html`<section id="sharing" aria-label="Share" tabindex="-1" ref=${box}>
    <p>${picture
      ? `The link holds no picture: whoever opens it sees the attention alone, for some minutes, and no answer. A file
        holds the picture, the answer and what was looked at, and needs no service.`
      : 'The link says what was asked and how it is looked at; whoever opens it here sees the same.'}
      ${half && ' Of two inputs that are compared, a file shows the first.'}</p>
    <div class="row">
      <button type="button" id="copy-link" onClick=${copy}>Copy the link</button>
      <button type="button" id="save-html" disabled=${off} onClick=${doing(save)}>
        Save ${kept.length > 1 ? `the ${kept.length} looks` : 'it'} as one HTML file
      </button>
      <small role="status">${busy ? 'working …' : said}</small>
    </div>
    <form class="row" onSubmit=${doing(keep)}>
      <input type="text" name="name" aria-label="Name of this look" placeholder=${look ? nameOf(look) : ''}
        value=${name} onInput=${({ target }) => setName(target.value)} />
      <button id="keep-look" disabled=${off}>Keep this look</button>
    </form>
    ${kept.length > 0 && html`<ol id="kept" aria-label="Looks that are kept">${kept.map(item)}</ol>`}
  </section>`
}
