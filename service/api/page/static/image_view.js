import { AsTable } from './figures.js'
import { Legend } from './legend.js'
import { Picture, coldest } from './picture.js'
import { html, useMemo, useRef, useState } from './preact.js'
import { pinnedOf, rowNamed } from './selection.js'
import { aboveOf, difference, extremesOf, figure, keepMass, percent, placeOf, range, scaleOf } from './values.js'
import { TOUCH } from './words.js'

const sizeOf = ({ rows, columns }) => `${rows} × ${columns}`

/** What is passed to a picture in whose grid the patches of the look have other places. */
const ELSEWHERE = { query: null, hovered: null, onHover: undefined, onPick: undefined }

/**
 * Return the panels of a look at one word, object or place, each with the `cells` that are drawn: all but the smallest.
 * A look at the objects of an image has no values where nothing, or not this object, is found.
 */
function panelsOf(look, source, { word, object }, { keep, full }, title) {
  const { panels, image, rows, columns, numbers, found } = look
  const at = numbers ? numbers.indexOf(object) : word
  return panels.map(({ rows: lines, ...panel }) => {
    const values = lines[Math.min(at, lines.length - 1)] ?? null
    const missing = numbers && at < 0 && title && 'does not find it'
    const label = [title, panel.label, missing].filter(Boolean).join(', ')
    const cells = values && keepMass(values, keep)
    const every = lines.flatMap((line) => [...line])
    return {
      ...panel, image, rows, columns, source, values, cells, label, objects: found, every,
      ...scaleOf(every, panel.signed, full),
    }
  })
}

/** Return the values of a panel as a table of rows and columns of patches. */
function tableOf({ values, rows, columns, share }) {
  const row = (at) => [at, ...[...values.subarray(at * columns, (at + 1) * columns)].map((one) => figure(one, share))]
  return { caption: 'Values of the patches', head: ['row', ...range(columns)], rows: range(rows).map(row) }
}

/** Return whether a model saw two images in the same place: a crop may follow what stands out. */
const samePlace = ({ box }, other) => Object.keys(box).every((edge) => box[edge] === other.box[edge])

/** Return the panel of what is more (red) or less (blue) in another look; none where its patches are others. */
function differenceOf(one, other, full) {
  if (!samePlace(one.image, other.image)) return []
  if (!one.values || one.values.length !== other.values?.length) return []
  const values = difference(other.values, one.values)
  const drawn = { values, cells: values, signed: true, ...scaleOf(values, true, full) }
  return [{ ...one, ...drawn, label: 'difference', apart: true, first: false }]
}

/**
 * Return the panels of a look, and of that at the `opposite` picture that it explains as well; or of the one that it is
 * compared with, and their difference, if of one answer.
 */
function allPanels(look, source, other, opposite, place, style) {
  const here = panelsOf(look, source, place, style, other?.here).map((panel) => ({ ...panel, first: true }))
  const elsewhere = (panel) => ({ ...panel, second: true })
  if (!other) {
    return opposite ? [...here, ...panelsOf(opposite.look, opposite.source, place, style).map(elsewhere)] : here
  }
  const there = panelsOf(other.look, other.source, place, style, other.there)
    .map((panel) => ({ ...panel, apart: !other.comparable }))
  const pair = other.comparable && other.look.subject === look.subject && here.length + there.length === 2
  return [...here, ...there, ...(pair ? differenceOf(here[0], there[0], style.full) : [])]
}

/** Return in words where a row of the picture is seen from, and how much of its attention is on patches. */
function seenFrom({ words, normalized, columns }, word, query, prefix, values) {
  if (!values) return 'Nothing is found that looks at anything.'
  const from = words.length ? `“${words[Math.min(word, words.length - 1)].text.trim()}”`
    : query !== null ? `the patch in ${placeOf(query, columns)}` : prefix ? 'the class token' : 'all patches, mean'
  const sum = values.reduce((total, value) => total + value, 0)
  return `Seen from ${from}${normalized ? `; ${percent(sum)} of its attention is on patches` : ''}.`
}

/**
 * What was looked at in an image: one picture, or several on one scale. `other` is the look that it is compared
 * with; `word` is the one of a caption that is chosen, `objects` says which object of a detector is (see useObjects).
 * `covered` are patches that `cover` hides from the model. A patch can be seen from unless the look is `fixed`.
 * Rows are `ofObjects` where no patch is seen from.
 */
export function ImageView({
  look, other, opposite, source, selection, change, word, objects, covered = [], cover, prefix, explains, fixed = false,
  ofObjects = false,
}) {
  const [over, setHovered] = useState(null)
  const hovered = over < look.rows * look.columns ? over : null // it may be of a larger grid
  const box = useRef(null)
  const [covering, setCovering] = useState(false) // without the Shift key, as a finger needs it
  const [own, keep, full] = [Boolean(selection.own), Number(selection.keep), Boolean(selection.full)]
  const object = objects?.shown
  const panels = useMemo(
    () => allPanels(look, source, other, opposite, { word: word ?? 0, object }, { keep, full }),
    [look, source, opposite?.source, other?.look, other?.source, other?.here, other?.there, other?.comparable,
      word, object, keep, full],
  )
  const scaled = panels.filter(({ apart }) => !apart)
  const common = useMemo(
    () => scaleOf(scaled.flatMap(({ every }) => every), scaled[0].signed, full), [panels, full])
  const above = aboveOf(scaled.flatMap(({ values }) => [...values ?? []]), scaled[0].signed, common.top)
  const low = Math.min(...scaled.map(({ cells }) => coldest(cells ?? [0])))
  const canPick = !fixed && (ofObjects || !look.words.length) && !explains // else the row is a word's, or the answer's
  const query = canPick ? pinnedOf(selection) : null
  const boxes = objects && look.found.length > 0
  const asks = boxes && objects.hovered !== null && objects.hovered !== look.explained
  const picksObject = boxes && (explains || (ofObjects && query === null))
  const at = look.numbers ? Math.max(look.numbers.indexOf(object), 0) : word ?? 0
  const pick = (cell) => canPick && change({ row: rowNamed(cell === query ? null : cell) })
  const leave = (act) => { // by a button that is gone then: the focus goes to the picture
    act()
    box.current.querySelector('.cells').focus()
  }
  const shared = {
    query, hovered, covering, onHover: setHovered, onPick: pick,
    colormap: selection.colormap, opacity: Number(selection.opacity), smooth: Boolean(selection.smooth),
    grey: Boolean(selection.grey),
    ...(boxes && {
      marked: objects.hovered ?? look.explained ?? objects.shown, pinned: objects.pinned,
      onObject: objects.hover, onPickObject: picksObject ? objects.pin : undefined,
    }),
  }
  const [first] = panels
  const tinted = { over: { image: look.image, source, grey: shared.grey }, opacity: shared.opacity }
  const picture = (panel, at) => {
    const alone = own || panel.apart
    const scale = alone ? { top: panel.top, low: undefined } : { top: common.top, low }
    const same = !panel.second && panel.rows === look.rows && panel.columns === look.columns
    const places = same ? {} : ELSEWHERE
    return html`<figure key=${at}>
      <${Picture} ...${panel} ...${shared} ...${scale} ...${places}
        covered=${panel.first ? covered : []} onCover=${panel.first ? cover : undefined}
        label=${`Heat map${panel.label && ` ${panel.label}`}, ${sizeOf(panel)} patches; arrow keys move over them`} />
      ${panel.apart && html`<${Legend} ...${panel} ...${tinted} explains=${false}
        low=${panel.signed ? 0 : coldest(panel.cells ?? [0])} colormap=${selection.colormap} />`}
      ${panel.label && html`<figcaption>
        ${panel.label}${alone && `, up to ${figure(panel.most, panel.share)}`}
      </figcaption>`}
    </figure>`
  }
  const scale = own
    ? { top: first.top, low: coldest(first.cells ?? [0]), ...aboveOf(first.values ?? [], first.signed, first.top) }
    : { top: common.top, low, ...above }
  const pins = picksObject ? ' Click a box to pin its object; Escape unpins.' : ''
  const click = pins || (canPick ? ' Click it to see from there.' : '')
  const mouse = `Point at a patch to see its value.${click}${cover ? ' Drag with Shift to cover some.' : ''}`
  const hint = TOUCH ? 'Touch a patch to see its value.' : mouse
  const alike = panels.filter(({ values, rows, columns, second }) =>
    values && !second && rows === look.rows && columns === look.columns)
  const numbers = alike.map(({ values, share }) => figure(values[hovered], share)).join(' · ')
  const under = covered.includes(hovered) ? ', which is covered' : ''
  const moved = other && first.values && covered.length > 0 && !samePlace(look.image, other.look.image)
  const lines = [
    !first.values ? '' : hovered === null ? hint : `In ${placeOf(hovered, look.columns)}${under}: ${numbers}`,
    first.values && hovered === null ? extremesOf(first.values, look.columns, first.signed, first.share) : '',
    moved ? 'With these covered, the model takes another part of the picture: its patches lie elsewhere.' : '',
    !explains ? seenFrom(look, at, query, prefix, first.values) : asks ? 'Click to explain this object.' : '',
  ]
  return html`
    <div ref=${box} class=${panels.length > 1 ? 'pictures several' : 'pictures'} id="picture">
      ${panels.map(picture)}
    </div>
    ${first.values && html`<${Legend}
      ...${scale} ...${tinted} signed=${first.signed}
      share=${first.share} colormap=${selection.colormap} explains=${explains} />`}
    <output class="readout">${lines.filter(Boolean).join('\n')}</output>
    ${first.values && html`<${AsTable} table=${() => tableOf(first)} />`}
    <div class="row">
      ${query !== null && html`<button type="button" id="back" onClick=${() => leave(() => pick(null))}>
        ${ofObjects ? 'Back to the objects' : prefix ? 'Back to the class token' : 'Back to all patches'}
      </button>`}
      ${source && cover && html`<button type="button" id="cover" aria-pressed=${covering}
        onClick=${() => setCovering(!covering)}>Cover patches</button>`}
      ${covered.length > 0 && html`<button type="button" id="uncover"
        onClick=${() => leave(() => cover([]))}>Uncover</button>`}
    </div>`
}
