import { SERIES } from './colours.js'
import { AsTable } from './figures.js'
import { Later } from './lazy.js'
import { Legend } from './legend.js'
import { Lines } from './lines.js'
import { Matrix } from './matrix.js'
import { html, useEffect, useMemo, useState } from './preact.js'
import { pinnedOf, rowNamed } from './selection.js'
import { Roving } from './roving.js'
import { InPlace, readout } from './tokens.js'
import { difference, keepMass, labelOf, largest, range, rowOrMean, short, without } from './values.js'
import { TOUCH, wordsOf } from './words.js'

const VIEWS = { place: 'in place', lines: 'lines', matrix: 'matrix' }
const LEAST = 0.04 // share of the largest weight: a line is drawn above it

/** Return a look without the tokens that are hidden: special ones, or all but those of one text to the other. */
function shownLook(look, special, only, keep) {
  const paired = look.columns.some(({ sequence }) => sequence)
  const hidden = (tokens, text) => new Set([...tokens.keys()].filter((at) => {
    const { special: isSpecial, sequence } = tokens[at]
    return (special && isSpecial) || (only && paired && (sequence ?? 0) !== text)
  }))
  const [high, wide] = [look.rows.length, look.columns.length]
  const [queries, keys] = [hidden(look.rows, 0), hidden(look.columns, 1)]
  if (queries.size === high || keys.size === wide) return { ...look, kept: range(high) }
  const left = look.series.map(({ values }) => without(values, high, wide, queries, keys, look.normalized))
  const [{ queries: rows, keys: columns }] = left
  return {
    ...look,
    kept: rows, // of all rows, by number
    rows: rows.map((at) => look.rows[at]),
    columns: columns.map((at) => look.columns[at]),
    series: look.series.map((one, at) => ({ ...one, values: keepOfRows(left[at].values, columns.length, keep) })),
    sure: look.sure.length ? rows.map((at) => look.sure[at]) : [],
    same: look.same && queries.size === keys.size && !only,
  }
}

/** Return values with the largest of each row alone, as far as they hold a share of its mass. */
function keepOfRows(values, columns, share) {
  if (share === 1) return values
  const kept = values.slice()
  for (let at = 0; at < kept.length; at += columns) kept.set(keepMass(kept.subarray(at, at + columns), share), at)
  return kept
}

/** Return a look as the selection shows it (none without one), the same one as long as that is the same. */
const useShown = (look, { special, only, keep }) =>
  useMemo(() => look && shownLook(look, special, only, Number(keep)), [look, special, only, keep])

/**
 * Return what stands side by side: the look, the one that it is compared with, and their difference, where they have
 * one and are of one answer. Each has the `top` of its scale: of those of one unit the largest of all, unless each has
 * its `own`.
 */
function panelsOf(look, compared, { here, there, comparable }, own) {
  const panels = [{ look, label: here }]
  if (compared) panels.push({ look: compared, label: there, apart: !comparable })
  const alike = ({ rows, columns }) => rows.length === look.rows.length && columns.length === look.columns.length
  if (compared && comparable && compared.subject === look.subject && alike(compared)) {
    const values = difference(compared.series[0].values, look.series[0].values)
    const changed = { ...look, signed: true, series: [{ name: 'difference', values }] }
    panels.push({ look: changed, label: 'difference', apart: true })
  }
  const tops = panels.map(({ look: { series, signed } }) =>
    Math.max(...series.map(({ values }) => largest(values, signed))))
  const shared = Math.max(...tops.filter((_, at) => !panels[at].apart))
  return panels.map((panel, at) => ({ ...panel, top: own || panel.apart ? tops[at] : shared }))
}

/** Return one row as a table: a line for each token, with a value for each series. */
function rowTable({ rows, columns, series }, row) {
  const own = series.map(({ values }) => rowOrMean(values, columns.length, row))
  const line = (token, at) => [labelOf(token), ...own.map((values) => Number(short(values[at])))]
  const head = ['token', ...series.map(({ name }) => name)]
  const caption = row === null ? 'The mean of all' : `From “${labelOf(rows[row])}”`
  return { caption, head, rows: columns.map(line), sorts: true }
}

/** Return the whole matrix as a table, of the first series. */
function matrixTable({ rows, columns, series: [{ values }] }) {
  const line = (token, row) => [
    labelOf(token), ...columns.map((_, at) => Number(short(values[row * columns.length + at])))]
  return { caption: 'The matrix', head: ['', ...columns.map(labelOf)], rows: rows.map(line) }
}

/**
 * What was looked at in a text: in place, by lines, as a matrix; of several heads, and beside another look. `point` is
 * told which row is hovered, by its number, null for none.
 */
export function TextView({ look: whole, other, selection, change, kind, playing, edit, point = () => {} }) {
  const { own, colormap, log, zoom } = selection
  const view = selection.view || (whole.numbers || kind.key === 'frame' ? 'matrix' : 'place') // of no text
  const [hovered, setHovered] = useState(null)
  const [hoveredColumn, setHoveredColumn] = useState(null)
  const look = useShown(whole, selection)
  const compared = useShown(other?.look, selection)
  const panels = useMemo(
    () => panelsOf(look, compared, other ?? {}, own),
    [look, compared, other?.here, other?.there, other?.comparable, own],
  )
  useEffect(() => {
    setHovered(null)
    setHoveredColumn(null)
  }, [look, view])

  const shownRow = (at) => (at === null || !look.kept.includes(at) ? null : look.kept.indexOf(at))
  const pinned = shownRow(pinnedOf(selection))
  const graph = view === 'place' ? look.graph : null // its heat stays while somebody passes over nodes
  const marked = shownRow(playing) ?? (graph ? null : hovered) ?? pinned ?? shownRow(whole.about) ?? (graph ? null : 0)
  const rowIn = ({ rows }) => (marked === null ? null : Math.min(marked, rows.length - 1))
  const row = rowIn(look)
  const column = hoveredColumn < look.columns.length ? hoveredColumn : null
  const pin = (at) => change({ row: rowNamed(at === pinned || at === null ? null : look.kept[at]) })
  const hover = (at) => {
    setHovered(at)
    point(at === null ? null : look.kept[at])
  }
  const matrix = { log: Boolean(log), zoom: Number(zoom) }
  const shared = { view, hovered, pinned, column, colormap, ...matrix, hover, point: setHoveredColumn, pin }
  const panel = ({ look: one, label, top }, at) => html`<figure key=${at}>
    ${label && html`<figcaption>${label}</figcaption>`}
    <${Drawn} ...${shared} look=${one} row=${rowIn(one)} top=${top} />
  </figure>`
  const said = ({ name, values }) => (look.series.length > 1 ? `${name}: ` : '')
    + [[row, column], ...(graph && hovered !== null ? [[hovered, null]] : [])].map(([row, column]) =>
      readout({ ...look, values, row, column, sure: look.sure[row] })).join('\n')
  const token = look.rows[pinned]
  const editable = edit && kind.query === 'source' && token?.span && !token.special && !token.sequence
  return html`
    <${Tabs} view=${view} change=${change} explains=${look.explains} alike=${look.alike}
      graph=${look.graph} what=${{ object: 'object', node: 'node' }[kind.query] ?? 'token'} />
    <div class=${panels.length > 1 ? 'several' : ''} id="looks" onKeyDown=${({ key }) => key === 'Escape' && pin(null)}>
      ${panels.map(panel)}
    </div>
    <output class="readout">${look.series.map(said).join('\n')}</output>
    <${AsTable} key=${view} table=${() => (view === 'matrix' ? matrixTable(look) : rowTable(look, row))} />
    ${editable && html`<${Edit} token=${token} edit=${edit} />`}
    ${view === 'matrix' && html`
      <p class="quiet">
        ${look.alike ? 'How like rows and columns are' : wordsOf(kind).rows}
        ${look.apart && '; the 1 that each row’s own entry starts with is taken off'}
      </p>
      <label>Zoom <input type="range" id="zoom" name="zoom" min="1" max="8" step="1" value=${zoom}
        onInput=${({ target }) => change({ zoom: target.value })} /></label>
      <label class="box"><input type="checkbox" name="log" checked=${Boolean(log)}
        onChange=${({ target }) => change({ log: target.checked ? '1' : '' })} /> logarithmic colours</label>
      <${Legend} top=${panels[0].top} signed=${look.signed} colormap=${colormap} log=${Boolean(log)}
        explains=${look.explains} />`}
    ${view === 'lines' && look.series.length > 1 && html`<${Swatches} series=${look.series} />`}`
}

function Tabs({ view, change, explains, alike, what, graph }) {
  const tab = ([name, words]) => html`<button type="button" key=${name} id=${`view-${name}`}
    aria-pressed=${view === name} onClick=${() => change({ view: name })}>${words}</button>`
  const meaning = explains ? `What each ${what} contributed to ${graph ? 'the answer' : 'the marked one'}.`
    : `What the marked ${what} ${alike ? 'is like' : 'looks at'}.`
  return html`<${Roving} class="tabs" aria-label="View">
    ${Object.entries({ ...VIEWS, ...(graph && { place: 'graph' }) }).map(tab)}
    <small>${meaning} ${TOUCH ? 'Touch one to pin it.' : 'Point at one, or click to pin it; Escape unpins.'}</small>
  <//>`
}

const colourOf = ({ head }, at) => SERIES[(head ?? at) % SERIES.length]

/** The colours of several heads. */
function Swatches({ series }) {
  const swatch = (one, at) => html`<span style=${{ color: colourOf(one, at) }}>■</span> ${one.name} `
  return html`<p class="quiet">${series.map(swatch)}</p>`
}

/** One look in the view that is chosen. `hover` is given the row under the pointer, `point` the column. */
function Drawn({ view, look, row, hovered, pinned, column, top, colormap, log, zoom, hover, point, pin }) {
  const { rows, columns, series, signed, explains, alike } = look
  if (view === 'lines') {
    const coloured = series.map((one, at) => ({ ...one, signed, colour: colourOf(one, at) }))
    return html`<${Lines} rows=${rows} columns=${columns} series=${coloured} pinned=${pinned} hovered=${hovered}
      onHover=${hover} onPick=${pin} least=${LEAST} />`
  }
  const matrix = ({ name, values }) => html`<${Matrix} key=${name}
    rows=${rows} columns=${columns} values=${values} signed=${signed} top=${top} colormap=${colormap}
    log=${log} zoom=${zoom} hovered=${hovered === null ? null : { row: hovered, column }}
    pinned=${pinned === null ? null : { row: pinned }}
    onHover=${(cell) => (hover(cell?.row ?? null), point(cell?.column ?? null))}
    onPick=${(cell) => pin(cell?.row ?? null)}
    label=${explains ? 'Matrix of shares' : alike ? 'Matrix of likeness' : 'Matrix of attention'} />`
  const inPlace = ({ name, values }) => html`<${InPlace} key=${name}
    rows=${rows} columns=${columns} values=${values} signed=${signed} row=${row} pinned=${pinned}
    text=${look.text} pair=${look.pair} before=${look.before} sure=${look.sure} same=${look.same}
    onHover=${hover} onPick=${pin} />`
  const onGraph = ({ name, values }) => html`<${Later} part="GraphDrawing" key=${name} look=${look} values=${values}
    row=${row} hovered=${hovered} pinned=${pinned} column=${column} colormap=${colormap}
    onHover=${(at, over) => (hover(at), point(over))} onPick=${pin} />`
  const draw = view === 'matrix' ? matrix : look.graph ? onGraph : inPlace
  return series.map((one) => html`${series.length > 1 && html`<small>${one.name}</small>`}${draw(one)}`)
}

/** Mask or change the pinned token, and see what becomes of the answer. */
function Edit({ token, edit }) {
  const [words, setWords] = useState('')
  const send = (event) => {
    event.preventDefault()
    edit(token, words)
  }
  return html`<form class="row" onSubmit=${send}>
    <span>Instead of “${token.text.trim()}”</span>
    <input type="text" name="instead" aria-label="Instead of the pinned token"
      value=${words} onInput=${({ target }) => setWords(target.value)} />
    <button>Change it and compare</button>
    ${edit.mask && html`<button type="button" id="mask" onClick=${() => edit(token, edit.mask)}>Mask it</button>`}
    <button type="button" id="remove" disabled=${!edit.changed(token, '').trim()}
      onClick=${() => edit(token, '')}>Leave it out</button>
  </form>`
}
