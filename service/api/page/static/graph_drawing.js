import { AGAINST, levels, paletteOf } from './colours.js'
import { Legend } from './legend.js'
import { strongest } from './lines.js'
import { html, useMemo, useRef } from './preact.js'
import { stepTo } from './roving.js'
import { largest, rowOrMean, short } from './values.js'

// As the service's png has them: graph_drawing.py
const SIDE = 480 // units of the drawing
const [MARGIN, RADIUS, THICKEST, ARROW] = [0.1, 0.028, 0.025, 0.018].map((share) => share * SIDE)
const CROWDED = 40 // nodes, from which names would overlap
const LEAST_SHARE = 0.02 // of the largest value, from which a line is drawn
const LINK = '#ffbe78'
const TYPES = ['#787878', '#1f77b4', '#2ca02c', '#9467bd', '#d62728', '#8c564b'] // of edges; more begin again
const MOST = 4000 // lines that are drawn at once
const LONGEST = 16 // letters of a name

const colourOf = (type) => TYPES[type % TYPES.length]
const shortened = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name)

/** Return where the tokens of a graph are drawn; a virtual node has a corner. */
const placesOf = (tokens, places) => tokens.map(({ node }) =>
  (node === undefined ? [MARGIN / 2, MARGIN / 2] : places[node].map((share) => MARGIN + (SIDE - 2 * MARGIN) * share)))

/** Return the number of a token among others; null where it is not among them. */
const findIn = (tokens, { node }) => {
  const at = tokens.findIndex((one) => one.name !== undefined && one.node === node)
  return at < 0 ? null : at
}

/**
 * Return the lines between tokens, {from, to, width, value}, the thickest last. `only` is the row whose lines they are,
 * null for all: then those of a virtual node are left out, since every node has one.
 */
function linesOf({ rows, columns }, values, only) {
  const from = rows.map((row) => findIn(columns, row))
  const shown = (row, column) => from[row] !== null && from[row] !== column
    && (only === null ? ![rows[row], columns[column]].some(({ node }) => node === undefined) : row === only)
  const between = values.map((value, at) =>
    (shown(Math.floor(at / columns.length), at % columns.length) ? value : 0))
  const most = largest(between, true)
  const { lines } = strongest([{ values: between }], rows.length, columns.length, LEAST_SHARE, most, MOST)
  return lines.sort((one, other) => Math.abs(one.value) - Math.abs(other.value)).map(({ row, column, value }) =>
    ({ from: from[row], to: column, value, width: Math.max(1, (THICKEST * Math.abs(value)) / most) }))
}

/** Return the head of an edge, where it meets the circle of its target, as a path. */
function arrowOf([x, y], [ownX, ownY], radius) {
  const far = Math.hypot(ownX - x, ownY - y) || 1
  const [across, down] = [(ownX - x) / far, (ownY - y) / far]
  const at = (back, aside) => [ownX - back * across - aside * down, ownY - back * down + aside * across]
  const [tip, ...sides] = [[radius, 0], [radius + ARROW, ARROW / 3], [radius + ARROW, -ARROW / 3]].map((one) =>
    at(...one).map((place) => place.toFixed(1)).join(' '))
  return `M${tip}L${sides.join('L')}Z`
}

/** An edge of the graph, by its type; one that leads to its own node is a circle above it. */
function Edge({ from, to, type, directed, radius }) {
  const colour = colourOf(type)
  if (from === to) {
    return html`<circle cx=${to[0]} cy=${to[1] - 1.5 * radius} r=${radius} fill="none" stroke=${colour} />`
  }
  return html`<g stroke=${colour} stroke-width="1.5">
    <line x1=${from[0]} y1=${from[1]} x2=${to[0]} y2=${to[1]} />
    ${directed && html`<path d=${arrowOf(from, to, radius)} fill=${colour} stroke="none" />`}
  </g>`
}

/**
 * A graph with heat on its nodes, that of a `row` (of null the mean of all), and lines as thick as what nodes give one
 * another: of a `hovered` or `pinned` row its own. `onHover` is told the number of a node among rows and columns, null
 * for none, `onPick` the row of a node that is chosen.
 */
export function GraphDrawing({ look, values, row, hovered, pinned, column, colormap, onHover, onPick }) {
  const { rows, columns, graph, signed, explains } = look
  const box = useRef()
  const places = useMemo(() => placesOf(columns, graph.places), [columns, graph])
  const active = hovered ?? pinned
  const lines = useMemo(() => linesOf(look, values, active), [look, values, active])
  const heat = useMemo(() => rowOrMean(values, columns.length, row), [values, columns, row])
  const top = largest(heat.filter((_, at) => columns[at].node !== undefined), signed)
  const [level, palette] = [levels(0, top, signed), paletteOf(colormap, signed)]
  const radius = RADIUS * Math.min(1, Math.sqrt(CROWDED / columns.length))
  const by = (node) => places[columns.findIndex((one) => one.node === node)]
  const seen = columns.map((one) => findIn(rows, one))
  const edge = ([from, to, type]) => by(from) && by(to) && html`<${Edge}
    from=${by(from)} to=${by(to)} type=${type} directed=${graph.directed} radius=${radius} />`
  const line = ({ from, to, width, value }) => html`<line
    x1=${places[from][0]} y1=${places[from][1]} x2=${places[to][0]} y2=${places[to][1]} stroke-width=${width.toFixed(1)}
    stroke=${value < 0 ? AGAINST : LINK} />`
  const stop = column ?? 0
  const node = (token, at) => {
    const colour = [...palette.subarray(3 * level(heat[at])).subarray(0, 3)]
    const mark = seen[at] !== null && seen[at] === pinned
    return html`<g key=${at} data-at=${at} role="button" tabindex=${at === stop ? 0 : -1} class="node"
      aria-pressed=${String(mark)} aria-label=${`${token.text}: ${short(heat[at])}`}
      transform=${`translate(${places[at].map((one) => one.toFixed(1)).join(' ')})`}>
      <circle r=${radius} fill=${`rgb(${colour})`} stroke="currentColor"
        stroke-width=${mark || at === column ? 3 : 1} />
      ${(columns.length <= CROWDED || at === column) && html`<text y=${radius + 12}
        text-anchor="middle">${shortened(token.name)}</text>`}
    </g>`
  }
  const of = ({ target }) => target.closest?.('[data-at]')
  const hover = (event) => {
    const at = of(event)?.dataset.at
    if (at !== undefined && Number(at) !== column) onHover(seen[at], Number(at))
  }
  const leave = () => onHover(null, null)
  const pick = (event) => of(event) && seen[of(event).dataset.at] !== null && onPick(seen[of(event).dataset.at])
  const key = (event) => {
    if (event.key === 'Enter' || event.key === ' ') pick(event)
    else {
      const next = stepTo(event, Number(of(event)?.dataset.at ?? 0), columns.length)
      if (next === undefined) return
      box.current.querySelector(`[data-at="${next}"]`)?.focus()
    }
    event.preventDefault() // nothing scrolls
  }
  const types = [...new Set(graph.edges.map(([,, type]) => type))].sort((one, other) => one - other)
  return html`
    <svg ref=${box} class="graph" viewBox=${`0 0 ${SIDE} ${SIDE}`} role="group" font-size="12"
      aria-label="Nodes of the graph; arrow keys move over them, Enter pins one"
      onPointerOver=${hover} onfocusin=${hover} onPointerLeave=${leave}
      onfocusout=${(event) => event.currentTarget.contains(event.relatedTarget) || leave()}
      onClick=${pick} onKeyDown=${key}>
      <g class="lines-between" stroke-linecap="round">${lines.map(line)}</g>
      <g class="edges">${graph.edges.map(edge)}</g>
      ${columns.map(node)}
    </svg>
    ${graph.types?.length > 1 && html`<p class="quiet">${types.map((type) => html`
      <span style=${{ color: colourOf(type) }}>${graph.directed ? '→' : '—'}</span> ${graph.types[type]} `)}</p>`}
    <${Legend} top=${top} signed=${signed} colormap=${colormap} explains=${explains} />`
}
