import { graphOf } from './graphs.js'
import { html, useRef, useState } from './preact.js'
import { programs } from './programs.js'
import { queryOf, send } from './service.js'
import { taskOf } from './tasks.js'
import { middleOf, short, unpackMap } from './values.js'
import { STATES } from './words.js'

const FORMS = ['png', 'npz', 'json']
const REVOKED = 10000 // milliseconds after which the browser has begun to save a file

/** Return a question as what is fetched: `path` and `init`. A file goes as it is, its options in the query. */
export function requestOf(model, input, options) {
  const task = taskOf(model)
  const endpoint = task.endpoint ?? (options.labels ? 'classify' : model.endpoints[0])
  const path = `v1/models/${encodeURIComponent(model.name)}/${endpoint}`
  if (input.blob) {
    const { attention: { method, ...rest } = {}, ...flat } = options
    const query = queryOf({ ...flat, ...(method && { attention: method, ...rest }) })
    const type = /^(image|audio)\//.test(input.blob.type) ? input.blob.type : 'application/octet-stream'
    return { path: query ? `${path}?${query}` : path, init: posted(input.blob, type) }
  }
  const { kind, text, pair, messages } = input
  const asked = kind === 'graph' ? { graphs: [graphOf(input)] } : messages ? { messages }
    : task.asks?.(text, pair, options) ?? { inputs: pair ? task.inputs(text, pair) : text }
  return { path, init: posted(JSON.stringify({ ...asked, ...options }), 'application/json') }
}

const posted = (body, type) => ({ method: 'POST', headers: { 'Content-Type': type }, body })

/** Save a look as a file of a form, as a click on a link does. */
async function save(look, selection, form) {
  const { answer: { id }, model, options } = look
  const response = await send(`v1/attention/${id}?${queryOf({ ...saved(look, selection, form), format: form })}`)
  const href = URL.createObjectURL(await response.blob())
  const download = `${model.name}-${options.attention}.${form}`
  Object.assign(document.createElement('a'), { href, download }).click()
  setTimeout(() => URL.revokeObjectURL(href), REVOKED)
}

/** Return the options of a look that a file of this form takes; a picture is drawn as the page draws it. */
function saved({ attention, kind, options: { encoding, ...options } }, drawn, form) {
  if (form !== 'png') return options
  const { heads, row, colormap, opacity, grey, full } = drawn
  const { sides, dtype, ...shown } = options // which a png does not have
  const fused = options.heads === 'all' ? { heads } : {} // as the page fuses or picks them
  const states = kind.grid && STATES.includes(options.attention)
  const cell = () => (row === '' ? middleOf(kind.grid) : Number(row))
  const one = options.attention === 'similar' && kind.grid ? { queries: kind.prefix + cell() } : {}
  const { signed } = unpackMap(attention.maps[0], options.attention) // it has two colours, unless one is asked for
  const ground = { ground: grey ? 'grey' : 'photo', scale: full ? 'full' : 'clipped' }
  return { ...shown, ...fused, ...one, ...((!signed || states) && { colormap }), opacity, ...ground, width: 1024 }
}

/** The request as code in three languages, what it cost, and the look as a file. */
export function Request({ look, selection, stale, again }) {
  const [language, setLanguage] = useState('curl')
  const [said, setSaid] = useState('')
  const code = useRef(null)
  if (!look?.answer.request) return null
  const { answer, options: { encoding, ...readable } } = look
  const shown = programs(answer, readable, taskOf(answer.model).prints)
  const copy = async () => {
    getSelection().selectAllChildren(code.current) // over plain HTTP there is no clipboard, and Ctrl+C must do
    const copied = await navigator.clipboard?.writeText(shown[language]).then(() => true, () => false)
    setSaid(copied ? 'Copied.' : 'It is selected: copy it by Ctrl+C.')
  }
  const download = (form) => save(look, selection, form)
    .then(() => setSaid(''), (refusal) => {
      const forgotten = refusal.status === 404 && answer.input.kind !== 'kept'
      setSaid(forgotten ? 'The service had forgotten the answer, and is asked again. Then save it.' : refusal.message)
      if (forgotten) again()
    })
  const tab = (one) => html`<button type="button" class="plain" key=${one} id=${`code-${one}`}
    aria-pressed=${one === language} onClick=${() => setLanguage(one)}>${one}</button>`
  const saver = (form) => html`<button type="button" key=${form} id=${`save-${form}`}
    disabled=${stale} onClick=${() => download(form)}>
    Save as ${form}
  </button>`
  return html`<section id="request" aria-label="The request" class=${stale ? 'stale' : ''}>
    <div class="row">
      <h2>The request</h2>
      <small>${short(answer.milliseconds)} ms, ${answer.bytes} bytes</small>
      ${Object.keys(shown).map(tab)}
    </div>
    <pre ref=${code} tabindex="0" role="group" aria-label="The request as code">${shown[language]}</pre>
    <div class="row">
      <button type="button" id="copy" onClick=${copy}>Copy</button>
      ${FORMS.map(saver)}
      <small role="status">${said}</small>
    </div>
  </section>`
}
