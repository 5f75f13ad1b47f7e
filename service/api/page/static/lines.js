import { useSame } from './canvas.js'
import { AGAINST, FOR } from './colours.js'
import { html, useLayoutEffect, useMemo, useRef } from './preact.js'
import { labelOf, largest } from './values.js'
import { TokenList } from './tokens.js'

const [PITCH, WIDEST] = [24, 60] // CSS pixels from token to token; the shorter side's are further apart
const MOST = 4000 // lines that are drawn at once
const MOST_OF_ROW = 300
const FAINTEST = 0.01 // of the row's largest weight
const BINS = 4096
const DEEPEST = 0.6 // opacity of a block behind a label

/**
 * Return the largest weights, at most `most` of those above `least` (a share of the `top`), and how many these are:
 * {lines: [{row, column, series, value}], count}. `only` is one row, or null for all. Of very many, their sizes are
 * told apart in 4096 steps.
 */
export function strongest(series, rows, columns, least, top, most, only = null) {
  const [start, end] = only === null ? [0, rows * columns] : [only * columns, (only + 1) * columns]
  const counts = new Uint32Array(BINS + 1)
  const [threshold, scale] = [least * top, BINS / top]
  for (const { values } of series) {
    for (let at = start; at < end; at++) {
      const size = Math.abs(values[at])
      if (size > threshold) counts[Math.min(size * scale, BINS) | 0]++
    }
  }
  let [edge, left] = [BINS, most] // the lowest step of which some are taken, and how many
  while (edge > 0 && counts[edge] <= left) left -= counts[edge--]
  const lines = []
  series.forEach(({ values }, which) => {
    for (let at = start; at < end; at++) {
      const size = Math.abs(values[at])
      if (!(size > threshold)) continue
      const step = Math.min(size * scale, BINS) | 0
      if (step < edge || (step === edge && left-- <= 0)) continue
      lines.push({ row: Math.floor(at / columns), column: at % columns, series: which, value: values[at] })
    }
  })
  return { lines, count: counts.reduce((sum, count) => sum + count, 0) }
}

/** Return a colour as text, with its opacity; series' colours are #rrggbb. */
const faded = (colour, share) => `${colour}${Math.round(255 * Math.min(share, 1)).toString(16).padStart(2, '0')}`

/**
 * Lines from rows (left) to columns (right), one for each weight above `least`, a share of the largest; the stronger,
 * the less transparent. `series`: [{name, colour, values, signed}], such as heads. The hovered or pinned row's lines
 * stand alone, and the columns' labels then hold a block for each series. At most 4000 lines are drawn, the largest.
 */
export function Lines({
  rows, columns: keys, series: given, pinned = null, hovered = null, onHover, onPick, least = 0.1,
}) {
  const list = useRef()
  const columns = useSame(keys)
  const series = useSame(given, (one, other) =>
    one.values === other.values && one.colour === other.colour && one.signed === other.signed)
  const active = hovered ?? pinned
  const [high, wide] = [rows.length, columns.length]
  const top = useMemo(() => Math.max(...series.map(({ values }) => largest(values, true)), 0), [series])
  const height = Math.max(high, wide) * PITCH
  const [down, across] = [high, wide].map((count) => Math.min(height / count, WIDEST))
  const path = ({ row, column, series: which, value }, of) => {
    const [from, to] = [(row + 0.5) * down, (column + 0.5) * across]
    return html`<path d=${`M0 ${from}C50 ${from} 50 ${to} 100 ${to}`} stroke=${colourOf(series, which, value)}
      stroke-opacity=${Math.min(Math.abs(value) / of, 1).toFixed(2)} stroke-dasharray=${dashed(series, value)} />`
  }
  const [all, count] = useMemo(() => {
    const found = strongest(series, high, wide, least, top, MOST)
    return [html`<g>${found.lines.map((line) => path(line, top))}</g>`, found.count]
  }, [series, high, wide, least, top])
  const row = active !== null && active < high ? active : null
  const [own, blocks] = useMemo(() => {
    if (row === null) return [null, new Map()]
    const weights = series.map(({ values }) => values.subarray(row * wide, (row + 1) * wide))
    const most = Math.max(...weights.map((own) => largest(own, true)))
    const { lines } = strongest(series, high, wide, FAINTEST, most, MOST_OF_ROW, row)
    const part = 100 / series.length
    return [lines.map((line) => path(line, most)), new Map(lines.map(({ column }) => {
      const stops = weights.map((own, which) => {
        const colour = faded(colourOf(series, which, own[column]), (DEEPEST * Math.abs(own[column])) / most)
        return `${colour} ${which * part}% ${(which + 1) * part}%`
      })
      return [column, `linear-gradient(to right, ${stops})`]
    }))]
  }, [series, high, wide, row])
  useLayoutEffect(() => {
    const labels = list.current.children
    blocks.forEach((block, column) => (labels[column].style.backgroundImage = block))
    return () => blocks.forEach((_, column) => labels[column]?.style.removeProperty('background-image'))
  }, [blocks, columns])

  const labels = useMemo(() => columns.map((token) =>
    html`<li class=${token.special ? 'special' : ''}>${labelOf(token)}</li>`), [columns])
  return html`<div class="lines">
    <div class="lines-scroll" style=${{ '--rows': `${down}px`, '--columns': `${across}px` }}>
      <${TokenList} tokens=${rows} current=${active} pinned=${pinned} chips
        label="Tokens that look; arrow keys move over them, Enter pins one" onHover=${onHover} onPick=${onPick} />
      <svg viewBox=${`0 0 100 ${height}`} height=${height} preserveAspectRatio="none" aria-hidden="true">
        <g visibility=${own ? 'hidden' : 'visible'}>${all}</g><g>${own}</g>
      </svg>
      <ol ref=${list} aria-label="Tokens that are looked at">${labels}</ol>
    </div>
    ${count > MOST && html`<small>The ${MOST} largest of ${count} lines are drawn.</small>`}
  </div>`
}

/** Return the colour of a weight: the series', or by its sign where there is one series. */
function colourOf(series, which, value) {
  const { colour, signed } = series[which]
  return signed && series.length === 1 ? (value < 0 ? AGAINST : FOR) : colour
}

const dashed = (series, value) => (value < 0 && series.length > 1 ? '4 3' : null)
