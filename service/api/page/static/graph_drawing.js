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
const MOST = 1000 // lines that are drawn at once, the thickest
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

/** The edges between tokens; none of nodes that are left out. */
function edgesOf(columns, places, { edges, directed }, radius) {
  const of = new Map(columns.map(({ node }, at) => [node, places[at]]))
  return edges.filter((ends) => of.has(ends[0]) && of.has(ends[1])).map(([from, to, type]) => html`<${Edge}
    from=${of.get(from)} to=${of.get(to)} type=${type} directed=${directed} radius=${radius} />`)
}

/** A node: its heat is a colour, its name stands beneath. One that is `marked` has a thick line around it. */
function Node({ at, name, label, place, radius, colour, stop, pressed, marked }) {
  return html`<g data-at=${at} role="button" tabindex=${stop ? 0 : -1} class="node"
    aria-pressed=${String(pressed)} aria-label=${label} transform=${`translate(${place.map((one) => one.toFixed(1))})`}>
    <circle r=${radius} fill=${colour} stroke="currentColor" stroke-width=${marked ? 3 : 1} />
    ${name && html`<text y=${radius + 12} text-anchor="middle">${name}</text>`}
  </g>`
}

/** The colours of edges by the names of their types, of those that are there. */
function Types({ graph: { edges, types, directed } }) {
  const there = [...new Set(edges.map(([,, type]) => type))].sort((one, other) => one - other)
  return html`<p class="quiet">${there.map((type) => html`
    <span style=${{ color: colourOf(type) }}>${directed ? '→' : '—'}</span> ${types[type]} `)}</p>`
}

/**
 * A graph with heat on its nodes, that of a `row` (of null the mean of all), and lines as thick as what nodes give one
 * another: of a `hovered` or `pinned` row its own. `onHover` is told the row and the column of a node, null for none,
 * `onPick` the row of one that is chosen.
 */
export function GraphDrawing({ look, values, row, hovered, pinned, column, colormap, onHover, onPick }) {
  const { rows, columns, graph, signed, explains } = look
  const box = useRef()
  const radius = RADIUS * Math.min(1, Math.sqrt(CROWDED / columns.length))
  const places = useMemo(() => placesOf(columns, graph.places), [columns, graph])
  const edges = useMemo(() => edgesOf(columns, places, graph, radius), [columns, places, graph])
  const active = hovered ?? pinned
  const lines = useMemo(() => linesOf(look, values, active).map(({ from, to, width, value }) => html`<line
    x1=${places[from][0]} y1=${places[from][1]} x2=${places[to][0]} y2=${places[to][1]} stroke-width=${width.toFixed(1)}
    stroke=${value < 0 ? AGAINST : LINK} />`), [look, values, active])
  const heat = useMemo(() => rowOrMean(values, columns.length, row), [values, columns, row])
  const top = largest(heat.filter((_, at) => columns[at].node !== undefined), signed)
  const [level, palette] = [levels(0, top, signed), paletteOf(colormap, signed)]
  const colour = (value) => `rgb(${palette.slice(3 * level(value), 3 * level(value) + 3)})`
  const seen = useMemo(() => columns.map((one) => findIn(rows, one)), [rows, columns])
  const node = ({ text, name }, at) => {
    const pressed = seen[at] !== null && seen[at] === pinned
    return html`<${Node} key=${at} at=${at} label=${`${text}: ${short(heat[at])}`} place=${places[at]} radius=${radius}
      name=${columns.length <= CROWDED || at === column ? shortened(name) : ''} colour=${colour(heat[at])}
      stop=${at === (column ?? 0)} pressed=${pressed} marked=${pressed || at === column} />`
  }
  const of = ({ target }) => Number(target.closest('[data-at]')?.dataset.at ?? NaN)
  const hover = (event) => {
    const at = of(event)
    if (at >= 0 && at !== column) onHover(seen[at], at)
  }
  const leave = () => onHover(null, null)
  const pick = (event) => (seen[of(event)] ?? null) !== null && onPick(seen[of(event)])
  const key = (event) => {
    const next = stepTo(event, of(event) || 0, columns.length)
    if (event.key === 'Enter' || event.key === ' ') pick(event)
    else if (next !== undefined) box.current.querySelector(`[data-at="${next}"]`).focus()
    else return
    event.preventDefault() // nothing scrolls
  }
  return html`
    <svg ref=${box} class="graph" viewBox=${`0 0 ${SIDE} ${SIDE}`} role="group" font-size="12"
      aria-label="Nodes of the graph; arrow keys move over them, Enter pins one"
      onPointerOver=${hover} onfocusin=${hover} onPointerLeave=${leave}
      onfocusout=${(event) => event.currentTarget.contains(event.relatedTarget) || leave()}
      onClick=${pick} onKeyDown=${key}>
      <g class="lines-between" stroke-linecap="round">${lines}</g>
      <g class="edges">${edges}</g>
      ${columns.map(node)}
    </svg>
    ${graph.types?.length > 1 && html`<${Types} graph=${graph} />`}
    <${Legend} top=${top} signed=${signed} colormap=${colormap} explains=${explains} />`
}
