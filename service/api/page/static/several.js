import { canvasOf } from './canvas.js'
import { isTable, isText } from './dropped.js'
import { saveFile } from './html_file.js'
import { pictureOf } from './image_file.js'
import { html, useEffect, useMemo, useRef, useState } from './preact.js'
import { question } from './question.js'
import { taskOf } from './tasks.js'
import { percent } from './values.js'

const MOST = 500 // inputs of one set
const AT_ONCE = 2 // questions on their way
const SIDE = 48 // pixels of a thumbnail
const AGAIN = 2 // seconds, where the service names none
const [TEXTS, PAIRS, LABELS] = [ // names of columns, the likeliest first
  ['text', 'sentence', 'input', 'premise', 'question', 'content'],
  ['text_pair', 'pair', 'hypothesis', 'sentence2', 'context'],
  ['label', 'class', 'target', 'answer', 'expected'],
]
const NAMED = /^(train|test|val(id(ation)?)?|images?|data)$/i // folders that are no classes

/** Return the fields of each line of a table (RFC 4180), between commas or tabs; in the latter quotes are letters. */
export function fieldsOf(text, separator) {
  const rows = [[]]
  const whole = separator === ',' ? '"(?<quoted>(?:[^"]|"")*)"(?=[,\\r\\n]|$)|' : ''
  const part = new RegExp(`(?:${whole}(?<plain>[^${separator}\\r\\n]*))(?<end>${separator}|\\r?\\n|\\r|$)`, 'y')
  while (part.lastIndex < text.length) {
    const { quoted, plain, end } = part.exec(text).groups
    rows.at(-1).push(quoted?.replaceAll('""', '"') ?? plain)
    if (end && end !== separator) rows.push([])
  }
  return rows.filter((row) => row.some(Boolean))
}

/** Return the texts of a table with their labels: of the columns that are named so, else of the first two. */
function textsOf(rows) {
  if (!rows.length) return []
  const names = rows[0].map((one) => one.trim().toLowerCase())
  const of = (some) => some.map((name) => names.indexOf(name)).find((at) => at >= 0)
  const text = of(TEXTS)
  const [pair, label] = text === undefined ? [undefined, rows[0].length > 1 ? 1 : undefined] : [of(PAIRS), of(LABELS)]
  return rows.slice(text === undefined ? 0 : 1).map((row) => ({
    name: row[text ?? 0], label: row[label]?.trim() ?? '', text: row[text ?? 0], pair: row[pair] ?? '',
  }))
}

/** Return the inputs of a file: a picture, a text, or the texts of a table; a picture's folder is its label. */
async function inputsIn(file, sees) {
  if (isTable(file)) {
    const text = (await file.text()).replace(/^\ufeff/, '') // a mark that some spreadsheets begin with
    return sees ? [] : textsOf(fieldsOf(text, /tsv$/i.test(file.name) ? '\t' : ','))
  }
  if (file.name.startsWith('.')) return [] // a system's own
  if (sees ? isText(file) || !/^image\/|^$/.test(file.type) : !isText(file)) return []
  const folder = file.folder ?? (file.webkitRelativePath ?? '').split('/').slice(0, -1).at(-1) ?? ''
  const label = NAMED.test(folder) ? '' : folder
  return [{ name: file.name, label, ...(sees ? { file } : { text: (await file.text()).trim(), pair: '' }) }]
}

/** Return the inputs of some files, and how many there are beyond MOST: {inputs, more}. */
async function inputsOf(files, sees) {
  const inputs = []
  for (const file of files) { // one after the other: there may be thousands
    const found = (await inputsIn(file, sees)).filter(({ text }) => text !== '')
    inputs.push(...found)
  }
  return { inputs: inputs.slice(0, MOST), more: Math.max(inputs.length - MOST, 0) }
}

/** Return an input as what is asked. */
const asked = ({ file, text, pair }) => (file ? pictureOf(file, file.name) : { kind: 'text', text, pair })

/** Return a picture of a bitmap, small: the bitmap of a photograph takes megabytes. */
function small(bitmap) {
  const scale = SIDE / Math.max(bitmap.width, bitmap.height)
  const canvas = canvasOf(Math.ceil(bitmap.width * scale), Math.ceil(bitmap.height * scale))
  canvas.getContext('2d').drawImage(bitmap, 0, 0, canvas.width, canvas.height)
  return canvas.toDataURL()
}

const leastSure = (one, other) => (one.right === false ? 0 : 1) - (other.right === false ? 0 : 1)
  || (one.share ?? 2) - (other.share ?? 2)

const same = (one, other) => one.trim().toLowerCase() === other.trim().toLowerCase()

/** Ask a model about each input, some at once; `tell` is given each answer. What must wait is asked again. */
async function askAll(model, inputs, selection, signal, tell) {
  const left = [...inputs.keys()]
  const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds))
  const one = async () => {
    while (left.length && !signal.aborted) {
      const at = left.shift()
      try {
        const input = await asked(inputs[at])
        const { results: [result] } = await question(model, input, selection, signal)
        const { name, share } = taskOf(model).best(result) ?? { name: taskOf(model).said(result) }
        tell(at, { name, share, picture: input.bitmap && small(input.bitmap) })
      } catch (refusal) {
        if (signal.aborted) return
        if ([0, 429, 503].includes(refusal.status)) {
          left.unshift(at)
          await wait(refusal.wait ?? AGAIN)
        } else tell(at, { refusal: refusal.message })
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, one))
}

/** Return a row of CSV: no field of it is taken for a formula by a spreadsheet. */
const commas = (row) => row.map((one) => {
  const text = String(one ?? '')
  const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text
  return `"${safe.replaceAll('"', '""')}"`
}).join(',')

/**
 * Many inputs at once: what the model answers of each, how sure it is, and beside it the label that its folder or a
 * column of its table gives; the least sure first, after what is wrong. A click shows one on the page.
 */
export function Several({ files, model, selection, take, about, close }) {
  const sees = Boolean(model.inputs.width)
  const [{ inputs, more }, setFound] = useState({ inputs: null, more: 0 })
  const [answers, setAnswers] = useState({})
  const box = useRef()
  useEffect(() => {
    let gone = false
    box.current.focus()
    inputsOf(files, sees).catch(() => ({ inputs: [], more: 0 })).then((found) => gone || setFound(found))
    return () => (gone = true)
  }, [files])
  useEffect(() => {
    if (!inputs) return
    const controller = new AbortController()
    setAnswers({})
    askAll(model, inputs, selection, controller.signal, (at, answer) =>
      controller.signal.aborted || setAnswers((old) => ({ ...old, [at]: answer })))
    return () => controller.abort()
  }, [inputs, model.name])
  const done = Object.keys(answers).length
  const busy = inputs && done < inputs.length
  const labelled = inputs?.some(({ label }) => label)
  const rows = useMemo(() => {
    const all = (inputs ?? []).map(({ name, label }, at) => {
      const { name: said, ...answer } = answers[at] ?? {}
      return { at, name, label, said, ...answer, right: label && said !== undefined ? same(label, said) : null }
    })
    return busy ? all : all.sort(leastSure) // nothing moves under the pointer while answers come
  }, [inputs, answers, busy])
  const judged = rows.filter(({ right }) => right !== null)
  const right = judged.filter((one) => one.right).length
  const show = ({ at }) => {
    const { file, text, pair } = inputs[at]
    if (file) take(pictureOf(file, file.name))
    else about({ text, pair })
  }
  const end = () => {
    close()
    document.getElementById('look').focus()
  }
  const head = ['name', 'answer', 'sure', ...(labelled ? ['label', 'right'] : [])]
  const fields = ({ name, said, refusal, share, label, right: fits }) =>
    [name, refusal ?? said ?? '', share ?? '', ...(labelled ? [label, fits === null ? '' : fits ? 'yes' : 'no'] : [])]
  const save = () => {
    const lines = [head, ...rows.map(fields)].map(commas).join('\r\n')
    saveFile(new Blob(['\ufeff', lines], { type: 'text/csv' }), `${model.name}.csv`) // a mark, for spreadsheets
  }
  const counted = judged.length
    ? `, ${right} of ${judged.length} as their labels say (${percent(right / judged.length)})` : ''
  const said = !inputs ? 'reading …' : `${busy ? `${done} of ${inputs.length}` : `${done} asked`}${counted}`
  const line = (row) => html`<tr key=${row.at} class=${row.right === false ? 'wrong' : ''}>
    <td>${row.picture && html`<img class="small" src=${row.picture} alt="" />`}
      <button type="button" class="plain" onClick=${() => show(row)}>${row.name}</button></td>
    <td>${row.refusal ?? row.said ?? '…'}</td>
    <td>${row.share === undefined ? '' : percent(row.share)}</td>
    ${labelled && html`<td>${row.label}</td><td>${row.right === null ? '' : row.right ? '✓' : '✗ wrong'}</td>`}
  </tr>`
  return html`<section id="several" aria-label="A set" tabindex="-1" ref=${box}>
    <div class="row"><h2>A set</h2>
      <small>${said}</small>
      <span role="status" class="hidden-words">${busy ? '' : said}</span>
      <button type="button" id="save-csv" disabled=${!done} onClick=${save}>Save as CSV</button>
      <button type="button" id="close-several" onClick=${end}>${busy ? 'Stop' : 'Close'}</button>
    </div>
    ${inputs?.length === 0
      && html`<p class="caution">None of these files holds ${sees ? 'a picture' : 'a text'}.</p>`}
    ${more > 0 && html`<p class="caution">The first ${MOST} are asked, ${more} are not.</p>`}
    ${rows.length > 0 && html`<div class="figures" tabindex="0" role="region" aria-label="Answers of the set"><table>
      <thead><tr>${head.map((one) => html`<th scope="col">${one}</th>`)}</tr></thead><tbody>${rows.map(line)}</tbody>
    </table></div>`}
  </section>`
}
