import { saveFile } from './html_file.js'
import { pictureOf } from './image_file.js'
import { html, useEffect, useMemo, useRef, useState } from './preact.js'
import { question } from './question.js'
import { taskOf } from './tasks.js'
import { percent } from './values.js'

const MOST = 500 // inputs of one set
const AT_ONCE = 2 // questions on their way
const SIDE = 48 // pixels of a thumbnail
const [TEXTS, PAIRS, LABELS] = [ // names of columns, the likeliest first
  ['text', 'sentence', 'input', 'premise', 'question', 'content'],
  ['text_pair', 'pair', 'hypothesis', 'sentence2', 'context'],
  ['label', 'class', 'target', 'answer', 'expected'],
]
const NAMED = /^(train|test|val(id(ation)?)?|images?|data)$/i // folders that are no classes

/** Return the fields of each line of a table (RFC 4180), separated by commas or tabs. */
export function fieldsOf(text, separator) {
  const rows = [[]]
  const part = new RegExp(`(?:"((?:[^"]|"")*)"|([^"${separator}\\r\\n]*))(${separator}|\\r?\\n|$)`, 'y')
  for (;;) {
    const [found, quoted, plain, end] = part.exec(text) ?? ['']
    if (!found && !end) break
    rows.at(-1).push(quoted === undefined ? plain : quoted.replaceAll('""', '"'))
    if (!end) break
    if (end !== separator) rows.push([])
  }
  return rows.filter((row) => row.some(Boolean))
}

/** Return the texts of a table with their labels: of the columns that are named so, else of the first two. */
function textsOf(rows) {
  const names = rows[0].map((one) => one.trim().toLowerCase())
  const of = (some) => some.map((name) => names.indexOf(name)).find((at) => at >= 0)
  const text = of(TEXTS)
  const [pair, label] = text === undefined ? [undefined, rows[0].length > 1 ? 1 : undefined] : [of(PAIRS), of(LABELS)]
  return rows.slice(text === undefined ? 0 : 1).map((row) => ({
    name: row[text ?? 0], label: row[label]?.trim() ?? '',
    input: { kind: 'text', text: row[text ?? 0], pair: row[pair] ?? '' },
  }))
}

/** Return the inputs of some files: pictures, texts, or tables of texts; a picture's folder is its label. */
async function inputsOf(files, sees) {
  const found = await Promise.all(files.map(async (file) => {
    if (/\.[ct]sv$/i.test(file.name)) {
      const text = (await file.text()).replace(/^\ufeff/, '') // a mark that some spreadsheets begin with
      return sees ? [] : textsOf(fieldsOf(text, /tsv$/i.test(file.name) ? '\t' : ','))
    }
    if (sees !== !/^text\/|^$/.test(file.type)) return []
    const folder = file.folder ?? (file.webkitRelativePath ?? '').split('/').slice(0, -1).at(-1) ?? ''
    const label = NAMED.test(folder) ? '' : folder
    if (!sees) return [{ name: file.name, label, input: { kind: 'text', text: (await file.text()).trim(), pair: '' } }]
    return [{ name: file.name, label, input: pictureOf(file, file.name) }]
  }))
  return found.flat().filter(({ input }) => input.kind !== 'text' || input.text)
}

const same = (one, other) => one.trim().toLowerCase() === other.trim().toLowerCase()

/** Ask a model about each input, some at once; `tell` is given each answer. What must wait is asked again. */
async function askAll(model, inputs, selection, signal, tell) {
  const left = [...inputs.keys()]
  const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds))
  const one = async () => {
    while (left.length && !signal.aborted) {
      const at = left.shift()
      try {
        const input = await inputs[at].input
        const { results } = await question(model, input, selection, signal, () => {})
        const { name, share } = taskOf(model).best(results[0]) ?? {}
        tell(at, { input, name, share })
      } catch (refusal) {
        if (signal.aborted) return
        if (refusal.status === 429 || refusal.status === 503) {
          left.unshift(at)
          await wait(refusal.wait ?? 1)
        } else tell(at, { refusal: refusal.message })
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, one))
}

/** A picture of an input, small. */
function Thumbnail({ bitmap }) {
  const canvas = useRef()
  useEffect(() => {
    const scale = SIDE / Math.max(bitmap.width, bitmap.height)
    Object.assign(canvas.current, { width: bitmap.width * scale, height: bitmap.height * scale })
    canvas.current.getContext('2d').drawImage(bitmap, 0, 0, canvas.current.width, canvas.current.height)
  }, [bitmap])
  return html`<canvas class="small" ref=${canvas} />`
}

const commas = (row) => row.map((one) => `"${String(one ?? '').replaceAll('"', '""')}"`).join(',')

/**
 * Many inputs at once: what the model answers of each, how sure it is, and beside it the label that its folder or a
 * column of its table gives; the least sure first, after what is wrong. A click shows one on the page.
 */
export function Several({ files, model, selection, take, about, close }) {
  const sees = Boolean(model.inputs.width)
  const [inputs, setInputs] = useState(null)
  const [answers, setAnswers] = useState({})
  useEffect(() => {
    inputsOf(files, sees).then((found) => setInputs(found.slice(0, MOST)))
  }, [sees])
  useEffect(() => {
    if (!inputs) return
    const controller = new AbortController()
    setAnswers({})
    askAll(model, inputs, selection, controller.signal, (at, answer) =>
      controller.signal.aborted || setAnswers((old) => ({ ...old, [at]: answer })))
    return () => controller.abort()
  }, [inputs, model.name])
  const labelled = inputs?.some(({ label }) => label)
  const rows = useMemo(() => (inputs ?? []).map(({ name, label }, at) => {
    const { input, name: said, share, refusal } = answers[at] ?? {}
    const right = label && said !== undefined ? same(label, said) : null
    return { at, name, label, input, said, share, refusal, right }
  }).sort((one, other) => (one.right === false ? 0 : 1) - (other.right === false ? 0 : 1)
    || (one.share ?? 2) - (other.share ?? 2)), [inputs, answers])
  const done = Object.keys(answers).length
  const busy = inputs && done < inputs.length
  const judged = rows.filter(({ right }) => right !== null)
  const right = judged.filter((one) => one.right).length
  const show = ({ input }) => (input.kind === 'image' ? take(input) : about({ text: input.text, pair: input.pair }))
  const head = ['name', 'answer', 'sure', ...(labelled ? ['label', 'right'] : [])]
  const fields = ({ name, said, refusal, share, label, right: fits }) =>
    [name, refusal ?? said ?? '', share ?? '', ...(labelled ? [label, fits === null ? '' : fits ? 'yes' : 'no'] : [])]
  const save = () => saveFile(new Blob([[head, ...rows.map(fields)].map(commas).join('\r\n')], { type: 'text/csv' }),
    `${model.name}.csv`)
  const line = (row) => html`<tr key=${row.at} class=${row.right === false ? 'wrong' : ''}>
    <td>${row.input?.bitmap && html`<${Thumbnail} bitmap=${row.input.bitmap} />`}
      ${!row.input ? row.name
        : html`<button type="button" class="plain" onClick=${() => show(row)}>${row.name}</button>`}</td>
    <td>${row.refusal ?? row.said ?? '…'}</td>
    <td>${row.share === undefined ? '' : percent(row.share)}</td>
    ${labelled && html`<td>${row.label}</td><td>${row.right === null ? '' : row.right ? '✓' : '✗ wrong'}</td>`}
  </tr>`
  return html`<section id="several" aria-label="A set">
    <div class="row"><h2>A set</h2>
      <small role="status">
        ${!inputs ? 'reading …' : busy ? `${done} of ${inputs.length}` : `${done} asked`}
        ${judged.length > 0 && `, ${right} of ${judged.length} as their labels say (${percent(right / judged.length)})`}
      </small>
      <button type="button" id="save-csv" disabled=${!done} onClick=${save}>Save as CSV</button>
      <button type="button" id="close-several" onClick=${close}>${busy ? 'Stop' : 'Close'}</button>
    </div>
    ${inputs?.length === 0
      && html`<p class="caution">None of these files holds ${sees ? 'a picture' : 'a text'}.</p>`}
    ${inputs && files.length > MOST && html`<p class="quiet">The first ${MOST} are asked.</p>`}
    ${rows.length > 0 && html`<div class="figures" tabindex="0" role="region" aria-label="Answers of the set"><table>
      <thead><tr>${head.map((one) => html`<th scope="col">${one}</th>`)}</tr></thead><tbody>${rows.map(line)}</tbody>
    </table></div>`}
  </section>`
}
