import { useAsked } from './asked.js'
import { EveryHead } from './every_head.js'
import { AsTable } from './figures.js'
import { useLater } from './lazy.js'
import { useForgotten } from './look.js'
import { blocksOf, mapsOf } from './looks.js'
import { html, useState } from './preact.js'
import { attentionOf } from './question.js'
import {
  aboutKind, hasLabels, hasObjects, headOptionsOf, isLong, kindOf, kindsOf, layerOf, methodOf, ofShown, optionsOf,
  pinnedOf, rolloutOf, sortOf,
} from './selection.js'
import { queryOf } from './service.js'
import { taskOf } from './tasks.js'
import { range, short } from './values.js'
import { EXPLAINS, FIGURES, STATES, TERMS, wordsOf } from './words.js'

const ORDERS = 5 // random ones that an evaluation is beside

/** Every head of every layer, small; one that is clicked is shown large. */
export function Heads({ model, selection, change, input, main, objects }) {
  const { stale, asked: { value: answer } } = main
  const kind = kindOf(model, selection)
  const long = isLong(model, answer)
  const ready = answer?.id && answer.model.name === model.name && !long
  const dtype = kind.query === 'image' ? 'float32' : 'uint8' // one row of an image: small values are seen too
  const query = ready && queryOf({ ...headOptionsOf(model, selection), encoding: 'base64', dtype })
  const waits = stale && sortOf(model) === 'sound' // its maps are large: the look comes first
  const key = ready && !waits ? `${answer.id}?${query}` : answer ? undefined : null
  const found = useAsked(key, async (signal) => {
    const attention = await attentionOf(answer.id, query, signal)
    const figures = attention.diagnostics?.find((one) => one.kind === kind.name) ?? null
    const maps = mapsOf(attention)
    const named = attention.tokens[kind.key]
    const axis = Array.isArray(named) ? named : undefined // none of a sound
    const columns = axis ? blocksOf(axis, maps[0].keys, maps[0].pool) : []
    return { maps, figures, kind, special: columns.map(({ special }) => special) }
  })
  useForgotten(found, input, main.asked)
  if (kind.layers * kind.heads < 2 || long) return null
  const { maps, figures, kind: shown } = (!found.refusal && found.value) || {} // else those of the question before
  const method = methodOf(model, kind, selection)
  const raw = method === 'raw'
  const out = method === 'rollout' && rolloutOf(model, kind, selection).sinks === 'out'
  const chosen = raw ? { layer: layerOf(kind, selection), head: Number(selection.heads) } : { layer: null, head: null }
  const image = shown?.key === 'image'
  const row = maps?.[0].objects ? Math.max(maps[0].objects.indexOf(objects.shown), 0)
    : image && shown.query !== 'image' ? pinnedOf(selection) ?? 0 : 0
  const show = ({ layer, head }) => {
    change({ method: 'raw', layer: String(layer), heads: String(head) })
    document.getElementById('look').scrollIntoView({ block: 'nearest' }) // on a phone it is far above
  }
  return html`<section id="heads" aria-label="Every head" class=${found.busy || stale ? 'stale' : ''}>
    <${EveryHead} maps=${maps} figures=${figures} kind=${shown} selection=${selection} change=${change} chosen=${chosen}
      query=${row} out=${out} special=${found.value?.special}
      choose=${show}
      below=${maps && figures && html`<${AsTable} table=${() => headsTable(maps, figures, show)} />`}>
      ${found.refusal && !stale && html`<p class="quiet">${found.refusal.message}</p>`}
    <//>
  </section>`
}

/** Return the figures of every head as a table, whose heads are shown large by a click. */
function headsTable(maps, figures, show) {
  const names = Object.keys(FIGURES).filter((name) => figures[name])
  const sinks = new Set(figures.sinks?.map(({ layer, head }) => `${layer} ${head}`))
  const heads = maps.flatMap((map, at) => range(map.heads).map((head) => ({ layer: map.layer ?? at, head })))
  const row = ({ layer, head }) => [
    `L${layer} H${head}`, ...names.map((name) => Number(short(figures[name][layer][head]))),
    ...(figures.sinks ? [sinks.has(`${layer} ${head}`) ? 'sink' : ''] : []),
  ]
  const head = ['head', ...names.map((name) => FIGURES[name]), ...(figures.sinks ? ['more than half on one'] : [])]
  return { caption: 'Figures of every head', head, rows: heads.map(row), sorts: true, choose: (at) => show(heads[at]) }
}

/** Return the options of one map of one row, as an evaluation takes it: of a class, a mask, or the pinned token. */
function evaluated(model, given, { rows = [], words, about } = {}, masks) {
  const count = words ? words.length : rows.length // an address may name a row that is not there
  const selection = count && Number(given.row) >= count ? { ...given, row: '' } : given
  const { queries, merge, ...options } = optionsOf(model, selection)
  if (options.heads !== undefined) options.heads = selection.heads.split(',')[0]
  if (typeof options.target === 'string') options.target = options.target.split(',')[0]
  const seen = { queries, explains: EXPLAINS.includes(options.attention), rows, masks, about }
  return { ...options, ...taskOf(model).scored(model, selection, seen), evaluate: 'deletion,insertion', orders: ORDERS }
}

/** Whether the answer changes when what is hottest goes: curves, asked for when they are opened. */
export function Evaluation({ model, selection: selected, change, input, main, drawn, objects }) {
  const { stale, asked: { value: answer } } = main
  const selection = ofShown(selected, answer)
  const [open, setOpen] = useState(false)
  const { Curves, wrong } = useLater(open)
  const { compares, named } = taskOf(model)
  const second = model.inputs.width ? selection.against : selection.pair
  const alone = compares && !second && !hasLabels(model, selection)
  const kind = kindOf(model, selection)
  const silent = STATES.includes(methodOf(model, kind, selection))
  const several = Array.isArray(optionsOf(model, selection).against)
  const rowless = hasObjects(kind) && objects.shown === null && !EXPLAINS.includes(methodOf(model, kind, selection))
  const result = answer?.results?.[0] ?? {}
  const measured = kindsOf(model).includes('cross') ? 'cross' : kind.name // its columns are the input
  const elsewhere = kind.name !== measured
  const asks = open && !alone && !silent && !several && !rowless && !elsewhere
  const ready = asks && answer?.id && answer.model.name === model.name
  const query = ready && queryOf(evaluated(model, selection, drawn ?? undefined, result.candidates?.length))
  const found = useAsked(ready ? `${answer.id}?${query}` : null, (signal) => attentionOf(answer.id, query, signal))
  useForgotten(found, input, main.asked)
  const evaluation = found.refusal ? null : found.value?.evaluation
  const parts = { image: 'patches', node: 'nodes' }[kind.key] ?? 'tokens'
  const label = named(result, evaluation ?? {}, selection) ?? 'the answer'
  return html`<section id="evaluation" aria-label="Does it matter?">
    <details open=${open} onToggle=${({ target }) => setOpen(target.open)}>
      <summary data-term=${TERMS.measure}>Does it matter?</summary>
      <p class="quiet">
        What becomes of the answer as the hottest parts are deleted, or inserted alone, one after the other.
      </p>
      ${silent ? html`<p>This method compares parts, and explains no answer: choose another.</p>`
        : alone && html`<p>Give a second ${model.inputs.width ? 'picture' : 'text'}: what is measured is how alike the
          two are.</p>`}
      ${elsewhere && html`<p>Of this nothing can be taken away and asked anew.
        <button type="button" onClick=${() => change(aboutKind(model, selection, measured))}>
          Choose ${wordsOf({ name: measured, ...model.attention.kinds[measured] }).name}
        </button></p>`}
      ${several && html`<p>What is measured is one likeness: leave out the third.</p>`}
      ${rowless && !stale && html`<p>Nothing is found whose probability could change.</p>`}
      ${found.busy && html`<p role="status">asking…</p>`}
      ${found.refusal && html`<p class="problem">${found.refusal.message}</p>`}
      ${evaluation && wrong && html`<p class="problem">${wrong}</p>`}
      ${evaluation && Curves && html`<div class=${found.busy || stale ? 'stale' : ''}>
        <${Curves} evaluation=${evaluation} label=${label} parts=${parts} />
      </div>`}
    </details>
  </section>`
}
