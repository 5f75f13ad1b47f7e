import { blobOf, canvasOf, meanColour, opaque } from './canvas.js'
import { send } from './service.js'

/** Pixels of a photo that is sent: a model looks at far fewer. */
export const MOST_PIXELS = 2 ** 21

const DRAWN = 'image/svg+xml'
const SIDE = 1024 // pixels of the longer side of a drawing of lines
const SENT = ['image/png', 'image/jpeg', 'image/webp']
const EXTENSIONS = { 'image/png': 'png', 'image/jpeg': 'jpg', 'image/webp': 'webp' }

/** Return a canvas as a file. `toBlob` would wait until the browser is idle, which takes a second. */
export const fileOf = (canvas, type = 'image/png') => blobOf(canvas.toDataURL(type, 0.9))

/** Return a drawing of lines as a picture: the browser makes no bitmap of its file. */
async function drawnOf(file) {
  const address = URL.createObjectURL(file)
  const image = Object.assign(new Image(), { src: address })
  await image.decode().finally(() => URL.revokeObjectURL(address))
  const { naturalWidth: wide, naturalHeight: high } = image
  const scale = SIDE / Math.max(wide, high) // of the lines, which are sharp at any
  const canvas = canvasOf(Math.round(wide * scale) || SIDE, Math.round(high * scale) || SIDE)
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height)
  return canvas
}

/**
 * Return an image as what is sent: `blob`, `name`, and the `bitmap` that is shown, upright and opaque; null where the
 * browser cannot read it. A photo is scaled, unless it is to be sent `whole`.
 */
export async function pictureOf(file, name, { whole = false } = {}) {
  const read = await (file.type === DRAWN ? drawnOf(file) : createImageBitmap(file)).catch(() => null)
  if (!read) return { kind: 'image', blob: file, bitmap: null, name } // the service has the last word on what it is
  const bitmap = file.type === 'image/jpeg' ? read : opaque(read)
  const { width, height } = bitmap
  const scale = Math.min(1, Math.sqrt(MOST_PIXELS / (width * height)))
  if (whole || (scale === 1 && SENT.includes(file.type))) return { kind: 'image', blob: file, bitmap, name }
  const canvas = canvasOf(Math.round(width * scale), Math.round(height * scale))
  const pen = canvas.getContext('2d')
  pen.drawImage(bitmap, 0, 0, canvas.width, canvas.height)
  read.close?.()
  const blob = fileOf(canvas, file.type === 'image/jpeg' || scale < 1 ? 'image/jpeg' : 'image/png')
  const renamed = `${name.replace(/\.\w+$/, '')}.${EXTENSIONS[blob.type]}`
  return { kind: 'image', blob, bitmap: canvas, name: renamed, scaled: scale < 1, file, pixels: width * height }
}

const examples = new Map() // of addresses: each is fetched once

/** Return an example as `read` makes it of its file, and the `path` that it is fetched from; as a promise. */
export function exampleOf(address, read) {
  if (!examples.has(address)) {
    const path = address.slice(1) // relative: the page may lie below a path
    const fetched = send(path).then((response) => response.blob())
    const found = fetched.then(async (blob) => ({ ...await read(blob), path }))
    examples.set(address, found)
    found.catch(() => examples.delete(address))
  }
  return examples.get(address)
}

/** Return the picture of an example, as what is sent. */
export const examplePicture = (address) =>
  exampleOf(address, (blob) => pictureOf(blob, `example.${EXTENSIONS[blob.type] ?? 'png'}`))

/** Return an image with some patches grey, as what is sent. `image`, `rows` and `columns` are those of a look at it. */
export function coveredImage(bitmap, { image, rows, columns }, cells) {
  const canvas = canvasOf(bitmap.width, bitmap.height)
  const pen = canvas.getContext('2d', { willReadFrequently: true })
  pen.drawImage(bitmap, 0, 0)
  const { box } = image
  const [across, down] = [bitmap.width / image.width, bitmap.height / image.height]
  const [wide, high] = [(box.right - box.left) / columns, (box.bottom - box.top) / rows]
  pen.fillStyle = ground(pen, canvas)
  const x = (column) => Math.round((box.left + column * wide) * across) // whole pixels: half covered ones are seams
  const y = (row) => Math.round((box.top + row * high) * down)
  for (const cell of cells) {
    const [column, row] = [cell % columns, Math.floor(cell / columns)]
    pen.fillRect(x(column), y(row), x(column + 1) - x(column), y(row + 1) - y(row))
  }
  const large = canvas.width * canvas.height > MOST_PIXELS // as a PNG it could be larger than what may be sent
  const blob = fileOf(canvas, large ? 'image/jpeg' : 'image/png')
  return { kind: 'image', blob, bitmap: canvas, name: `covered.${EXTENSIONS[blob.type]}` }
}

/** Return the mean colour of an image's edge: that of its ground, where it has one. */
function ground(pen, { width, height }) {
  const strips = [[0, 0, width, 1], [0, height - 1, width, 1], [0, 0, 1, height], [width - 1, 0, 1, height]]
  return meanColour(...strips.map((strip) => pen.getImageData(...strip)))
}
