import { Answer } from './answer.js'
import { blobOf } from './canvas.js'
import { DrawControls } from './drawing.js'
import { EveryHead } from './every_head.js'
import { ImageView } from './image_view.js'
import { imageLook, mapsOf, textLook } from './looks.js'
import { html, render, useEffect, useMemo, useState } from './preact.js'
import { Select } from './select.js'
import { DEFAULTS, pinnedOf } from './selection.js'
import { TextView } from './text_view.js'
import { EXPLAINS, KINDS, METHODS, TITLES } from './words.js'

const NARROW = 6 // heads of a layer that fit beside the picture

/** Return a kind of attention by its name: what its rows and columns are, and of an image the grid and its prefix. */
function kindNamed(name, { grid = null, prefix = 0 }) {
  const input = grid ? 'image' : 'source'
  const [query, key] = { encoder: [input, input], cross: ['target', input], decoder: ['target', 'target_input'] }[name]
  return { name, query, key, prefix, grid }
}

/** Return the maps of an answer in groups that are looked at alone: those of several targets stand together. */
function groupsOf({ maps, tokens }) {
  const named = new Map()
  for (const map of maps) named.set(map.name, [...(named.get(map.name) ?? []), map])
  const order = Object.keys(KINDS) // what the answer looks at comes first
  const groups = [...named.values()].map((some) => ({ maps: some, kind: kindNamed(some[0].kind, tokens) }))
  groups.sort((one, other) => order.indexOf(one.kind.name) - order.indexOf(other.kind.name))
  const kinds = new Set(groups.map(({ kind }) => kind.name))
  return groups.map(({ maps: some, kind }) => {
    const alone = groups.filter((one) => one.kind.name === kind.name).length === 1
    const layer = alone ? '' : `layer ${some[0].layer ?? some[0].name}`
    return { maps: some, kind, words: [kinds.size > 1 && KINDS[kind.name].name, layer].filter(Boolean).join(', ') }
  })
}

/** Return the row of an image's maps that is seen; null for the mean of all. */
function rowSeen({ maps: [map], kind }, patch) {
  const every = kind.query === 'image' && map.shape[1] > 1 && map.shape[1] === kind.prefix + cellsOf(kind)
  if (!every) return { every, row: kind.query === 'image' && map.shape[1] === 1 ? 0 : null }
  return { every, row: patch === null ? (kind.prefix ? 0 : null) : kind.prefix + patch }
}

const cellsOf = ({ grid }) => grid.rows * grid.columns

/** Return whether tokens are words, which an answer does not say: its tokens are not those that were written. */
function areMerged({ tokens: { target = [] } }, written) {
  const spoken = target.filter(({ span }) => span).slice(-written.length)
  return spoken.some(({ text }, at) => text !== written[at]?.text) || spoken.length < written.length
}

/** Return what is drawn of a group of maps; `heads` are those that are chosen of a text. */
function lookOf({ text, result }, attention, group, patch, heads) {
  const part = { ...attention, maps: group.maps }
  if (group.kind.key === 'image') return imageLook(part, group.kind, rowSeen(group, patch).row)
  const written = result.tokens ?? []
  return textLook(part, group.kind, { text: text ?? '', written, heads, merged: areMerged(attention, written) })
}

/** Return the picture that was sent, upright, once it is decoded; null where there is none. */
function useBitmap(address) {
  const [bitmap, show] = useState(null)
  useEffect(() => {
    if (address) createImageBitmap(blobOf(address)).then(show, () => {}) // without it, the heat is drawn alone
  }, [address])
  return bitmap
}

/** Return a head of the maps of every head, as a group of its own, and the number of the head. */
function headOf(every, { layer, head }) {
  const map = every.maps.find((one) => one.layer === layer)
  return { group: { ...every, maps: [map] }, head }
}

function Inline({ seen }) {
  const [selection, set] = useState(DEFAULTS)
  const change = (part) => set((old) => ({ ...old, ...part }))
  const { result = {}, heads } = seen
  const attention = seen.attention ?? heads
  const groups = useMemo(() => (attention ? groupsOf(attention) : []), [])
  const first = groups.filter(({ kind }) => kind.name === groups[0].kind.name).length - 1 // the last layer of its kind
  const [place, choose] = useState(first)
  const [chosen, pick] = useState(null) // {layer, head}: one that is shown large
  const answered = result.labels || result.candidates || result.text !== undefined
  const every = useMemo(() => everyOf(heads, groups[place]?.kind), [place])
  const many = every && Math.max(...every.unpacked.map((map) => map.heads)) > NARROW
  const parts = { seen, attention, groups, place, every, chosen, pick, selection, change }
  const names = ['inline', many && 'many', (answered || (every && !many)) && 'beside'].filter(Boolean).join(' ')
  return html`
    <header><h1>${seen.model}</h1><small>${TITLES[seen.task] ?? seen.task} ${seen.about}</small></header>
    <main class=${names}>
      ${answered && html`<section id="answer" aria-label="Answer">
        <h2>Answer</h2>
        <${Answer} results=${[result]} pinned=${pinnedOf(selection)}
          pin=${(row) => change({ row: row === null ? '' : String(row) })} />
      </section>`}
      ${groups.length > 0 && html`<${Looked} ...${parts}
        choose=${(at) => (choose(at), pick(null), change({ row: '' }))} />`}
      ${!groups.length && html`<${Sent} ...${seen} />`}
      ${every && html`<section id="heads" aria-label="Every head">
        <${EveryHead} maps=${every.unpacked} figures=${every.figures} kind=${every.kind}
          query=${every.kind.query === 'image' ? rowSeen(every, pinnedOf(selection)).row : pinnedOf(selection) ?? 0}
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

/** What the model looked at: by its method, or by one head that is chosen. */
function Looked({ seen, attention, groups, place, choose, every, chosen, pick, selection, change }) {
  const bitmap = useBitmap(seen.picture)
  const one = chosen && headOf(every, chosen)
  const group = one?.group ?? groups[place]
  const { method } = one ? { method: 'raw' } : attention
  const pinned = pinnedOf(selection)
  const { every: all, row } = rowSeen(group, pinned)
  const look = useMemo(() => {
    const found = lookOf(seen, one ? seen.heads : attention, group, pinned, one ? String(one.head) : 'mean')
    return one && found.panels ? { ...found, panels: [{ ...found.panels[one.head], label: '' }] } : found
  }, [place, chosen, group.kind.key === 'image' ? row : null])
  const shared = { look, selection, change }
  const image = group.kind.key === 'image'
  const words = one ? `raw, layer ${chosen.layer}, head ${chosen.head}` : method
  return html`<section id="look" aria-label="What it looked at">
    <div class="row">
      <h2>What it looked at</h2><small>${words}</small>
      ${one && html`<button type="button" id="method" onClick=${() => pick(null)}>Back to ${attention.method}</button>`}
      ${!one && groups.length > 1 && html`<${Select} words="Map" id="map" chosen=${String(place)}
        values=${groups.map((other, at) => [String(at), other.words])} choose=${(at) => choose(Number(at))} />`}
    </div>
    ${image
      ? html`<${ImageView} ...${shared} source=${bitmap} word=${look.words.length ? pinned : null} fixed=${!all}
          prefix=${group.kind.prefix} explains=${EXPLAINS.includes(method)} />`
      : html`<${TextView} ...${shared} kind=${group.kind} />`}
    <p class="meaning">${METHODS[method]}</p>
    <${DrawControls} selection=${selection} change=${change} text=${!image} pairs=${group.kind.name === 'encoder'} />
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

const seen = JSON.parse(document.getElementById('seen').textContent)
render(html`<${Inline} seen=${seen} />`, document.getElementById('app'))
