import { htmlOf, saveFile, seenOf } from './html_file.js'
import { html, useState } from './preact.js'
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
export function Share({ main, selection }) {
  const { look, stale } = main
  const [kept, setKept] = useState(keptLooks)
  const [name, setName] = useState('')
  const [said, say] = useState('')
  const picture = selection.id !== ''
  const write = (looks) => {
    setKept(looks)
    stored.setItem(LOOKS, JSON.stringify(looks))
  }
  const copy = async () => {
    const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false)
    say(copied ? 'The address is copied.' : 'Copy the address of this page: it says all that you see.')
  }
  const capture = async () => {
    const one = { name: name.trim() || nameOf(look), address: location.hash }
    seen.set(one.address, await seenOf({ look, selection, name: one.name }))
    return one
  }
  const keep = async (event) => {
    event.preventDefault()
    const one = await capture()
    write([...kept.filter(({ address }) => address !== one.address), one].slice(-MOST))
    setName('')
    say(`Kept as “${one.name}”.`)
  }
  const save = async () => {
    say('writing the file …')
    const own = kept.length ? null : await capture()
    const there = own ? [own] : kept.filter(({ address }) => seen.has(address))
    const looks = there.map((one) => ({ ...seen.get(one.address), name: one.name }))
    const missing = kept.length - looks.length
    if (!looks.length) return say('Go to each look once more and keep it: after a reload its picture is not there.')
    saveFile(await htmlOf(looks), 'regard.html')
    say(!kept.length || !missing ? 'Saved.'
      : `Saved without ${missing} that were kept before a reload: go there once more, and keep them.`)
  }
  const failed = (refusal) => say(refusal.message)
  const item = ({ name: words, address }, at) => html`<li class="row" key=${address}>
    <a href=${address} aria-current=${address === location.hash ? 'true' : null}>${words}</a>
    <button type="button" class="plain" aria-label=${`Remove “${words}”`}
      onClick=${() => write(kept.filter((_, other) => other !== at))}>remove</button>
  </li>`
  return html`<section id="sharing" aria-label="Share">
    <p>${picture
      ? `The link holds no picture: whoever opens it sees the attention alone, for some minutes, and no answer. A file
        holds the picture, the answer and what was looked at, and needs no service.`
      : 'The link says what was asked and how it is looked at; whoever opens it here sees the same.'}</p>
    <div class="row">
      <button type="button" id="copy-link" onClick=${copy}>Copy the link</button>
      <button type="button" id="save-html" disabled=${stale || !look} onClick=${() => save().catch(failed)}>
        Save ${kept.length ? `the ${kept.length} looks` : 'it'} as one HTML file
      </button>
      <small role="status">${said}</small>
    </div>
    <form class="row" onSubmit=${(event) => keep(event).catch(failed)}>
      <input type="text" name="name" aria-label="Name of this look" placeholder=${look ? nameOf(look) : ''}
        value=${name} onInput=${({ target }) => setName(target.value)} />
      <button id="keep" disabled=${stale || !look}>Keep this look</button>
    </form>
    ${kept.length > 0 && html`<ol id="kept" aria-label="Looks that are kept">${kept.map(item)}</ol>`}
  </section>`
}
