import { html, useState } from './preact.js'
import { addressOf, hasKey, queryOf, send } from './service.js'
import { short } from './values.js'

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'` // for a shell

/** Return a question as what is fetched: `path` and `init`. An image goes as it is, its options in the query. */
export function requestOf(model, input, options) {
  const [endpoint] = model.endpoints
  const path = `v1/models/${encodeURIComponent(model.name)}/${endpoint}`
  if (input.kind === 'image') {
    const { attention: { method, ...rest } = {}, ...flat } = options
    const query = queryOf({ ...flat, ...(options.attention && { ...(method && { attention: method }), ...rest }) })
    const type = input.blob.type.startsWith('image/') ? input.blob.type : 'application/octet-stream'
    return { path: query ? `${path}?${query}` : path, init: { method: 'POST', headers: { 'Content-Type': type }, body: input.blob } }
  }
  const { text, pair } = input
  const inputs = !pair ? text : model.task === 'text-classification' ? { text, text_pair: pair } : [text, pair]
  const body = JSON.stringify({ inputs, ...options })
  return { path, init: { method: 'POST', headers: { 'Content-Type': 'application/json' }, body } }
}

/** Return what was sent as a program in each language: the question, and the look at it by its id. */
export function programs({ path, init }, look, name = 'input') {
  const key = hasKey()
  const image = typeof init.body !== 'string'
  const type = init.headers['Content-Type']
  const [question, again] = [addressOf(path), `${addressOf('v1/attention')}/`]
  const curl = ['curl', ...(key ? ['-H "Authorization: Bearer $REGARD_KEY"'] : []), `-H 'Content-Type: ${type}'`,
    image ? `--data-binary ${quoted(`@${name}`)}` : `-d ${quoted(init.body)}`, quoted(question)].join(' \\\n  ')
  const second = ['curl', ...(key ? ['-H "Authorization: Bearer $REGARD_KEY"'] : []), `"${again}$ID?${look}"`].join(' \\\n  ')
  const headers = { 'Content-Type': type }
  return {
    curl: `${curl}\n# ID is the "id" of the answer\n${second}`,
    Python: [
      ...(key ? ['import os', ''] : []), 'import httpx', '',
      `headers = ${key ? `{"Authorization": f"Bearer {os.environ['REGARD_KEY']}"}` : '{}'}`,
      image ? `with open(${JSON.stringify(name)}, "rb") as file:\n    body = file.read()` : `body = ${JSON.stringify(init.body)}`,
      `answer = httpx.post(${JSON.stringify(question)},\n    content=body, headers={**headers, ${JSON.stringify(headers).slice(1)}).json()`,
      'print(answer["results"])', `look = httpx.get(f"${again}{answer['id']}?${look}", headers=headers).json()`,
      'print(look["results"][0]["attention"])',
    ].join('\n'),
    JavaScript: [
      `const headers = ${key ? '{ Authorization: `Bearer ${process.env.REGARD_KEY}` }' : '{}'}`,
      image ? `const body = await (await import('node:fs/promises')).readFile(${JSON.stringify(name)})` : `const body = ${JSON.stringify(init.body)}`,
      `const asked = await fetch(${JSON.stringify(question)}, { method: 'POST', body, headers: { ...headers, ${JSON.stringify(headers).slice(1, -1)} } })`,
      'const { id, results } = await asked.json()', 'console.log(results)',
      `const look = await (await fetch(\`${again}\${id}?${look}\`, { headers })).json()`,
      'console.log(look.results[0].attention)',
    ].join('\n'),
  }
}

/** The request as code in three languages, what it cost, and the look as a file. */
export function Request({ answer, options, model }) {
  const [language, setLanguage] = useState('curl')
  const [said, setSaid] = useState('')
  if (!answer?.request) return null
  const { encoding, ...readable } = options
  const look = queryOf(readable)
  const code = programs(answer.request, look, answer.input.name)
  const copy = async (event) => {
    getSelection().selectAllChildren(event.target.closest('section').querySelector('pre')) // over plain HTTP there is no clipboard, and Ctrl+C must do
    await navigator.clipboard?.writeText(code[language]).then(() => setSaid('Copied.'), () => {})
  }
  const download = async (form) => {
    const drawn = form === 'png' ? '&width=1024' : ''
    try {
      const response = await send(`v1/attention/${answer.id}?${queryOf(saved(options, form))}&format=${form}${drawn}`)
      const link = document.createElement('a')
      link.href = URL.createObjectURL(await response.blob())
      link.download = `${model.name}-${options.attention}.${form}`
      link.click()
      setTimeout(() => URL.revokeObjectURL(link.href), 10000)
      setSaid('')
    } catch (refusal) {
      setSaid(refusal.message)
    }
  }
  return html`<section id="request" aria-label="The request">
    <div class="row">
      <h2>The request</h2>
      <small>${short(answer.milliseconds)} ms, ${answer.bytes} bytes</small>
      ${Object.keys(code).map((one) => html`<button type="button" class="plain" key=${one} id=${`code-${one}`}
        aria-pressed=${one === language} onClick=${() => setLanguage(one)}>${one}</button>`)}
    </div>
    <pre tabindex="0" aria-label="The request as code">${code[language]}</pre>
    <div class="row">
      <button type="button" id="copy" onClick=${copy}>Copy</button>
      ${answer.id && ['png', 'npz', 'json'].map((form) => html`<button type="button" key=${form} id=${`save-${form}`} onClick=${() => download(form)}>Save as ${form}</button>`)}
      <small role="status">${said}</small>
    </div>
  </section>`
}

/** Return the options of a look that a file of this form takes. */
function saved({ encoding, dtype, pool, diagnostics, ...options }, form) {
  if (form === 'png' && options.attention === 'raw' && options.heads === 'all') return { ...options, heads: 'mean' }
  return options
}
