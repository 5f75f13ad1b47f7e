/** Return a number in three digits. */
export const short = (number) => String(Number(Number(number).toPrecision(3)))

/** Return a value in three digits; a share of a whole as per cent. */
export const figure = (value, share) => (share ? `${short(100 * value)} %` : short(value))

/** Return a share as a percentage to be read; one that would be rounded to nothing is “less than” the least. */
export function percent(share, digits = 1) {
  const rounded = (100 * share).toFixed(digits)
  return share > 0 && Number(rounded) === 0 ? `<${10 ** -digits}%` : `${rounded}%`
}

/** Powers of ten that logarithmic colours have below the end of a scale. */
export const DECADES = 4

/** Return the place of a share on a logarithmic scale of DECADES, 0 to 1. */
export const logarithmic = (share) => (share > 0 ? Math.max(1 + Math.log10(share) / DECADES, 0) : 0)

/** Return where a cell of a grid is, in words. */
export const placeOf = (cell, columns) => `row ${Math.floor(cell / columns)}, column ${cell % columns}`

/** Say which cells of a grid are the hottest and the coldest, or which speak most for and against it. */
export function extremesOf(values, columns, signed, share) {
  const order = [...values.keys()].sort((one, other) => values[other] - values[one])
  const named = (cell) => `${placeOf(cell, columns)} (${figure(values[cell], share)})`
  const [hot, cold] = signed ? ['Most for it', 'most against it'] : ['Hottest', 'coldest']
  return `${hot}: ${order.slice(0, 2).map(named).join(', ')}; ${cold}: ${named(order.at(-1))}.`
}

/** Return the cell in the middle of a grid. */
export const middleOf = ({ rows, columns }) => Math.floor(rows / 2) * columns + Math.floor(columns / 2)

/** Return a share as a length of a style. */
export const lengthOf = (share) => `${(100 * share).toFixed(4)}%`

/** Return a value as JSON with spaces; `names` are other ones of its constants, as a Map. */
export function written(value, names) {
  const one = (part) => written(part, names)
  if (Array.isArray(value)) return `[${value.map(one).join(', ')}]`
  if (value && typeof value === 'object') {
    return `{${Object.entries(value).map((entry) => entry.map(one).join(': ')).join(', ')}}`
  }
  return names?.get(value) ?? JSON.stringify(value)
}

/** Return a row of values, (rows, columns) in one array; without a row the mean of all. */
export function rowOrMean(values, columns, row) {
  if (row !== null) return values.subarray(row * columns, (row + 1) * columns)
  const count = values.length / columns
  return Float32Array.from(range(columns), (at) =>
    range(count).reduce((sum, one) => sum + values[one * columns + at], 0) / count)
}

/** Return the whole numbers below a count. */
export const range = (count) => [...Array(count).keys()]

/** Return the lines of a text that hold something. */
export const linesOf = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean)

/** Return a value within bounds. */
export const clamp = (value, low, high) => Math.min(Math.max(value, low), high)

/** Return the label of a token where white space must be seen. */
export const labelOf = ({ text }) => text.replaceAll(' ', '␣').replaceAll('\n', '⏎').replaceAll('\t', '⇥') || '·'

const LEFTWARD = /[\u0591-\u08ff\ufb1d-\ufdfd\ufe70-\ufefc]/ // Hebrew, Arabic, Syriac, Thaana, N'Ko and their like

/** Return the direction of a text by its first token that has a letter and is not special: rtl or ltr. */
export function directionOf(tokens) {
  const first = tokens.find(({ text, special }) => !special && /\p{L}/u.test(text))
  return first && LEFTWARD.test(first.text) ? 'rtl' : 'ltr'
}

/**
 * Return a map of the service's JSON with its values as one Float32Array (heads, queries, keys): {...map, values,
 * heads, queries, keys, signed, size}. A pooled map has the pooled counts, and the true ones as `size`.
 */
export function unpackMap(map, method) {
  const [heads, queries, keys] = map.shape
  const values = typeof map.values === 'string' ? decoded(map) : Float32Array.from(map.values.flat(2))
  const negative = !['max', 'min'].includes(map.heads) || values.some((value) => value < 0)
  const mixed = method === 'similar' || (method === 'raw' && !map.normalized) // weights after a softmax are mixed
  const signed = map.signed ?? (mixed && negative)
  return { ...map, values, heads, queries, keys, signed, size: map.pool ?? { queries, keys } }
}

function decoded({ values, dtype, scale, zero = 0 }) {
  const bytes = Uint8Array.fromBase64?.(values) ?? Uint8Array.from(atob(values), (one) => one.charCodeAt(0))
  if (dtype !== 'uint8') return new Float32Array(bytes.buffer)
  return Float32Array.from(bytes, (byte) => (byte - zero) * Math.abs(byte - zero) * scale)
}

/** Return one head's values, (queries, keys), without a copy. */
export function headOf({ values, queries, keys }, head) {
  return values.subarray(head * queries * keys, (head + 1) * queries * keys)
}

/** Return one row of one head, without a copy. */
export function rowOf(map, head, query) {
  return headOf(map, head).subarray(query * map.keys, (query + 1) * map.keys)
}

/** Return all heads as one, by their `mean`, `max` or `min`: (queries, keys). */
export function fuse(map, how) {
  const fused = Float32Array.from(headOf(map, 0))
  for (let head = 1; head < map.heads; head++) {
    const own = headOf(map, head)
    if (how === 'mean') for (let at = 0; at < own.length; at++) fused[at] += own[at]
    else for (let at = 0; at < own.length; at++) fused[at] = Math[how](fused[at], own[at])
  }
  return how === 'mean' ? fused.map((sum) => sum / map.heads) : fused
}

/** Return the largest of some values, or of their sizes where they are signed; 1 where there is nothing. */
export function largest(values, signed) {
  let most = 0
  for (let at = 0; at < values.length; at++) {
    const size = signed ? Math.abs(values[at]) : values[at]
    if (size > most && size < Infinity) most = size
  }
  return most || 1
}

const RANK = 0.98
const MOST_ABOVE = 0.5

/**
 * Return the size of a value from which on colours are the hottest, by the rule of the service's scale.py: that of rank
 * RANK among those that are not 0, or a larger one, while larger ones have more than MOST_ABOVE of the sum. 1 where
 * there is nothing.
 */
export function endOf(values, signed) {
  const sizes = Float64Array.from(values, (value) => (signed ? Math.abs(value) : value))
    .filter((size) => size > 0 && size < Infinity).sort()
  if (!sizes.length) return 1
  const sum = sizes.reduce((total, size) => total + size, 0)
  let [at, below] = [0, sizes[0]]
  while (sum - below > MOST_ABOVE * sum) below += sizes[++at]
  return sizes[Math.max(Math.ceil(RANK * sizes.length) - 1, at)]
}

/** Return how many values are above the end of the colours, and the largest of all: {above, most}. */
export const aboveOf = (values, signed, top) => ({
  above: values.filter((value) => (signed ? Math.abs(value) : value) > top).length, most: largest(values, signed),
})

/** Return what colours end at: the rule's end or, in `full`, the largest; and what is above: {top, above, most}. */
export function scaleOf(values, signed, full) {
  const top = full ? largest(values, signed) : endOf(values, signed)
  return { top, ...aboveOf(values, signed, top) }
}

/** Return a copy in which the fewest values that hold a share of the sum of all sizes stay; the others are 0. */
export function keepMass(values, share) {
  const sizes = Float32Array.from(values, Math.abs).sort().reverse()
  const wanted = share * sizes.reduce((sum, size) => sum + size, 0) * (1 - 1e-6) // single floats do not add up exactly
  let kept = 0
  for (let sum = 0; kept < sizes.length && sum < wanted; kept++) sum += sizes[kept]
  if (!kept) return new Float32Array(values.length)
  const least = sizes[kept - 1]
  let equal = kept - sizes.indexOf(least) // how many of those that are as large as the least stay
  return Float32Array.from(values, (value) => {
    const size = Math.abs(value)
    return size > least || (size === least && equal-- > 0) ? value : 0
  })
}

const dot = (one, other) => one.reduce((sum, value, at) => sum + value * other[at], 0)

/** Return the length of a vector. */
export const normOf = (vector) => Math.sqrt(dot(vector, vector))

/** Return the cosine of the angle between two vectors. */
export const cosine = (one, other) => dot(one, other) / (normOf(one) * normOf(other))

/** Return one minus the other. */
export const difference = (one, other) => Float32Array.from(one, (value, at) => value - other[at])

/**
 * Return values (queries, keys) without some rows and columns, and which are left: {values, queries, keys}. Rows that
 * are `normalized` sum to one again.
 */
export function without(values, queries, keys, hiddenQueries, hiddenKeys, normalized) {
  const left = (count, hidden) => range(count).filter((at) => !hidden.has(at))
  const [rows, columns] = [left(queries, hiddenQueries), left(keys, hiddenKeys)]
  const kept = new Float32Array(rows.length * columns.length)
  rows.forEach((query, row) => {
    const start = row * columns.length
    columns.forEach((key, column) => (kept[start + column] = values[query * keys + key]))
    if (!normalized) return
    const line = kept.subarray(start, start + columns.length)
    const sum = line.reduce((total, value) => total + value, 0)
    if (sum) line.set(line.map((value) => value / sum))
  })
  return { values: kept, queries: rows, keys: columns }
}

/** Return the mean entropy of rows, in nats; negative weights count by their size, as in the service's diagnostics. */
export function entropy(values, queries, keys) {
  let total = 0
  for (let query = 0; query < queries; query++) {
    let [sum, weighted] = [0, 0]
    for (let at = query * keys; at < (query + 1) * keys; at++) {
      const size = Math.abs(values[at])
      sum += size
      if (size) weighted += size * Math.log(size)
    }
    if (sum) total += Math.log(sum) - weighted / sum
  }
  return total / (queries || 1)
}
