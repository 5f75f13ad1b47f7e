import { brushOf, painted, useDensity, useDrawing, useSame, useSize } from './canvas.js'
import { opaque } from './colours.js'
import { html, useMemo, useRef } from './preact.js'
import { clamp, labelOf, logarithmic } from './values.js'

const LARGEST = 28 // CSS pixels of a cell's side
const LABELLED = 12 // pixels of a cell from which it has a label
const SCROLLED = 8 // pixels of a cell from which it gets a label where the matrix scrolls
const FEW = 4 // so few rows would be a thread without labels, whatever their length
const LONGEST = 14 // characters of a label
const UPRIGHT = 1 // characters of a column's label that need not be turned
const [CHARACTER, MARGIN, PADDING] = [7, 10, 4] // CSS pixels of a label's character, beside all of them, and of the box
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }

/** Return the side of a cell in CSS pixels, whole pixels of the screen, and whether there is room for labels. */
export function cellOf(width, columns, labels, density, rows = Infinity) {
  const side = (room) => clamp(Math.floor((room / columns) * density) / density, 1, LARGEST)
  const beside = side(width - labels)
  const labelled = beside >= SCROLLED || rows <= FEW
  return { cell: labelled ? Math.max(beside, LABELLED) : Math.min(side(width), LABELLED - 1), labelled }
}

/** Return what listens to pointer and keys over a matrix; `reveal` scrolls to the cell that keys lead to. */
function listenersOf({ canvas, high, wide, hovered, pinned, onHover, onPick, reveal }) {
  const cellAt = ({ clientX, clientY }) => {
    const bounds = canvas.current.getBoundingClientRect()
    return {
      row: clamp(Math.floor(((clientY - bounds.top) / bounds.height) * high), 0, high - 1),
      column: clamp(Math.floor(((clientX - bounds.left) / bounds.width) * wide), 0, wide - 1),
    }
  }
  const move = (event) => {
    const { row, column } = cellAt(event)
    if (row !== hovered?.row || column !== hovered?.column) onHover({ row, column })
  }
  const key = (event) => {
    const { row = 0, column } = hovered ?? pinned ?? {}
    if (event.key === 'Escape') onPick(null)
    else if (event.key === 'Enter') onPick({ row, column: column ?? 0 })
    else if (event.key in ARROWS) {
      const [down, across] = ARROWS[event.key]
      const next = { row: clamp(row + down, 0, high - 1), column: clamp((column ?? 0) + across, 0, wide - 1) }
      onHover(next)
      reveal(next)
    } else return
    event.preventDefault() // nothing scrolls but to the cell
  }
  return {
    onPointerMove: move,
    onPointerLeave: () => onHover(null),
    onClick: (event) => onPick(cellAt(event)),
    onKeyDown: key,
  }
}

/**
 * The full matrix on one canvas, a pixel a cell at least; it scrolls in its box. `hovered` and `pinned` are
 * {row, column}; of a row alone the column is null. `log` draws DECADES of values, `zoom` makes cells larger.
 * Arrow keys move, Enter or a click picks, Escape picks null.
 */
export function Matrix({
  rows: queries, columns: keys, values: given, signed = false, top, colormap = 'viridis', log = false, zoom = 1,
  hovered = null, pinned = null, onHover = () => {}, onPick = () => {}, label,
}) {
  const box = useRef()
  const canvas = useRef()
  const { width: outer } = useSize(box)
  const width = outer - 2 * PADDING
  const density = useDensity()
  const [rows, columns, values] = [useSame(queries), useSame(keys), useSame(given)]
  const [high, wide] = [rows.length, columns.length]
  const [left, right] = useMemo(() => [rows, columns].map((tokens) => tokens.map(labelOf)), [rows, columns])
  const [margin, above] = useMemo(() => [left, right].map((texts) => {
    const longest = texts.reduce((most, text) => Math.max(most, [...text].length), 0)
    return Math.min(longest, LONGEST) * CHARACTER + MARGIN
  }), [left, right])
  const upright = above <= UPRIGHT * CHARACTER + MARGIN
  const { cell, labelled } = cellOf(width * zoom, wide, margin, density, high)
  useDrawing(() => {
    const shown = log ? values.map((value) => Math.sign(value) * logarithmic(Math.abs(value) / top)) : values
    const image = painted(shown, high, wide, opaque(colormap, signed), 0, log ? 1 : top, signed)
    brushOf(canvas.current, wide, high).putImageData(image, 0, 0)
  }, [values, high, wide, top, colormap, signed, log])

  const reveal = ({ row, column }) => {
    const area = box.current
    const taken = (beside) => 2 * PADDING + (labelled ? beside : 0)
    const near = (at, from, room) => clamp(from, at + 2 * cell - room, at - cell) // with a neighbour
    area.scrollLeft = near(column * cell, area.scrollLeft, area.clientWidth - taken(margin))
    area.scrollTop = near(row * cell, area.scrollTop, area.clientHeight - taken(above))
  }
  const listeners = listenersOf({ canvas, high, wide, hovered, pinned, onHover, onPick, reveal })
  const names = useMemo(() => {
    const [beside, over] = [left, right].map((texts) => texts.map((text) => html`<span>${text}</span>`))
    return labelled && html`
      <div aria-hidden="true" class=${`matrix-columns${upright ? ' upright' : ''}`}>${over}</div>
      <div aria-hidden="true" class="matrix-rows">${beside}</div>`
  }, [labelled, upright, left, right])
  const sizes = { '--cell': `${cell}px`, '--margin': `${margin}px`, '--above': `${above}px` }
  const marks = [[pinned, 'pinned'], [hovered, 'hovered']].filter(([place]) => place && place.row < high)
  return html`<div class=${`matrix${labelled ? ' labelled' : ''}`} ref=${box} style=${sizes}>
    ${names}
    <div class="matrix-cells" tabindex="0" role="application"
      aria-label=${`${label}, ${high} rows and ${wide} columns; arrow keys move over them`}
      style=${{ width: `${wide * cell}px`, height: `${high * cell}px` }} ...${listeners}>
      <canvas ref=${canvas} />
      ${marks.map(([{ row, column }, name]) => html`
        <div class=${`mark line ${name}`} style=${{ top: `${row * cell}px`, height: `${cell}px` }} />
        ${column !== null && column < wide && html`<div class=${`mark ${name}`} style=${{
          top: `${row * cell}px`, left: `${column * cell}px`, width: `${cell}px`, height: `${cell}px`,
        }} />`}`)}
    </div>
  </div>`
}
