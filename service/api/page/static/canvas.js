import { levels } from './colours.js'
import { useEffect, useLayoutEffect, useRef, useState } from './preact.js'
import { clamp } from './values.js'

const NEARLY_WHITE = 200 // the service's: ink that is brighter could not be seen on white
const MOST_JUDGED = 2 ** 20 // pixels

/** Return the size of an element in CSS pixels, {width, height}; zeros before it is laid out. */
export function useSize(ref) {
  const [size, resize] = useState({ width: 0, height: 0 })
  useLayoutEffect(() => {
    const look = () => {
      const { clientWidth: width, clientHeight: height } = ref.current
      resize((old) => (old.width === width && old.height === height ? old : { width, height }))
    }
    const observer = new ResizeObserver(look)
    observer.observe(ref.current)
    look()
    return () => observer.disconnect()
  }, [])
  return size
}

/** Return how many pixels of the screen a CSS pixel has; the page is zoomed, or moved to another screen. */
export function useDensity() {
  const [density, change] = useState(devicePixelRatio)
  useEffect(() => {
    const query = matchMedia(`(resolution: ${density}dppx)`)
    const look = () => change(devicePixelRatio)
    query.addEventListener('change', look)
    return () => query.removeEventListener('change', look)
  }, [density])
  return density
}

/** Return a list as it was before where it holds the same: whoever made it anew has nothing drawn anew. */
export function useSame(list, same = Object.is) {
  const before = useRef(list)
  const old = before.current
  const equal = old === list || (old?.length === list?.length && old?.constructor === list?.constructor
    && Boolean(old?.every((one, at) => same(one, list[at]))))
  if (!equal) before.current = list
  return before.current
}

/** Call `draw` in the next frame after a change, however many changes come before it. */
export function useDrawing(draw, changes) {
  useLayoutEffect(() => {
    const frame = requestAnimationFrame(draw)
    return () => cancelAnimationFrame(frame)
  }, changes)
}

/** Return a new canvas of a width and height in pixels. */
export const canvasOf = (width, height) => Object.assign(document.createElement('canvas'), { width, height })

/**
 * Return an image as the service takes it, without transparency: on white, or on black where what is opaque is nearly
 * white. A large one is judged by fewer of its pixels.
 */
export function opaque(bitmap) {
  const { width, height } = bitmap
  const scale = Math.min(1, Math.sqrt(MOST_JUDGED / (width * height)))
  const small = canvasOf(Math.ceil(width * scale), Math.ceil(height * scale))
  const pen = small.getContext('2d', { willReadFrequently: true })
  pen.drawImage(bitmap, 0, 0, small.width, small.height)
  const { data } = pen.getImageData(0, 0, small.width, small.height)
  let [clear, solid, bright] = [false, 0, 0]
  for (let at = 0; at < data.length; at += 4) {
    const [red, green, blue, alpha] = [data[at], data[at + 1], data[at + 2], data[at + 3]]
    if (alpha < 255) clear = true
    if (alpha < 128) continue
    solid++
    if (0.299 * red + 0.587 * green + 0.114 * blue > NEARLY_WHITE) bright++
  }
  if (!clear) return bitmap
  const canvas = canvasOf(width, height)
  const brush = canvas.getContext('2d')
  brush.fillStyle = bright > solid / 2 ? 'black' : 'white'
  brush.fillRect(0, 0, width, height)
  brush.drawImage(bitmap, 0, 0)
  return canvas
}

/** Return what a data URL holds as a file. */
export function blobOf(address) {
  const [head, data] = address.split(',')
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))
  return new Blob([bytes], { type: /data:([^;]*)/.exec(head)[1] })
}

/** Give a canvas a width and height in pixels, and return its brush; it is not cleared where it has them. */
export function brushOf(canvas, width, height) {
  if (canvas.width !== width) canvas.width = width
  if (canvas.height !== height) canvas.height = height
  return canvas.getContext('2d')
}

/** Return the mean colour of some pixels, or of several parts of a picture, as a style's colour. */
export function meanColour(...parts) {
  const sums = [0, 0, 0]
  let pixels = 0
  for (const { data } of parts) {
    for (let at = 0; at < data.length; at += 4, pixels++) {
      for (let channel = 0; channel < 3; channel++) sums[channel] += data[at + channel]
    }
  }
  return `rgb(${sums.map((sum) => Math.round(sum / pixels))})`
}

/** Return values (rows, columns) as a picture, a pixel a value, by a table of 256 pixels. */
export function painted(values, rows, columns, table, low, top, signed) {
  const image = new ImageData(columns, rows)
  const pixels = new Uint32Array(image.data.buffer)
  const level = levels(low, top, signed)
  for (let at = 0; at < pixels.length; at++) pixels[at] = table[level(values[at])]
  return image
}

/** Return colours, red, green and blue (rows, columns) from 0 to 1, as a picture of one opacity. */
export function mixed(colours, rows, columns, opacity) {
  const image = new ImageData(columns, rows)
  colours.forEach((values, channel) => values.forEach((value, at) => (image.data[4 * at + channel] = 255 * value)))
  for (let at = 3; at < image.data.length; at += 4) image.data[at] = 255 * opacity
  return image
}

/** Return values (rows, columns) interpolated linearly between the middles of cells: (height, width). */
export function smoothed(values, rows, columns, height, width) {
  const places = (length, cells) => Array.from({ length }, (_, at) => {
    const place = clamp(((at + 0.5) * cells) / length - 0.5, 0, cells - 1)
    const cell = Math.min(Math.floor(place), Math.max(cells - 2, 0))
    return [cell, Math.min(cell + 1, cells - 1), place - cell]
  })
  const wide = new Float32Array(rows * width)
  places(width, columns).forEach(([left, right, part], x) => {
    for (let row = 0; row < rows; row++) {
      const line = row * columns
      wide[row * width + x] = values[line + left] + part * (values[line + right] - values[line + left])
    }
  })
  const fine = new Float32Array(height * width)
  places(height, rows).forEach(([up, down, part], y) => {
    for (let x = 0; x < width; x++) {
      const value = wide[up * width + x]
      fine[y * width + x] = value + part * (wide[down * width + x] - value)
    }
  })
  return fine
}

/** Return block maxima, of sizes where signed: {values, rows, columns}, at most `most` of each. */
export function pooled(values, rows, columns, most, signed) {
  if (rows <= most && columns <= most) return { values, rows, columns }
  const [high, wide] = [Math.min(rows, most), Math.min(columns, most)]
  const blocks = new Float32Array(high * wide)
  for (let row = 0; row < rows; row++) {
    const start = Math.floor((row * high) / rows) * wide
    for (let column = 0; column < columns; column++) {
      const at = start + Math.floor((column * wide) / columns)
      const value = values[row * columns + column]
      if (signed ? Math.abs(value) > Math.abs(blocks[at]) : value > blocks[at]) blocks[at] = value
    }
  }
  return { values: blocks, rows: high, columns: wide }
}
