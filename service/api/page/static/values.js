/** Return a number in three digits. */
export const short = (number) => String(Number(Number(number).toPrecision(3)))

/** Return a share as a percentage to be read; one that would be rounded to nothing is “less than” the least. */
export function percent(share, digits = 1) {
  const rounded = (100 * share).toFixed(digits)
  return share > 0 && Number(rounded) === 0 ? `<${10 ** -digits}%` : `${rounded}%`
}

/** Return a share as a length of a style. */
export const lengthOf = (share) => `${(100 * share).toFixed(4)}%`

/** Return the whole numbers below a count. */
export const range = (count) => [...Array(count).keys()]

/** Return a value within bounds. */
export const clamp = (value, low, high) => Math.min(Math.max(value, low), high)

/** Return the label of a token where white space must be seen. */
export const labelOf = ({ text }) => text.replaceAll(' ', '␣').replaceAll('\n', '⏎').replaceAll('\t', '⇥') || '·'

/**
 * Return a map of the service's JSON with its values as one Float32Array (heads, queries, keys): {...map, values,
 * heads, queries, keys, signed, size}. A pooled map has the pooled counts, and the true ones as `size`.
 */
export function unpackMap(map, method) {
  const [heads, queries, keys] = map.shape
  const values = typeof map.values === 'string' ? decoded(map) : Float32Array.from(map.values.flat(2))
  const negative = !['max', 'min'].includes(map.heads) || values.some((value) => value < 0)
  const signed = map.signed ?? (method === 'raw' && !map.normalized && negative) // weights after a softmax are mixed
  return { ...map, values, heads, queries, keys, signed, size: map.pool ?? { queries, keys } }
}

function decoded({ values, dtype, scale = 1, offset = 0 }) {
  const bytes = Uint8Array.fromBase64?.(values) ?? Uint8Array.from(atob(values), (one) => one.charCodeAt(0))
  if (dtype !== 'uint8') return new Float32Array(bytes.buffer)
  return Float32Array.from(bytes, (byte) => byte * scale + offset)
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
