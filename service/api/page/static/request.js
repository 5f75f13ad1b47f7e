import { html, useRef, useState } from './preact.js'
import { programs } from './programs.js'
import { queryOf, send } from './service.js'
import { short } from './values.js'

const FORMS = ['png', 'npz', 'json']
const REVOKED = 10000 // milliseconds after which the browser has begun to save a file

/** Return a question as what is fetched: `path` and `init`. An image goes as it is, its options in the query. */
export function requestOf(model, input, options) {
  const [endpoint] = model.endpoints
  const path = `v1/models/${encodeURIComponent(model.name)}/${endpoint}`
  if (input.kind === 'image') {
    const { attention: { method, ...rest } = {}, ...flat } = options
    const query = queryOf({ ...flat, ...(method && { attention: method, ...rest }) })
    const type = input.blob.type.startsWith('image/') ? input.blob.type : 'application/octet-stream'
    return { path: query ? `${path}?${query}` : path, init: posted(input.blob, type) }
  }
  const { text, pair } = input
  const inputs = !pair ? text : model.task === 'text-classification' ? { text, text_pair: pair } : [text, pair]
  return { path, init: posted(JSON.stringify({ inputs, ...options }), 'application/json') }
}

const posted = (body, type) => ({ method: 'POST', headers: { 'Content-Type': type }, body })

/** Save a look as a file of a form, as a click on a link does. */
async function save(id, options, form, name) {
  const query = queryOf({ ...saved(options, form), format: form, ...(form === 'png' && { width: 1024 }) })
  const response = await send(`v1/attention/${id}?${query}`)
  const href = URL.createObjectURL(await response.blob())
  Object.assign(document.createElement('a'), { href, download: `${name}.${form}` }).click()
  setTimeout(() => URL.revokeObjectURL(href), REVOKED)
}

/** Return the options of a look that a file of this form takes. */
function saved({ encoding, ...options }, form) {
  if (form === 'png' && options.attention === 'raw' && options.heads === 'all') return { ...options, heads: 'mean' }
  return options
}

/** The request as code in three languages, what it cost, and the look as a file. */
export function Request({ answer, options, model }) {
  const [language, setLanguage] = useState('curl')
  const [said, setSaid] = useState('')
  const code = useRef(null)
  if (!answer?.request) return null
  const { encoding, ...readable } = options
  const shown = programs(answer.request, queryOf(readable), answer.input.name)
  const copy = async () => {
    getSelection().selectAllChildren(code.current) // over plain HTTP there is no clipboard, and Ctrl+C must do
    await navigator.clipboard?.writeText(shown[language]).then(() => setSaid('Copied.'), () => {})
  }
  const download = (form) => save(answer.id, options, form, `${model.name}-${options.attention}`)
    .then(() => setSaid(''), (refusal) => setSaid(refusal.message))
  const tab = (one) => html`<button type="button" class="plain" key=${one} id=${`code-${one}`}
    aria-pressed=${one === language} onClick=${() => setLanguage(one)}>${one}</button>`
  const saver = (form) => html`<button type="button" key=${form} id=${`save-${form}`} onClick=${() => download(form)}>
    Save as ${form}
  </button>`
  return html`<section id="request" aria-label="The request">
    <div class="row">
      <h2>The request</h2>
      <small>${short(answer.milliseconds)} ms, ${answer.bytes} bytes</small>
      ${Object.keys(shown).map(tab)}
    </div>
    <pre ref=${code} tabindex="0" aria-label="The request as code">${shown[language]}</pre>
    <div class="row">
      <button type="button" id="copy" onClick=${copy}>Copy</button>
      ${answer.id && FORMS.map(saver)}
      <small role="status">${said}</small>
    </div>
  </section>`
}
