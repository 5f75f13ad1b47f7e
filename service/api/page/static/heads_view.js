import { useAsked } from './asked.js'
import { Curves } from './curves.js'
import { HeadGrid } from './heads.js'
import { mapsOf } from './looks.js'
import { html, useState } from './preact.js'
import { attentionOf } from './question.js'
import { headOptionsOf, kindOf, layerOf, methodOf, optionsOf } from './selection.js'
import { queryOf } from './service.js'
import { ORDERS, EXPLAINS } from './words.js'

/** Every head of every layer, small; one that is clicked is shown large. */
export function Heads({ answer, model, selection, change, word }) {
  const kind = kindOf(model, selection)
  const ready = answer?.id && answer.model.name === model.name
  const query = ready && queryOf({ ...headOptionsOf(model, selection), encoding: 'base64', dtype: 'uint8' })
  const found = useAsked(ready ? `${answer.id}?${query}` : answer ? undefined : null, async (signal) => {
    const attention = await attentionOf(answer.id, query, signal)
    return { maps: mapsOf(attention), figures: attention.diagnostics?.find((one) => one.kind === kind.name) ?? null, kind }
  })
  if (kind.layers * kind.heads < 2) return null
  const raw = methodOf(model, kind, selection) === 'raw'
  const chosen = raw ? { layer: layerOf(kind, selection), head: Number(selection.heads) } : { layer: null, head: null }
  const choose = ({ layer, head }) => change({ method: 'raw', layer: String(layer), heads: String(head) })
  const shown = found.value
  const image = shown?.kind.key === 'image'
  const orders = Object.entries(ORDERS).filter(([name]) => name === 'index' || name === 'entropy' || shown?.figures?.[name])
  return html`<section id="heads" aria-label="Every head" class=${found.busy ? 'stale' : ''}>
    <h2>Every head</h2>
    <label>Order <select id="order" value=${selection.order} onChange=${({ target }) => change({ order: target.value })}>
      ${orders.map(([value, words]) => html`<option key=${value} value=${value}>${words}</option>`)}</select></label>
    ${found.refusal && html`<p class="quiet">${found.refusal.message}</p>`}
    ${shown && html`<${HeadGrid} maps=${shown.maps} order=${selection.order} figures=${shown.figures} chosen=${chosen} onChoose=${choose}
      grid=${image ? shown.kind.grid : null} prefix=${shown.kind.prefix} query=${image && shown.kind.query !== 'image' ? (word ?? 0) : 0}
      colormap=${selection.colormap} own=${true} />`}
  </section>`
}

/** Return the options of one map of one row, as an evaluation takes it. */
function evaluated(model, selection, look) {
  const { queries, ...options } = optionsOf(model, selection)
  const row = selection.row === '' ? null : Number(selection.row)
  const explains = EXPLAINS.includes(options.attention)
  const chosen = look?.rows?.length ? (row ?? 0) : row
  if (options.heads === 'all') options.heads = selection.heads.split(',')[0]
  if (explains && model.endpoints[0] === 'generate') options.target = chosen ?? 0
  if (typeof options.target === 'string') options.target = options.target.split(',')[0]
  if (!explains && kindOf(model, selection).key !== 'image') options.queries = chosen ?? 0
  else if (queries !== undefined && queries !== 'all') options.queries = queries
  return { ...options, evaluate: 'deletion,insertion' }
}

/** Whether the answer changes when what is hottest goes: curves, asked for when they are opened. */
export function Evaluation({ answer, model, selection, look }) {
  const [open, setOpen] = useState(false)
  const ready = open && answer?.id && answer.model.name === model.name
  const query = ready && queryOf(evaluated(model, selection, look))
  const found = useAsked(ready ? `${answer.id}?${query}` : null, (signal) => attentionOf(answer.id, query, signal))
  const evaluation = found.value?.evaluation
  const image = kindOf(model, selection).key === 'image'
  const { labels, tokens } = answer?.results?.[0] ?? {}
  const named = labels?.find(({ index }) => index === evaluation?.target)?.label ?? tokens?.[Number(selection.row || 0)]?.text
  const label = named ?? 'the answer'
  return html`<section id="evaluation" aria-label="Does it matter?"><details open=${open} onToggle=${({ target }) => setOpen(target.open)}>
    <summary>Does it matter?</summary>
    <p class="quiet">What becomes of the answer as the hottest parts are deleted, or inserted alone, one after the other.</p>
    ${found.busy && html`<p role="status">asking…</p>`}
    ${found.refusal && html`<p class="problem">${found.refusal.message}</p>`}
    ${evaluation && html`<div class=${found.busy ? 'stale' : ''}><${Curves} evaluation=${evaluation} label=${label} parts=${image ? 'patches' : 'tokens'} /></div>`}
  </details></section>`
}
