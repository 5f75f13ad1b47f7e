import { brushOf, painted, pooled, useDrawing } from './canvas.js'
import { opaque } from './colours.js'
import { html, useMemo, useRef, useState } from './preact.js'
import { coldest } from './picture.js'
import { clamp, endOf, entropy, headOf, largest, range, rowOf, short } from './values.js'

const NONE = []
const SIDE = 96 // pixels of a thumbnail's longer side at most: of more rows, the maximum of each block is shown

/** Return a figure of every layer and head: the service's or, of entropies, of the maps; null where it is unknown. */
function figuresOf(name, maps, figures) {
  const layerOf = (map, at) => map.layer ?? at
  if (figures?.[name]) return maps.map((map, at) => figures[name][layerOf(map, at)])
  if (name !== 'entropy') return null
  const own = (map, head) => entropy(headOf(map, head), map.queries, map.keys)
  return maps.map((map) => range(map.heads).map((head) => own(map, head)))
}

/** Return what a thumbnail shows: the cells seen from a row (of all rows the mean, where it is null), or the matrix. */
function shownOf(map, head, grid, prefix, query) {
  if (!grid) return pooled(headOf(map, head), map.queries, map.keys, SIDE, map.signed)
  const { rows, columns } = map.grid ?? grid
  const patches = (row) => rowOf(map, head, row).subarray(prefix, prefix + rows * columns)
  if (query !== null) return { values: patches(Math.min(query, map.queries - 1)), rows, columns }
  const values = new Float32Array(rows * columns)
  for (let row = 0; row < map.queries; row++) {
    patches(row).forEach((value, at) => (values[at] += value / map.queries))
  }
  return { values, rows, columns }
}

/** Return which thumbnail a key leads to, of `count` in rows of `across`; undefined if it leads to none. */
function nextOf(key, at, across, count) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, Home: -at, End: count }
  if (!(key in steps)) return undefined
  const next = at + steps[key]
  const beyond = Math.abs(steps[key]) === across && (next < 0 || next >= count) // no row above or below
  return beyond ? at : clamp(next, 0, count - 1)
}

/**
 * Every head of every layer as a thumbnail: `maps` of one kind, a layer each. In the order 'index' it is a table of
 * layers and heads, else a list from the least to the largest of a figure (`figures`: the service's diagnostics of this
 * kind). Of an image (`grid`), a thumbnail is the row `query` without the `prefix`; of texts it is the matrix. `own`
 * draws each on its own scale, which ends at the largest value beside those of `special` columns. Arrow keys move,
 * Enter or a click chooses.
 */
export function HeadGrid({
  maps, order = 'index', figures = null, chosen, onChoose, grid = null, prefix = 0, query = 0, colormap = 'viridis',
  own = false, special = NONE,
}) {
  const box = useRef()
  const [focused, setFocused] = useState(null)
  const figure = order === 'index' ? 'entropy' : order
  const numbers = useMemo(() => figuresOf(figure, maps, figures), [figure, maps, figures])
  const heads = useMemo(() => {
    const all = maps.flatMap((map, at) => range(map.heads).map((head) => ({
      map, head, layer: map.layer ?? at, number: numbers?.[at][head] ?? null,
    })))
    return order === 'index' ? all : all.sort((one, other) => one.number - other.number)
  }, [maps, order, numbers])

  useDrawing(() => {
    const shown = heads.map(({ map, head }) => ({ ...shownOf(map, head, grid, prefix, query), signed: map.signed }))
    const ordinary = (values, { keys }) => values.filter((_, at) => !special[at % keys])
    const tops = shown.map(({ values, signed }, at) => {
      if (grid) return endOf(values, signed)
      const { map, head } = heads[at]
      const own = special.some(Boolean) ? ordinary(headOf(map, head), map) : values
      return largest(own.length ? own : values, signed)
    })
    const top = Math.max(...tops)
    box.current.querySelectorAll('canvas').forEach((canvas, at) => {
      const { values, rows, columns, signed } = shown[at]
      const low = grid && own ? coldest(values) : 0
      const image = painted(values, rows, columns, opaque(colormap, signed), low, own ? tops[at] : top, signed)
      brushOf(canvas, columns, rows).putImageData(image, 0, 0)
    })
  }, [heads, grid?.rows, grid?.columns, prefix, query, colormap, own, special])

  const [{ queries, keys }] = maps
  const ratio = grid ? grid.columns / grid.rows : clamp(keys / queries, 0.5, 2)
  const place = heads.findIndex(({ layer, head }) => layer === chosen?.layer && head === chosen?.head)
  const stop = clamp(focused ?? Math.max(place, 0), 0, heads.length - 1)
  const thumbnail = ({ layer, head, number }, at) => {
    const seen = `L${layer} H${head}${number !== null ? `, ${short(number)}` : ''}` // speech control hears what is seen
    const named = `layer ${layer}, head ${head}${number === null ? '' : `, ${figure} ${short(number)}`}`
    const name = order === 'index' ? named.replace('l', 'L') : `${seen}: ${named}`
    return html`<button type="button" class="thumbnail" aria-label=${name} title=${name}
      aria-pressed=${String(at === place)} tabindex=${at === stop ? 0 : -1} onFocus=${() => setFocused(at)}
      onClick=${() => onChoose({ layer, head })}>
      <canvas style=${{ aspectRatio: String(ratio) }} />
      ${order !== 'index' && html`<small>${seen}</small>`}
    </button>`
  }
  const key = (event) => {
    const buttons = [...box.current.querySelectorAll('button')]
    const top = ({ offsetTop }) => offsetTop
    const across = order === 'index' ? heads[0].map.heads : buttons.filter((one) => top(one) === top(buttons[0])).length
    const next = nextOf(event.key, stop, across, heads.length)
    if (next === undefined) return
    event.preventDefault() // nothing scrolls
    buttons[next].focus()
  }

  const most = Math.max(...maps.map((map) => map.heads))
  let at = 0
  return html`<div class="heads" ref=${box} role="group" aria-label="Every head of every layer" onKeyDown=${key}>
    ${order === 'index' ? html`<table style=${{ maxWidth: `${9.4 * most + 1.6}rem` }}>
      <thead><tr><td />${range(most).map((head) => html`
        <th scope="col" key=${head}><span class="hidden-words">head </span>${head}</th>`)}</tr></thead>
      <tbody>${maps.map((map, layer) => html`<tr key=${layer}>
        <th scope="row"><span class="hidden-words">layer </span>${map.layer ?? layer}</th>
        ${range(map.heads).map((head) => html`<td key=${head}>${thumbnail(heads[at], at++)}</td>`)}
      </tr>`)}</tbody>
    </table>` : html`<ol>${heads.map((one, place) => html`
      <li key=${`${one.layer} ${one.head}`}>${thumbnail(one, place)}</li>`)}</ol>`}
  </div>`
}
