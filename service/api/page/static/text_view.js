import { SERIES } from './colours.js'
import { Legend } from './legend.js'
import { Lines } from './lines.js'
import { Matrix } from './matrix.js'
import { html, useEffect, useState } from './preact.js'
import { InPlace, readout } from './tokens.js'
import { difference, keepMass, largest, without } from './values.js'
import { KINDS } from './words.js'

const VIEWS = { place: 'in place', lines: 'lines', matrix: 'matrix' }

/** Return a look without the tokens that are hidden: special ones, or all but those of one text to the other. */
export function shownLook(look, { special, only, keep }) {
  const paired = look.columns.some(({ sequence }) => sequence)
  const hides = (sequence) => (token) => (special && token.special) || (only && paired && (token.sequence ?? 0) !== sequence)
  const hidden = (tokens, sequence) => new Set([...tokens.keys()].filter((at) => hides(sequence)(tokens[at])))
  const [queries, keys] = [hidden(look.rows, 0), hidden(look.columns, 1)]
  if (queries.size === look.rows.length || keys.size === look.columns.length) return look
  const left = look.series.map((one) => {
    const { values, ...kept } = without(one.values, look.rows.length, look.columns.length, queries, keys, look.normalized)
    return { ...one, values: keepOfRows(values, kept.keys.length, Number(keep)), ...kept }
  })
  return {
    ...look, series: left.map(({ queries: _, keys: __, ...one }) => one),
    rows: left[0].queries.map((at) => look.rows[at]), columns: left[0].keys.map((at) => look.columns[at]),
    sure: look.sure.length ? left[0].queries.map((at) => look.sure[at]) : [], same: look.same && queries.size === keys.size && !only,
  }
}

/** Return values with the largest of each row alone, as far as they hold a share of its mass. */
function keepOfRows(values, columns, share) {
  if (share === 1) return values
  const kept = values.slice()
  for (let at = 0; at < kept.length; at += columns) kept.set(keepMass(kept.subarray(at, at + columns), share), at)
  return kept
}

/** What was looked at in a text: in place, by lines, as a matrix; of several heads, and beside another look. */
export function TextView({ look: whole, other, selection, change, kind, playing, edit }) {
  const [hovered, setHovered] = useState(null)
  const [column, setColumn] = useState(null)
  useEffect(() => setHovered(null), [whole])
  const look = shownLook(whole, selection)
  const pinned = selection.row === '' ? null : Math.min(Number(selection.row), look.rows.length - 1)
  const row = playing ?? hovered ?? pinned ?? 0
  const pin = (at) => change({ row: at === null || at === pinned ? '' : String(at) })
  const compared = other && shownLook(other.look, selection)
  const sets = [{ look, label: other?.here }, ...(compared ? [{ look: compared, label: other.there, own: !other.comparable }] : [])]
  const alike = compared && other.comparable && compared.rows.length === look.rows.length && compared.columns.length === look.columns.length
  if (alike) {
    const changed = difference(compared.series[0].values, look.series[0].values)
    sets.push({ look: { ...look, signed: true, series: [{ name: 'difference', values: changed }] }, label: 'difference', own: true })
  }
  const tops = sets.map(({ look: { series, signed } }) => Math.max(...series.map(({ values }) => largest(values, signed))))
  const shared = Math.max(...tops.filter((_, at) => !sets[at].own))
  const topOf = (at) => (selection.own || sets[at].own ? tops[at] : shared)
  const drawn = ({ look: one, label }, at) => html`
    <figure key=${at}>${label && html`<figcaption>${label}</figcaption>`}
      <${Drawn} view=${selection.view} look=${one} row=${Math.min(row, one.rows.length - 1)} hovered=${hovered} pinned=${pinned} column=${column}
        top=${topOf(at)} colormap=${selection.colormap} hover=${setHovered} point=${setColumn} pin=${pin} />
    </figure>`
  const token = pinned === null || look.rows[pinned]?.special || !look.rows[pinned]?.span ? null : look.rows[pinned]
  return html`
    <div class="tabs" role="group" aria-label="View">${Object.entries(VIEWS).map(([view, words]) => html`
      <button type="button" key=${view} id=${`view-${view}`} aria-pressed=${selection.view === view} onClick=${() => change({ view })}>${words}</button>`)}
      <small>${look.explains ? 'What the marked one owes to what.' : 'What the marked token looks at.'} Hover, or click to pin; Escape unpins.</small></div>
    <div class=${sets.length > 1 ? 'several' : ''} id="looks" onKeyDown=${(event) => event.key === 'Escape' && pin(null)}>${sets.map(drawn)}</div>
    <output class="readout">${readout({ ...look, values: look.series[0].values, row, column, sure: look.sure[row] })}</output>
    ${token && edit && kind.query === 'source' && html`<${Edit} token=${token} edit=${edit} />`}
    ${selection.view === 'matrix' && html`<p class="quiet">${KINDS[kind.name].rows}${look.apart && '; the 1 that each row’s own entry starts with is taken off'}</p>`}
    ${selection.view === 'matrix' && html`<${Legend} top=${topOf(0)} signed=${look.signed} colormap=${selection.colormap} />`}
    ${selection.view === 'lines' && look.series.length > 1 && html`<p class="quiet">${look.series.map(({ name, head }, at) => html`
      <span class="swatch" style=${{ color: SERIES[(head ?? at) % SERIES.length] }}>■</span> ${name} `)}</p>`}`
}

function Drawn({ view, look, row, hovered, pinned, column, top, colormap, hover, point, pin }) {
  const { rows, columns, series, signed, explains } = look
  const coloured = series.map((one, at) => ({ ...one, signed, colour: SERIES[(one.head ?? at) % SERIES.length] }))
  if (view === 'lines') return html`<${Lines} rows=${rows} columns=${columns} series=${coloured} pinned=${pinned} hovered=${hovered}
    onHover=${hover} onPick=${pin} least=${0.04} />`
  if (view === 'matrix') return series.map(({ name, values }) => html`
    ${series.length > 1 && html`<small>${name}</small>`}
    <${Matrix} key=${name} rows=${rows} columns=${columns} values=${values} signed=${signed} top=${top} colormap=${colormap}
      hovered=${hovered === null ? null : { row: hovered, column }} pinned=${pinned === null ? null : { row: pinned }}
      onHover=${(cell) => (hover(cell?.row ?? null), point(cell?.column ?? null))} onPick=${(cell) => pin(cell?.row ?? null)}
      label=${explains ? 'Matrix of shares' : 'Matrix of attention'} />`)
  return series.map(({ name, values }) => html`
    ${series.length > 1 && html`<small>${name}</small>`}
    <${InPlace} key=${name} rows=${rows} columns=${columns} values=${values} signed=${signed} row=${row} hovered=${hovered} pinned=${pinned}
      text=${look.text} before=${look.before} sure=${look.sure} same=${look.same} onHover=${hover} onPick=${pin} />`)
}

/** Mask or change the pinned token, and see what becomes of the answer. */
function Edit({ token, edit }) {
  const [words, setWords] = useState('')
  const send = (event) => {
    event.preventDefault()
    edit(token, words)
  }
  return html`<form class="row edit" onSubmit=${send}>
    <span>Instead of “${token.text.trim()}”</span>
    <input type="text" name="instead" aria-label="Instead of the pinned token" value=${words} onInput=${({ target }) => setWords(target.value)} />
    <button>Change it and compare</button>
    ${edit.mask && html`<button type="button" id="mask" onClick=${() => edit(token, edit.mask)}>Mask it</button>`}
    <button type="button" id="remove" onClick=${() => edit(token, '')}>Leave it out</button>
  </form>`
}
