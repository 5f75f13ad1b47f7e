import { blobOf } from './canvas.js'
import { placed } from './chat.js'
import { DrawControls } from './drawing.js'
import { EveryHead } from './every_head.js'
import { ImageView } from './image_view.js'
import { Heard } from './heard.js'
import { GraphDrawing } from './graph_drawing.js'
import { arrive } from './lazy.js'
import { foundIn, imageLook, mapsOf, statesLook, textLook } from './looks.js'
import { Marked } from './marked.js'
import { useObjects } from './objects.js'
import { BetweenObjects } from './objects_view.js'
import { html, render, useEffect, useMemo, useState } from './preact.js'
import { Ranked } from './ranked.js'
import { Roving } from './roving.js'
import { Select } from './select.js'
import { DEFAULTS, looksAtItsText, pinnedOf, rowNamed } from './selection.js'
import { Spans } from './spans.js'
import { PartsView } from './states_view.js'
import { taskOf, viewOf } from './tasks.js'
import { TextView } from './text_view.js'
import { short } from './values.js'
import { EXPLAINS, METHODS, SORTS, wordsOf } from './words.js'

const NARROW = 6 // heads of a layer that fit beside the picture

/**
 * Return the kind of attention that a map is of: what its rows and columns are, and of an image the grid and its
 * prefix. One whose name is not that of a sort is of the input.
 */
function kindOfMap({ kind: name, grid: own }, { grid: common = null, prefix = 0, object, source, node }) {
  const grid = own ?? common
  const input = grid ? 'image' : source ? 'source' : node ? 'node' : 'frame'
  const [answer, before] = object ? ['object', 'object'] : ['target', 'target_input']
  const axes = { encoder: [input, input], cross: [answer, input], decoder: [answer, before] }
  const kind = SORTS.includes(name) ? name : 'encoder'
  const [query, key] = axes[kind]
  return { name, kind, query, key, prefix, grid }
}

/** Return the maps of an answer in groups that are looked at alone: those of several targets stand together. */
function groupsOf({ maps, tokens }) {
  const named = new Map()
  for (const map of maps) named.set(map.name, [...(named.get(map.name) ?? []), map])
  const groups = [...named.values()].map((some) => ({ maps: some, kind: kindOfMap(some[0], tokens) }))
  const kinds = new Set(groups.map(({ kind }) => kind.name))
  const names = [...kinds].reverse() // of several of a sort the last comes first, as what the answer looks at does
  const place = ({ kind }) => SORTS.indexOf(kind.kind) * names.length + names.indexOf(kind.name)
  groups.sort((one, other) => place(one) - place(other))
  return groups.map(({ maps: some, kind }) => {
    const alone = groups.filter((one) => one.kind.name === kind.name).length === 1
    const layer = alone ? '' : `layer ${some[0].layer ?? some[0].name}`
    return { maps: some, kind, words: [kinds.size > 1 && wordsOf(kind).name, layer].filter(Boolean).join(', ') }
  })
}

/** Return the row of an image's maps that is seen; null for the mean of all. */
function rowSeen({ maps: [map], kind }, patch) {
  const rows = map.objects ? 0 : map.shape[1]
  const every = kind.query === 'image' && rows > 1 && rows >= kind.prefix + cellsOf(kind)
  if (!every) return { every, row: kind.query === 'image' && map.shape[1] === 1 ? 0 : null }
  return { every, row: patch === null ? (kind.prefix ? 0 : null) : kind.prefix + patch }
}

const cellsOf = ({ grid }) => grid.rows * grid.columns

/** Return whether tokens are words, which an answer does not say: its tokens are not those that were written. */
function areMerged({ tokens: { target = [] } }, written) {
  const spoken = target.filter(({ span }) => span).slice(-written.length)
  return spoken.some(({ text }, at) => text !== written[at]?.text) || spoken.length < written.length
}

/** Return whether the rows of a group of maps, if there is one, are the tokens of the answer. */
function rowsAnswer(group, attention, { tokens = [] }) {
  return group?.kind.query === 'target' && group.maps[0].shape[1] >= tokens.length && !areMerged(attention, tokens)
}

/** Return what is drawn of a group of maps; `heads` are chosen of a text, `found` are the objects of an image. */
function lookOf(seen, attention, group, patch, heads, found, shown) {
  const { text, messages, result, mask, edge_types: edges } = seen
  const tokens = messages ? placed(attention.tokens, messages) : attention.tokens
  const part = { ...attention, tokens, maps: group.maps }
  if (attention.method === 'parts') return statesLook({ ...part, against: null })
  if (group.kind.key === 'image') return imageLook(part, group.kind, rowSeen(group, patch).row, found)
  const written = result.tokens ?? []
  const merged = !found.length && areMerged(attention, written)
  const about = result.entities?.find(({ object }) => object === shown)?.tokens[0]
  const turns = messages?.length
  return textLook(part, group.kind, { text: text ?? '', written, heads, mask, merged, found, about, edges, turns })
}

/** Return the picture that was sent, upright, once it is decoded; null where there is none. */
function useBitmap(address) {
  const [bitmap, show] = useState(null)
  useEffect(() => {
    if (address) createImageBitmap(blobOf(address)).then(show, () => {}) // without it, the heat is drawn alone
  }, [address])
  return bitmap
}

/** Return a result as views take it: the client has those of the service. */
function resultOf({ result = {}, text }) {
  const { entities, answers, context, index, score, against } = result
  if (entities) return { text, ...result, entities: entities.map((one, object) => ({ object, ...one })) }
  if (answers && context === undefined) { // it stands in the text that was sent, behind the question
    return { ranked: answers.map((one, object) => ({ object, text: one.text, share: one.score })) }
  }
  if (index === undefined) return result
  return { ranked: [{ object: index, score, text: result.text }], against }
}

/** Return a head of the maps of every head, as a group of its own, and the number of the head. */
function headOf(every, { layer, head }) {
  const map = every.maps.find((one) => one.layer === layer)
  return { group: { ...every, maps: [map] }, head }
}

function Inline({ seen }) {
  const [selection, set] = useState({ ...DEFAULTS, ...seen.drawn })
  const change = (part) => set((old) => ({ ...old, ...part }))
  const { heads } = seen
  const result = useMemo(() => resultOf(seen), [])
  const attention = seen.attention ?? heads
  const groups = useMemo(() => (attention ? groupsOf(attention) : []), [])
  const first = groups.filter(({ kind }) => kind.name === groups[0].kind.name).length - 1 // the last layer of its kind
  const [place, choose] = useState(first)
  const [chosen, pick] = useState(null) // {layer, head}: one that is shown large
  const found = useMemo(() => (attention ? foundIn(attention, result.objects) : result.objects ?? []), [])
  const objects = useObjects(result.entities ?? result.answers ?? result.ranked ?? found, selection, change)
  const rows = rowsAnswer(groups[place], attention, result) // else a row is no token that was written
  const [written, mark] = useState(null) // a token of the answer that is no row of the map
  const Answer = viewOf(result)
  const every = useMemo(() => everyOf(heads, groups[place]?.kind), [place])
  const { title } = taskOf({ ...seen, endpoints: result.ranked?.[0].score === undefined ? [] : ['rerank'] })
  const many = every && Math.max(...every.unpacked.map((map) => map.heads)) > NARROW
  const names = ['inline', many && 'many', (Answer || (every && !many)) && 'beside'].filter(Boolean).join(' ')
  return html`
    <header><h1>${seen.model}</h1><small>${title} ${seen.about}</small></header>
    <main class=${names}>
      ${Answer && html`<section id="answer" aria-label="Answer">
        <h2>Answer</h2>
        <${Answer} results=${[result]} objects=${objects}
          pinned=${rows ? pinnedOf(selection) : written}
          pin=${rows ? (row) => change({ row: rowNamed(row) }) : mark} />
      </section>`}
      ${groups.length > 0 && html`<${Looked} seen=${{ ...seen, result }} attention=${attention} groups=${groups}
        every=${every} place=${place} choose=${(at) => (choose(at), pick(null), change({ row: '' }))}
        chosen=${chosen} pick=${pick} selection=${selection} change=${change} found=${found} objects=${objects} />`}
      ${!groups.length && html`<${Sent} ...${seen} />`}
      ${every && html`<section id="heads" aria-label="Every head">
        <${EveryHead} maps=${every.unpacked} figures=${every.figures} kind=${every.kind}
          query=${rowOfHeads(every, pinnedOf(selection), objects)}
          selection=${selection} change=${change} chosen=${chosen}
          choose=${(one) => pick(one.layer === chosen?.layer && one.head === chosen?.head ? null : one)} />
      </section>`}
    </main>`
}

/** Return the maps of every head of a kind, also unpacked, with figures of them; null without any. */
function everyOf(heads, kind) {
  const maps = heads?.maps.filter((map) => map.kind === kind?.name) ?? []
  if (maps.length * (maps[0]?.shape[0] ?? 0) < 2) return null
  const figures = heads.diagnostics?.find((one) => one.kind === kind.name) ?? null
  return { maps, kind, figures, unpacked: mapsOf({ ...heads, maps }) }
}

/** Return the row that the heads of an image are seen from; null for the mean of all. */
function rowOfHeads(every, pinned, { shown }) {
  const [{ objects: numbers }] = every.maps
  if (numbers) return Math.max(numbers.indexOf(shown), 0)
  return every.kind.query === 'image' ? rowSeen(every, pinned).row : pinned ?? 0
}

/** What the model looked at: by its method, or by one head that is chosen. */
function Looked({
  seen, attention, groups, place, choose, every, chosen, pick, selection, change, found, objects,
}) {
  const bitmap = useBitmap(seen.picture)
  const one = chosen && headOf(every, chosen)
  const group = one?.group ?? groups[place]
  const { method } = one ? { method: 'raw' } : attention
  const pinned = pinnedOf(selection)
  const { every: all, row } = rowSeen(group, pinned)
  const look = useMemo(() => {
    const heads = one ? String(one.head) : selection.heads
    const whole = lookOf(seen, one ? seen.heads : attention, group, pinned, heads, found, objects.shown)
    return one && whole.panels ? { ...whole, panels: [{ ...whole.panels[one.head], label: '' }] } : whole
  }, [place, chosen, group.kind.key === 'image' ? row : seen.result.entities ? objects.shown : null])
  const shared = { look, selection, change }
  const image = group.kind.key === 'image'
  const text = () => (group.kind.query === 'object'
    ? html`<${BetweenObjects} ...${shared} kind=${group.kind} objects=${objects} source=${bitmap} />`
    : html`<${TextView} ...${shared} kind=${group.kind} />`)
  const { against } = seen.result // another text, which it is explained against
  const than = against ? `, against ${against.text} (${short(against.score)})` : ''
  const words = one ? `raw, layer ${chosen.layer}, head ${chosen.head}` : `${method}${than}`
  return html`<section id="look" aria-label="What it looked at">
    <div class="row">
      <h2>What it looked at</h2><small>${words}</small>
      ${one && html`<button type="button" id="method" onClick=${() => pick(null)}>Back to ${attention.method}</button>`}
      ${!one && groups.length > 1 && html`<${Select} words="Map" id="map" chosen=${String(place)}
        values=${groups.map((other, at) => [String(at), other.words])} choose=${(at) => choose(Number(at))} />`}
    </div>
    ${look.states
      ? html`<${PartsView} look=${look} sources=${[bitmap]} selection=${selection} />`
      : image ? html`<${ImageView} ...${shared} source=${bitmap} word=${look.words.length ? pinned : null} fixed=${!all}
          objects=${objects} ofObjects=${Boolean(look.numbers)}
          prefix=${group.kind.prefix} explains=${EXPLAINS.includes(method)} />`
      : text()}
    <p class="meaning">${METHODS[method]}</p>
    <${DrawControls} selection=${selection} change=${change} text=${!image} pairs=${looksAtItsText(group.kind)} />
  </section>`
}

/** What was sent, where no attention is shown. */
function Sent({ picture, text }) {
  if (!picture && !text) return null
  return html`<section id="sent" aria-label="What was sent">
    <h2>Input</h2>
    ${picture ? html`<img src=${picture} alt="What was sent" />` : html`<p class="words">${text}</p>`}
  </section>`
}

/** Some looks that were kept, one after the other. */
function Looks({ looks }) {
  const [at, go] = useState(0)
  const button = ({ name }, number) => html`<button type="button" key=${number} aria-pressed=${String(number === at)}
    onClick=${() => go(number)}>${name}</button>`
  return html`
    ${looks.length > 1 && html`<${Roving} class="row looks" aria-label="Looks">${looks.map(button)}<//>`}
    <${Inline} key=${at} seen=${looks[at]} />`
}

arrive({ GraphDrawing, Heard, Marked, Ranked, Spans })
const seen = JSON.parse(document.getElementById('seen').textContent)
render(html`<${Looks} looks=${seen.looks ?? [seen]} />`, document.getElementById('app'))
