import { headsOf } from './selection.js'
import { fuse, headOf, largest, range, rowOf, unpackMap } from './values.js'
import { EXPLAINS } from './words.js'

const mean = (rows) => rows[0].map((_, at) => rows.reduce((sum, row) => sum + row[at], 0) / rows.length)
const headName = (map, head) => (Array.isArray(map.heads) ? `head ${map.heads[head]}` : map.heads)

/** Return the maps of an attention answer, unpacked, each with the `names` of its heads. */
export const mapsOf = (attention) =>
  attention.maps.map((map) => {
    const names = range(map.shape[0]).map((head) => headName(map, head))
    return { ...unpackMap(map, attention.method), names, fused: !Array.isArray(map.heads) }
  })

/**
 * Return what is drawn over an image: panels, each with a label and values a row and patch. `words` are what was said
 * of the image, each a row of its own.
 */
export function imageLook(attention, kind) {
  const { tokens: { grid, prefix, target: words = [] }, image, maps: [{ normalized }] } = attention
  const panels = mapsOf(attention).flatMap((map) => map.names.map((name, head) => {
    const queries = range(map.queries).map((query) => rowOf(map, head, query).slice(prefix))
    const rows = kind.query === 'image' ? [mean(queries)] : queries // all patches look, where there is no class token
    const label = map.target?.label !== undefined ? `for “${map.target.label}”` : map.names.length > 1 ? name : ''
    return { label, rows, signed: map.signed, top: largest(rows.flatMap((row) => [...row]), map.signed) }
  }))
  return { panels, words, image, rows: grid.rows, columns: grid.columns, normalized }
}

/**
 * Return the maps of a text: `rows` and `columns` as tokens, `series` of values (one a head, or one), the text that the
 * columns lie in, and whether rows and columns are the same tokens. `text` was asked about, the tokens of `written`
 * were answered; `merged` says that tokens are words.
 */
export function textLook(attention, model, kind, { text, written, heads, merged }) {
  const { method, tokens: axes } = attention
  const maps = mapsOf(attention)
  const [{ target, targets }] = maps
  const generated = kind.query === 'target'
  const behind = axes.source ? 0 : [...text].length // what the answer continues
  const given = ({ span }) => span && span[0] < behind && span[1] <= behind
  const first = generated ? axes.target.findLastIndex(given) + 1 : 0
  const own = axes[kind.query].slice(first)
  const columns = axes[kind.key]
  const explains = EXPLAINS.includes(method)
  const whole = explains && !target && !targets // one row for all of an embedding
  const emitted = (token, at) => ({ text: token.text, span: null, special: at >= written.length })
  const rows = target ? maps.map((map) => ({ text: map.target.label, span: null }))
    : whole ? [{ text: 'likeness', span: null }] : merged && targets ? targets.map(emitted) : own
  const skip = target || whole || targets ? 0 : first * columns.length
  const values = target || whole ? Float32Array.from(maps.flatMap((map) => [...rowOf(map, 0, 0)])) : null
  const series = values ? [{ name: method, values }] : seriesOf(maps[0], heads, skip)
  const apart = method === 'relevance' && kind.name !== 'cross' && !whole
  if (apart) for (const one of series) takeIdentity(one.values, rows, columns, maps, model)
  const answer = own.filter(({ span }) => span).map((token) => token.text).join('')
  const start = own.find(({ span }) => span)?.span[0] ?? behind
  const before = axes.source || !generated ? '' : [...text].slice(0, start).join('')
  return {
    rows, columns, series, apart, before, explains, signed: maps[0].signed, normalized: maps[0].normalized,
    text: kind.key === 'source' ? text : before + answer,
    same: !values && kind.query === kind.key,
    sure: generated && !merged ? written.map(({ log_probability }) => Math.exp(log_probability)) : [],
  }
}

/** Return the heads that are chosen as series: `mean`, `max` or `min` of all, or some by number. */
function seriesOf(map, heads, skip) {
  const chosen = headsOf({ heads })
  if (map.fused || map.names.length === 1) return [{ name: map.names[0], values: headOf(map, 0).slice(skip) }]
  if (!chosen.length) return [{ name: `${heads} of heads`, values: fuse(map, heads).slice(skip) }]
  const there = chosen.filter((head) => head < map.names.length)
  if (!there.length) return [{ name: 'mean of heads', values: fuse(map, 'mean').slice(skip) }]
  return there.map((head) => ({ name: `head ${head}`, head, values: headOf(map, head).slice(skip) }))
}

/** Take the 1 off that each row of relevance starts with: at its class token, its mask, or its own token. */
function takeIdentity(values, rows, columns, maps, model) {
  const masks = range(columns.length).filter((at) => model.inputs.mask && columns[at].text.includes(model.inputs.mask))
  rows.forEach((_, row) => {
    const line = values.subarray(row * columns.length, (row + 1) * columns.length)
    const { target } = maps[row] ?? {}
    const own = !target ? line.findLastIndex((value) => value > 0) : 'mask' in target ? masks[target.mask] : 0
    if (own >= 0) line[own] = Math.max(0, line[own] - 1)
  })
}
