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

/** Return the names of the places of an axis, and the first place that the look shows. */
function axisOf(axis, kind, { rows, columns, start = 0, words = [], found = [] }, side) {
  if (axis === 'image') {
    const patches = range(kind.grid.rows * kind.grid.columns).map((cell) => placeOf(cell, kind.grid.columns))
    return [...range(kind.prefix).map((at) => (at ? `token ${at}` : 'the class token')), ...patches]
  }
  if (axis === 'object') return found.map(({ label, object }) => [object, `${label} #${object}`])
  const tokens = words.length ? words : side === 'query' ? rows : columns
  const before = side === 'query' ? range(start).map((at) => `token ${at}`) : []
  return [...before, ...tokens.map(labelOf)]
}

const pairsOf = (names) =>
  names.map((one, at) => (Array.isArray(one) ? one.map(String) : [String(at), `${at}: ${one}`]))

/** Return the row that is looked at, as a place of its axis. */
function queryOfLook(kind, selection, { start = 0, about = 0 }, shown) {
  const row = pinnedOf(selection)
  if (kind.query === 'object') return shown ?? 0
  if (kind.query === 'image') return row === null ? (kind.prefix ? 0 : middleOf(kind.grid)) : kind.prefix + row
  return start + (row ?? about)
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
      : `They add up to ${short(total)}; times ${short(scale)}, the root of the width below 1${
        bias ? `, and ${short(bias)} for the place` : ''}: the score is ${short(score)}.`}</p>
    <h3>2. Softmax</h3>
    <${Figures} caption="The largest scores of this row, and the weights that they become"
      head=${['key', 'score', 'weight']}
      rows=${ranked.map(([at, one]) => [names[at] ?? at, short(one), percent(Math.exp(one - most) / whole)])} />
    <p>e to the power of each score, as a share of the sum of all ${shown.length}: the weight of this key
      is ${percent(weight)}.</p>
    <h3>3. The value’s part</h3>
    <${Vectors} caption="The value, its part, and what the row gets of all keys" head=${['value', 'sum of all', 'part']}
      vectors=${[value, sum, part]} />
    <p>The row gets ${percent(weight)} of this key’s value, and so of all others.</p>`
}

/** One step inside of the attention that is looked at: of a row and a column that are chosen, by head. */
export function Inside({ model, selection, main, drawn, objects }) {
  const { look, asked: { value: answer } } = main
  const { kind } = look ?? {}
  const [chosen, choose] = useState({}) // {query, key, head}: what is not the look's own
  const layer = kind && layerOf(kind, { ...selection, method: 'raw' })
  const row = kind && queryOfLook(kind, selection, drawn, objects.shown)
  const query = chosen.query ?? row
  const values = drawn?.series?.[0].values.subarray(row * drawn.columns.length, (row + 1) * drawn.columns.length)
    ?? drawn?.panels?.[0].rows[0]
  const hottest = values?.length ? largestOf(values) : 0
  const key = chosen.key ?? (kind?.key === 'image' ? kind.prefix + hottest : hottest)
  const id = answer?.results?.length > 1 ? `${answer.id}.0` : answer?.id // of two texts the first
  const path = id && kind?.inside && `v1/attention/${encodeURIComponent(id)}/inside?${
    queryOf({ model: model.name, kind: kind.name, layer, query, key })}`
  const found = useAsked(path || null, async (signal) => (await ask(path, { signal })).body)
  if (!kind) return null
  if (!kind.inside) return html`<p>${WITHOUT}</p>`
  const [queries, keys] = ['query', 'key'].map((side) => axisOf(kind[side], kind, drawn, side))
  const heads = found.value?.heads ?? []
  const head = heads.find((one) => one.head === chosen.head) ?? heads[largestOf(heads.map(({ weight }) => weight))]
  const list = (words, name, names, value) => names.length > 1 && names.length <= NAMED && html`<${Select}
    words=${words} id=${`inside-${name}`} values=${pairsOf(names)} chosen=${String(value)}
    choose=${(one) => choose({ ...chosen, [name]: Number(one) })} />`
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
