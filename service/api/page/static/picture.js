import { Boxes, objectAt } from './boxes.js'
import { brushOf, meanColour, mixed, painted, smoothed, useDensity, useDrawing, useSame, useSize } from './canvas.js'
import { translucent } from './colours.js'
import { html, useMemo, useRef, useState } from './preact.js'
import { clamp, lengthOf } from './values.js'

const GREY = '#808080' // any: it is the saturation that is taken
const [SEEN, UNSEEN] = ['#ccc', '#808080'] // what a grey ground is multiplied by, and once more beside the box
const FINEST = 448 // pixels of the longer side of heat that is interpolated; the canvas does the rest
const CRISP = 64 // pixels of the longer side: an image of no more shows each of them
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }

/** Return what is shown, in pixels of the image: the grid's box with up to half its size of the image around it. */
export function frameOf({ width, height, box }) {
  const [wide, high] = [box.right - box.left, box.bottom - box.top]
  const left = Math.max(box.left - wide / 2, Math.min(box.left, 0))
  const top = Math.max(box.top - high / 2, Math.min(box.top, 0))
  const right = Math.min(box.right + wide / 2, Math.max(box.right, width))
  const bottom = Math.min(box.bottom + high / 2, Math.max(box.bottom, height))
  return { left, top, width: right - left, height: bottom - top }
}

/** Return the least value that is drawn: the ground alone is seen there, as in the service's png. */
export const coldest = (cells) => cells.reduce((least, value) => Math.min(least, value), Infinity)

/** Make an image grey, less bright, and still less beside the box: what the model did not see is seen to be unseen. */
function makeGrey(brush, { width, height, box }) {
  const paint = (operation, colour, add) => {
    brush.globalCompositeOperation = operation
    brush.fillStyle = colour
    brush.beginPath()
    brush.rect(0, 0, width, height)
    add?.()
    brush.fill('evenodd')
  }
  paint('saturation', GREY)
  paint('multiply', SEEN)
  const [left, top] = [clamp(box.left, 0, width), clamp(box.top, 0, height)]
  const [right, bottom] = [clamp(box.right, 0, width), clamp(box.bottom, 0, height)]
  paint('multiply', UNSEEN, () => brush.rect(left, top, right - left, bottom - top))
  brush.globalCompositeOperation = 'source-over'
}

/** Draw what lies under the heat; return the brush and its scale across. */
function drawGround(canvas, { image, source, grey }) {
  const frame = frameOf(image)
  const [scale, down] = [canvas.width / frame.width, canvas.height / frame.height]
  const brush = canvas.getContext('2d')
  brush.setTransform(1, 0, 0, 1, 0, 0)
  brush.clearRect(0, 0, canvas.width, canvas.height)
  brush.setTransform(scale, 0, 0, down, -frame.left * scale, -frame.top * down)
  brush.fillStyle = 'white' // of an image that is not there
  brush.fillRect(0, 0, image.width, image.height)
  brush.imageSmoothingQuality = 'high'
  if (source) {
    brush.imageSmoothingEnabled = Math.max(image.width, image.height) > CRISP
    brush.drawImage(source, 0, 0, image.width, image.height)
  }
  if (grey) makeGrey(brush, image)
  return [brush, scale]
}

const JUDGED = 64 // pixels of a side of the ground of which the mean is taken

/** Return the mean colour of what lies under the heat, as a style's colour: what a legend is drawn over. */
export function groundOf({ image, source, grey }) {
  const { box, width, height } = image
  const frame = frameOf(image)
  const canvas = new OffscreenCanvas(JUDGED, JUDGED)
  canvas.getContext('2d', { willReadFrequently: true }) // else the pixels come from the graphics card, which takes long
  const [brush] = drawGround(canvas, { image, source, grey })
  const across = (x) => Math.round(((clamp(x, 0, width) - frame.left) / frame.width) * JUDGED)
  const down = (y) => Math.round(((clamp(y, 0, height) - frame.top) / frame.height) * JUDGED)
  const [left, top] = [across(box.left), down(box.top)]
  const [wide, high] = [Math.max(across(box.right) - left, 1), Math.max(down(box.bottom) - top, 1)]
  return meanColour(brush.getImageData(left, top, wide, high))
}

/**
 * Draw an image, and over it the heat of its cells, on a canvas of any size. The hotter a cell, the less of the ground
 * is seen: the rule of the service's png, whose `smooth` is on. `cells` may be null: the image alone. In place of heat
 * there may be `colours` (red, green and blue, cell), from 0 to 1.
 */
export function drawPicture(canvas, drawn) {
  const { image, cells, colours, rows, columns, low, top, signed, colormap, opacity, smooth, grey } = drawn
  const [brush, scale] = drawGround(canvas, { ...drawn, grey: grey && Boolean(cells ?? colours) })
  if (!cells && !colours) return
  const { left, top: above, right, bottom } = image.box
  const [wide, high] = [right - left, bottom - above]
  const fine = Math.min(scale, FINEST / Math.max(wide, high))
  const [width, height] = smooth
    ? [Math.max(columns, Math.round(wide * fine)), Math.max(rows, Math.round(high * fine))] : [columns, rows]
  const fitted = (values) => (smooth ? smoothed(values, rows, columns, height, width) : values)
  const pixels = () => {
    if (colours) return mixed(colours.map(fitted), height, width, opacity)
    const ended = cells.map((value) => clamp(value, signed ? -top : low, top)) // else what is above would spread
    return painted(fitted(ended), height, width, translucent(colormap, signed, opacity), low, top, signed)
  }
  const heat = new OffscreenCanvas(width, height)
  heat.getContext('2d').putImageData(pixels(), 0, 0)
  brush.imageSmoothingEnabled = smooth
  brush.drawImage(heat, left, above, wide, high)
}

/** Return the cells of the rectangle between two, and which are covered when it is added, or taken off if all are. */
function coveredBy(from, to, columns, covered) {
  const between = (one, other) =>
    Array.from({ length: Math.abs(one - other) + 1 }, (_, at) => Math.min(one, other) + at)
  const [row, column] = [(cell) => Math.floor(cell / columns), (cell) => cell % columns]
  const within = between(row(from), row(to)).flatMap((down) =>
    between(column(from), column(to)).map((right) => down * columns + right))
  const all = within.every((cell) => covered.includes(cell))
  const rest = covered.filter((cell) => !within.includes(cell))
  return all ? rest : [...rest, ...within].sort((one, other) => one - other)
}

/**
 * Return the cells that are covered, with those of a rectangle that is being dragged, and what listens to the grid.
 * `objectIn` says which object is at a place, given as shares of the grid's width and height.
 */
function useCells({
  rows, columns, query, hovered, covered, covering, onHover, onPick, onCover, objectIn, onObject, onPickObject,
}) {
  const [drag, setDrag] = useState(null) // {from, to}: cells between which a rectangle is being covered
  const dragged = useRef(false) // true from the end of a drag to its click
  const covers = drag ? coveredBy(drag.from, drag.to, columns, covered) : covered
  const placeOf = ({ clientX, clientY, currentTarget }) => {
    const { left, top: above, width, height } = currentTarget.getBoundingClientRect()
    return [(clientX - left) / width, (clientY - above) / height]
  }
  const cellAt = (event) => {
    const [across, down] = placeOf(event)
    const row = clamp(Math.floor(down * rows), 0, rows - 1)
    return row * columns + clamp(Math.floor(across * columns), 0, columns - 1)
  }
  const middleOf = (cell) => [((cell % columns) + 0.5) / columns, (Math.floor(cell / columns) + 0.5) / rows]
  const pick = (cell, place) => {
    const object = onPickObject ? objectIn(...place) : null
    if (object === null) onPick(cell)
    else onPickObject(object)
  }
  const move = (event) => {
    const cell = cellAt(event)
    onObject(objectIn(...placeOf(event)))
    if (drag && drag.to !== cell) setDrag({ ...drag, to: cell })
    if (cell !== hovered) onHover(cell)
  }
  const press = (event) => {
    dragged.current = false
    if (!onCover || event.button || !(event.shiftKey || covering)) return
    event.preventDefault() // no text is selected
    event.currentTarget.focus()
    event.currentTarget.setPointerCapture(event.pointerId)
    setDrag({ from: cellAt(event), to: cellAt(event) })
  }
  const release = () => {
    if (drag) onCover(covers)
    dragged.current = Boolean(drag)
    setDrag(null)
  }
  const key = (event) => {
    const at = hovered ?? query ?? 0
    if (event.ctrlKey || event.metaKey || event.altKey) return
    if (event.key === 'Escape') {
      if (drag) setDrag(null)
      else (onPickObject ?? onPick)(null)
    } else if (event.key === 'Enter') pick(at, middleOf(at))
    else if (event.key === 'c' && onCover) onCover(coveredBy(at, at, columns, covered))
    else if (event.key in ARROWS) {
      const [down, right] = ARROWS[event.key]
      const row = clamp(Math.floor(at / columns) + down, 0, rows - 1)
      const next = row * columns + clamp((at % columns) + right, 0, columns - 1)
      onHover(next)
      onObject(objectIn(...middleOf(next)))
    } else return
    event.preventDefault() // nothing scrolls
  }
  return [covers, {
    onPointerMove: move,
    onPointerLeave: () => (onHover(null), onObject(null)),
    onPointerDown: press,
    onPointerUp: release,
    onPointerCancel: () => setDrag(null),
    onKeyDown: key,
    onBlur: () => (onHover(null), onObject(null)),
    onClick: (event) => dragged.current || event.shiftKey || covering ? null : pick(cellAt(event), placeOf(event)),
  }]
}

/**
 * A picture under the heat of its grid of cells. It says which cell is hovered (`onHover`), picked (`onPick`: click or
 * Enter; Escape picks null), and which are covered (`onCover` gets all of them: a rectangle dragged with Shift, or
 * without it where `covering` is set, as touch needs; `c` covers one). `low` is the value without heat: the least of
 * the cells, unless several pictures share a scale. `objects` have boxes, of which those of the `marked` and the
 * `pinned` one stand out: `onObject` is given the number of the one that is hovered, `onPickObject` that of the one
 * that is picked, in place of `onPick`, where there is one; null on Escape.
 */
export function Picture({
  image, source, cells: given = null, colours = null, rows, columns, low, top, signed = false, colormap = 'viridis',
  opacity = 0.8, smooth = true, grey = true, query = null, hovered = null, covered = [], covering = false, label,
  onHover = () => {}, onPick = () => {}, onCover, objects = [], marked, pinned, onObject = () => {}, onPickObject,
}) {
  const canvas = useRef()
  const cells = useSame(given)
  const size = useSize(canvas)
  const density = useDensity()
  const frame = frameOf(image)
  const { box } = image
  const least = useMemo(() => low ?? (cells ? coldest(cells) : 0), [cells, low])
  useDrawing(() => {
    if (!size.width) return
    brushOf(canvas.current, Math.round(size.width * density), Math.round(size.height * density))
    drawPicture(canvas.current, {
      image, source, cells, colours, rows, columns, low: least, top, signed, colormap, opacity, smooth, grey,
    })
  }, [size, density, source, cells, colours, rows, columns, least, top, signed, colormap, opacity, smooth, grey,
    image.width, image.height, box.left, box.top, box.right, box.bottom])

  const objectIn = (across, down) => objectAt(
    objects, box.left + across * (box.right - box.left), box.top + down * (box.bottom - box.top))
  const [hidden, listeners] = useCells({
    rows, columns, query, hovered, covered, covering, onHover, onPick, onCover, objectIn, onObject, onPickObject,
  })
  const mark = (cell, name) => html`<div class=${`mark ${name}`} style=${{
    left: lengthOf((cell % columns) / columns),
    top: lengthOf(Math.floor(cell / columns) / rows),
    width: lengthOf(1 / columns),
    height: lengthOf(1 / rows),
  }} />`
  const ratio = frame.width / frame.height
  return html`<div class="picture" style=${{ aspectRatio: String(ratio), maxWidth: `calc(75vh * ${ratio})` }}>
    <canvas ref=${canvas} />
    <div class=${`cells${covering ? ' covering' : ''}`} tabindex="0" role="application" aria-label=${label}
      aria-keyshortcuts=${onCover ? 'Enter Escape c' : 'Enter Escape'}
      style=${{
        left: lengthOf((box.left - frame.left) / frame.width),
        top: lengthOf((box.top - frame.top) / frame.height),
        width: lengthOf((box.right - box.left) / frame.width),
        height: lengthOf((box.bottom - box.top) / frame.height),
      }}
      ...${listeners}>
      ${hidden.map((cell) => mark(cell, 'covered'))}
      ${query !== null && mark(query, 'query')}
      ${hovered !== null && mark(hovered, 'hovered')}
    </div>
    ${objects.length > 0 && html`<${Boxes} objects=${objects} frame=${frame} marked=${marked} pinned=${pinned} />`}
  </div>`
}
