import { AGAINST_AND_FOR, COLORMAPS, SIGNED } from './tables.js'

/** Colours of heads or models, told apart from one another and on a light and on a dark ground. */
export const SERIES = [
  '#3b82f6', '#e07010', '#12935a', '#e0434d', '#9b5de5', '#0f95a5', '#d9469b', '#8a8a12', '#a8693a', '#78828d',
]

/** The colour of what speaks against an answer. */
export const AGAINST = `#${AGAINST_AND_FOR[0]}`

/** The colour of what speaks for it. */
export const FOR = `#${AGAINST_AND_FOR[1]}`

/** The names of the colour maps. */
export const COLORMAP_NAMES = Object.keys(COLORMAPS)

const bytesOf = (hex) => Uint8ClampedArray.from(hex.match(/../g), (byte) => parseInt(byte, 16))

const once = new Map() // name of a palette: its bytes

/** Return 256 colours, red, green and blue each. Those of signed values are 255; the last stands twice. */
export function paletteOf(name, signed) {
  const key = signed ? 'signed' : name
  if (!once.has(key)) {
    const hex = signed ? SIGNED + SIGNED.slice(-6) : COLORMAPS[name] ?? COLORMAPS.viridis
    once.set(key, bytesOf(hex))
  }
  return once.get(key)
}

/** Return 256 opaque pixels (red in the lowest byte), by level. */
export function opaque(name, signed) {
  const palette = paletteOf(name, signed)
  return Uint32Array.from({ length: 256 }, (_, level) => pixel(palette, 3 * level, 255))
}

/**
 * Return 256 pixels over an image, by level: the service draws the same. The hotter, the less of the image is seen; of
 * signed values there are two colours, and where a value is zero there is none.
 */
export function translucent(name, signed, opacity) {
  if (!signed) {
    const palette = paletteOf(name, false)
    return Uint32Array.from({ length: 256 }, (_, level) => pixel(palette, 3 * level, opacity * level))
  }
  const [against, speaksFor] = AGAINST_AND_FOR.map(bytesOf)
  return Uint32Array.from({ length: 256 }, (_, level) => {
    const size = Math.min(Math.abs(level - 127) / 127, 1)
    return pixel(level < 127 ? against : speaksFor, 0, 255 * opacity * size)
  })
}

const pixel = (bytes, at, alpha) =>
  bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (Math.round(alpha) << 24)

/** Return what turns a value into its level, 0 to 255: from `low` to `top` or, signed, from -top (0) to top (254). */
export function levels(low, top, signed) {
  const [from, scale] = signed ? [-top, 127 / top] : [low, 255 / (top - low)]
  const most = signed ? 254 : 255
  if (!Number.isFinite(scale)) return () => (signed ? 127 : 0)
  return (value) => Math.min(Math.max(Math.floor((value - from) * scale + 0.5), 0), most) || 0 // NaN is cold
}
