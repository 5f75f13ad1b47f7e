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

/** Return what maps explain, in letters: the same of two looks that explain the same answer, or none. */
const subjectOf = (maps) => JSON.stringify(maps.map(({ target, targets }) =>
  [target?.object ?? target?.entity ?? target?.answer, target?.mask, target?.label,
    targets?.map(({ position, text }) => [position, text])]))

/**
 * Return the objects that are found in an image, surest first, each once: `answered` says which, or without an answer
 * those of the attention whose probability is at `least` so much. None of a model that looks for none.
 */
export function foundIn({ tokens: { object: all = [] } }, answered, least = 0.5) {
  const sure = answered ?? all.filter(({ probability }) => probability >= least)
    .sort((one, other) => other.probability - one.probability)
  return sure.filter(({ object }, at) => sure.findIndex((one) => one.object === object) === at)
}

/**
 * Return what is drawn over an image: panels, each with a label and values a row and patch. `words` are what was said
 * of the image, if each is a row. Of the rows of patches `row` is seen, the mean of all without one. Where rows are
 * objects, `numbers` say which; `explained` is the object that a method explains, `found` are those that are found.
 * `subject` names all that is explained.
 */
export function imageLook(attention, kind, row = null, found = []) {
  const { tokens, image, maps: [{ normalized, objects: numbers = null, target, grid = tokens.grid }] } = attention
  const { prefix } = tokens
  const end = prefix + grid.rows * grid.columns
  const panels = mapsOf(attention).flatMap((map) => map.names.map((name, head) => {
    const queries = range(map.queries).map((query) => rowOf(map, head, query).slice(prefix, end))
    const rows = numbers || kind.query !== 'image' ? queries : row === null ? [mean(queries)] : [queries[row]]
    const label = map.target?.label !== undefined ? `for “${map.target.label}”` : map.names.length > 1 ? name : ''
    return { label, rows, signed: map.signed, share: map.normalized }
  }))
  const written = kind.query === 'image' ? [] : tokens.target ?? []
  const words = numbers ? numbers.map((one) => ({ text: tokens.object[one].label })) : written
  const explained = target?.object ?? null
  const seen = { panels, words, image, rows: grid.rows, columns: grid.columns, normalized }
  return { ...seen, numbers, explained, found, subject: subjectOf(attention.maps) }
}

/**
 * Return what is drawn of the states of an image, and of the one that it is compared with: `sides` with the `row` of
 * how like their patches are to one of the first, or with their `colours` (red, green and blue, patch).
 */
export function statesLook(attention) {
  const sides = [attention, attention.against].filter((one) => one?.maps)
  return { states: attention.method, sides: sides.map((one) => sideOf(one, attention.method)) }
}

function sideOf({ tokens: { grid, prefix }, image, maps: [map] }, method) {
  const own = unpackMap(map, method)
  const patches = (head, query) => rowOf(own, head, query).slice(prefix, prefix + grid.rows * grid.columns)
  const seen = { image, ...grid }
  if (method === 'similar') return { ...seen, row: (cell) => patches(0, prefix + cell) }
  return { ...seen, colours: range(own.heads).map((head) => patches(head, 0)) }
}

/**
 * Return the maps of a text: `rows` and `columns` as tokens, `series` of values (one a head, or one), the text that the
 * columns lie in, its second one (`pair`), and whether rows and columns are the same tokens. `text` was asked about,
 * the tokens of `written` were answered, `row` is what a row is called that explains a score; `merged` says that tokens
 * are words. Where maps have blocks of tokens (`pool`), so have the axes. Where they have some of the rows, maps say
 * which; those of blocks are counted. The tokens of objects are their labels, of those that are `found`, and their
 * numbers; `numbers` say which are rows, if rows are objects. `before` is the text in front of the rows, `subject`
 * names all that is explained, `about` is the row that the answer is about, `start` the place of the first row on its
 * axis. `step` is the seconds of a frame of a sound, `edges` are the names of the types of a graph's edges.
 * `turns` is how many messages a chat has, behind which stands the answer.
 */
export function textLook(attention, kind, {
  text, pair, row: score, written, heads, mask, merged, found = [], about = 0, step, edges, turns,
}) {
  const { method } = attention
  const object = attention.tokens.object?.map((one) => objectToken(one, found))
  const [frame, band] = [step, 0].map((seconds) => framesOf(attention.maps[0], seconds))
  const axes = { ...attention.tokens, frame, band, object, node: attention.tokens.node?.map(nodeToken) }
  const maps = mapsOf(attention)
  const [{ target, targets, queries, keys, pool, rows: named, objects: numbers = null }] = maps
  const asked = numbers ? numbers.map((one) => axes.object[one]) : blocksOf(axes[kind.query], queries, pool)
  const generated = kind.query === 'target'
  const behind = axes.source ? 0 : [...text].length // what the answer continues
  const given = ({ span }) => span && span[0] < behind && span[1] <= behind
  const first = !generated ? 0 : turns ? asked.findIndex(({ message }) => message === turns)
    : asked.findLastIndex(given) + 1
  const own = asked.slice(first)
  const columns = blocksOf(axes[kind.key], keys, pool)
  const explains = EXPLAINS.includes(method)
  const whole = explains && !target && !targets // one row for all of an embedding
  const emitted = (token, at) => ({ text: token.text, span: null, special: at >= written.length })
  const some = !target && !whole && queries !== (targets ? own : asked).length
  const single = targets && (merged || some) // tokens, where the axis has words
  const explained = ({ object, part, label }) => axes.object?.[object] ?? { text: part ?? score ?? label, span: null }
  const rows = target ? maps.map((map) => explained(map.target))
    : whole ? [{ text: 'likeness', span: null }] : single ? targets.map(emitted)
    : some && named ? named.map((row) => asked[row])
    : some ? range(queries).map((row) => ({ text: `row ${row + 1} of ${queries}`, span: null })) : own
  const skip = target || whole || targets || some ? 0 : first * columns.length
  const values = target || whole ? Float32Array.from(maps.flatMap((map) => [...rowOf(map, 0, 0)])) : null
  const series = values ? [{ name: method, values }] : seriesOf(maps[0], heads, skip)
  const apart = method === 'relevance' && kind.name !== 'cross' && !whole
  if (apart) for (const one of series) takeIdentity(one.values, rows, columns, maps, mask, merged)
  const answer = own.filter(({ span }) => span).map((token) => token.text).join('')
  const start = own.find(({ span }) => span)?.span[0] ?? behind
  const continued = generated && !axes.source
  const same = !values && !some && !numbers && kind.query === kind.key
  const until = continued ? [...text].slice(0, start).join('') : '' // the answer's first word, which may begin here
  return {
    rows, columns, series, apart, before: single && continued ? text : until, explains, alike: method === 'similar',
    signed: maps[0].signed,
    normalized: maps[0].normalized && !['max', 'min'].includes(heads), // rows of these have no sum
    text: kind.key === 'source' ? text : until + answer, pair,
    start: first, same,
    graph: attention.graph && !pool ? { ...attention.graph, types: edges } : null,
    about: aboutOf(rows, mask, same && !merged ? about : 0),
    numbers, explained: target?.object ?? null, found, image: attention.image, subject: subjectOf(maps),
    sure: generated && !merged && !some && !pool ? written.map(({ log_probability }) => Math.exp(log_probability)) : [],
  }
}

/** Return the row that an answer is about: the mask's; none of nodes where there is no virtual one. */
function aboutOf(rows, mask, about) {
  if (rows[0]?.node !== undefined) return null
  return mask ? Math.max(rows.findIndex(({ text }) => text.includes(mask)), 0) : about
}

/** Return the frames of a sound, or blocks of them, as tokens: their seconds, or numbers where nobody says these. */
function framesOf({ shape: [,, keys], pool }, step) {
  const size = Math.ceil((pool?.keys ?? keys) / keys)
  const name = (frame) => (step ? `${(frame * step).toFixed(2)}\u00a0s` : String(frame))
  return range(keys).map((at) => ({ text: name(at * size), span: null }))
}

/** Return a look at a sound without the frames behind it, of which the model hears silence: `part` of all are left. */
export function withinSound(look, kind, part) {
  const count = (axis, list) => (axis === 'frame' ? Math.ceil(part * list.length) : list.length)
  const [rows, columns] = [count(kind.query, look.rows), count(kind.key, look.columns)]
  const kept = (values) => Float32Array.from(range(rows * columns), (at) =>
    values[Math.floor(at / columns) * look.columns.length + (at % columns)])
  return {
    ...look, rows: look.rows.slice(0, rows), columns: look.columns.slice(0, columns),
    normalized: false, // rows may have had a part of their sum behind it, which is not given to the others
    series: look.series.map((one) => ({ ...one, values: kept(one.values) })),
  }
}

/** Return a node as a token: its type, and its place in the graph where it has one. */
function nodeToken({ text, span, special }) {
  const node = span?.[0]
  const words = node === undefined ? text : `${text} #${node}`
  return { text: words.replaceAll(' ', '\u00a0'), span: null, special, name: text, node }
}

/** Return an object as a token: its label, if it is found, and its number. */
function objectToken({ label, object }, found) {
  const words = found.some((one) => one.object === object) ? `${label} #${object}` : `#${object}`
  return { text: words.replaceAll(' ', '\u00a0'), span: null } // else spaces would be marked as in a text
}

/** Return tokens; in place of some the blocks that a pooled map has: their texts, from the first to the last. */
export function blocksOf(tokens, count, pool) {
  if (!pool || tokens.length === count) return tokens
  const size = Math.ceil(tokens.length / count)
  const gap = (one, next) => (one?.span && next.span && next.span[0] > one.span[1] ? ' ' : '')
  return range(count).map((block) => {
    const part = tokens.slice(block * size, (block + 1) * size)
    const spans = part.flatMap(({ span }) => (span ? [span] : []))
    return {
      text: part.map((token, at) => gap(part[at - 1], token) + token.text).join(''),
      span: spans.length ? [spans[0][0], spans.at(-1)[1]] : null,
      special: part.every(({ special }) => special),
      sequence: part[0].sequence,
      message: part[0].message,
    }
  })
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

/** Take the 1 off that each row of relevance starts with: at its class token, mask, entity, end, or its own token. */
function takeIdentity(values, rows, columns, maps, mask, merged) {
  const masks = range(columns.length).filter((at) => mask && columns[at].text.includes(mask))
  rows.forEach((_, row) => {
    const line = values.subarray(row * columns.length, (row + 1) * columns.length)
    const { target } = maps[row] ?? {}
    const hottest = line.indexOf(largest(line)) // where nobody says what a mask is
    const own = target?.object !== undefined ? target.object
      : !target ? line.findLastIndex((value) => value > 0)
      : 'entity' in target || 'part' in target ? (merged ? hottest : target.position)
      : 'mask' in target ? masks[target.mask] ?? hottest : 0
    if (own >= 0) line[own] = Math.max(0, line[own] - 1)
  })
}
