import { useAsked } from './asked.js'
import { Figures } from './figures.js'
import { html, useState } from './preact.js'
import { Select } from './select.js'
import { layerOf, pinnedOf } from './selection.js'
import { ask, queryOf } from './service.js'
import { labelOf, middleOf, percent, placeOf, range, short } from './values.js'

const SHOWN = 8 // numbers of a vector, or keys, that are shown one by one: the largest
const NAMED = 400 // places that can be chosen from a list
const WITHOUT = 'This model’s artifact has no graph of it: if all its attention is of scaled products, export it anew.'

/** Return the names of the places of an axis, by their numbers. */
function placesOf(axis, kind, { rows, columns, start = 0, words = [], found = [] }, side) {
  const numbered = (names) => new Map(names.map((name, at) => [at, name]))
  if (axis === 'image') {
    const patches = range(kind.grid.rows * kind.grid.columns).map((cell) => placeOf(cell, kind.grid.columns))
    return numbered([...range(kind.prefix).map((at) => (at ? `token ${at}` : 'the class token')), ...patches])
  }
  if (axis === 'object') return new Map(found.map(({ label, object }) => [object, `${label} #${object}`]))
  if (words.length) return numbered(words.map(labelOf))
  if (side === 'key') return numbered(columns.map((token, at) => `${at}: ${labelOf(token)}`))
  return new Map(rows.map((token, at) => [start + at, `${start + at}: ${labelOf(token)}`]))
}

/** Return the place of the row that is looked at on its axis, and its number among the rows that are drawn. */
function rowOf(kind, pinned, { start = 0, about = 0, numbers }, shown) {
  if (kind.query === 'object') return [shown ?? 0, Math.max(numbers?.indexOf(shown) ?? 0, 0)]
  const first = kind.prefix || kind.query !== 'image' ? 0 : middleOf(kind.grid)
  if (kind.query === 'image') return [pinned === null ? first : kind.prefix + pinned, 0]
  return [start + (pinned ?? about), pinned ?? about]
}

const largestOf = (values) => values.reduce((best, value, at) => (value > values[best] ? at : best), 0)

/** The numbers that some vectors have in common places, the largest of the last one by one, and the sum of the rest. */
function Vectors({ caption, head, vectors }) {
  const last = vectors.at(-1)
  const order = [...last.keys()].sort((one, other) => Math.abs(last[other]) - Math.abs(last[one])).slice(0, SHOWN)
  const rest = last.reduce((sum, value, at) => sum + (order.includes(at) ? 0 : value), 0)
  const rows = order.map((at) => [at, ...vectors.map((one) => short(one[at]))])
  const others = last.length > SHOWN
    ? [[`the other ${last.length - SHOWN}`, ...vectors.slice(1).map(() => ''), short(rest)]] : []
  return html`<${Figures} caption=${caption} head=${['place', ...head]} rows=${[...rows, ...others]} />`
}

/** What one head makes of a row and a column, step by step. */
function Steps({ head: { query, key, bias, score, scores, weight, value, sum }, scale, names }) {
  const products = query.map((one, at) => one * key[at])
  const total = products.reduce((all, one) => all + one, 0)
  const shown = scores.map((one, at) => [at, one]).filter(([, one]) => one !== null)
  const most = Math.max(...shown.map(([, one]) => one))
  const whole = shown.reduce((all, [, one]) => all + Math.exp(one - most), 0)
  const ranked = shown.sort(([, one], [, other]) => other - one).slice(0, SHOWN)
  const part = value.map((one) => weight * one)
  const hidden = score === null
  return html`
    <h3>1. Query times key</h3>
    <${Vectors} caption="The numbers of both, and their products" head=${['query', 'key', 'product']}
      vectors=${[query, key, products]} />
    <p>${hidden ? 'The key is hidden from this row: its weight is 0.'
      : `They add up to ${short(total)}; times ${short(scale)}, one over the root of its width${
        bias ? `, and ${short(bias)} for the place` : ''}: the score is ${short(score)}.`}</p>
    <h3>2. Softmax</h3>
    <${Figures} caption="The largest scores of this row, and the weights that they become"
      head=${['key', 'score', 'weight']}
      rows=${ranked.map(([at, one]) => [names.get(at) ?? at, short(one), percent(Math.exp(one - most) / whole)])} />
    <p>e to the power of each score, as a share of the sum of all ${shown.length}: the weight of this key
      is ${percent(weight)}.</p>
    <h3>3. The value’s part</h3>
    <${Vectors} caption="The value, its part, and what the row gets of all keys" head=${['value', 'sum of all', 'part']}
      vectors=${[value, sum, part]} />
    <p>The row gets ${percent(weight)} of this key’s value, and so of all others.</p>`
}

/** One step inside of the attention that is looked at: of a row and a column that are chosen, by head. */
export function Inside({ main, drawn, objects, selection }) {
  const { look } = main
  if (!look || !drawn || drawn.states) return null
  const { kind, model } = look
  if (!kind.inside) return html`<p>${WITHOUT}</p>`
  if (look.options.merge) return html`<p>A word has a row for each of its tokens: choose tokens in place of words.</p>`
  const pinned = pinnedOf(kind.query === 'image' ? look.selection : selection) // all rows of words are here at once
  return html`<${Cells} key=${[look.answer.id, model.name, kind.name, pinned, objects.shown].join()}
    look=${look} drawn=${drawn} pinned=${pinned} shown=${objects.shown} />`
}

/** The row and the column of a look, others that are chosen, and what each head makes of them. */
function Cells({ look, drawn, pinned, shown }) {
  const { answer, kind, model, selection } = look
  const [chosen, choose] = useState({}) // {query, key, head}: what is not the look's own
  const layer = layerOf(kind, { ...selection, method: 'raw' })
  const [queries, keys] = ['query', 'key'].map((side) => placesOf(kind[side], kind, drawn, side))
  const [own, at] = rowOf(kind, pinned, drawn, shown)
  const query = chosen.query ?? own
  const width = drawn.columns.length
  const values = drawn.series?.[0].values.subarray(at * width, (at + 1) * width) ?? drawn.panels?.[0].rows[at]
  const hottest = values?.length && kind.key !== 'object' ? largestOf(values) : 0
  const key = chosen.key ?? (kind.key === 'image' ? kind.prefix + hottest : [...keys.keys()][hottest] ?? 0)
  const id = answer.results?.length > 1 ? `${answer.id}.0` : answer.id // of two texts the first
  const path = `v1/attention/${encodeURIComponent(id)}/inside?${
    queryOf({ model: model.name, kind: kind.name, layer, query, key })}`
  const found = useAsked(path, async (signal) => (await ask(path, { signal })).body)
  const heads = found.value?.heads ?? []
  const head = heads.find((one) => one.head === chosen.head) ?? heads[largestOf(heads.map(({ weight }) => weight))]
  const list = (words, name, places, value) => places.size > 1 && places.size <= NAMED && html`<${Select}
    words=${words} id=${`inside-${name}`} values=${[...places].map(([place, one]) => [String(place), one])}
    chosen=${String(value)} choose=${(one) => choose({ ...chosen, [name]: Number(one) })} />`
  return html`
    <p class="quiet">What layer ${layer} computes: how much this row looks at this column, and what it gets from it.</p>
    ${list('Row', 'query', queries, query)} ${list('Column', 'key', keys, key)}
    ${heads.length > 1 && html`<${Select} words="Head" id="inside-head" chosen=${String(head.head)}
      values=${heads.map(({ head: at, weight }) => [String(at), `${at}: ${percent(weight)}`])}
      choose=${(one) => choose({ ...chosen, head: Number(one) })} />`}
    ${found.busy && html`<p role="status">asking…</p>`}
    ${found.refusal && html`<p class="problem">${found.refusal.message}</p>`}
    ${head && !found.refusal && html`<div class=${found.busy ? 'stale' : ''}>
      <${Steps} head=${head} scale=${found.value.scale} names=${keys} />
    </div>`}`
}
