import { Legend } from './legend.js'
import { Picture } from './picture.js'
import { html, useMemo, useState } from './preact.js'
import { pinnedOf, rowNamed } from './selection.js'
import { aboveOf, middleOf, placeOf, scaleOf, short } from './values.js'
import { TOUCH } from './words.js'

const NOTHING = new Float32Array(0)

/** Return how like the patches of a side are to a patch `at` of either side; null where that was not asked for. */
function likenessOf(sides, side, at) {
  const [first] = sides
  const cells = first.rows * first.columns
  if (at.side === 0) return side.row(at.cell)
  if (side !== first) return null // the second picture was not compared with itself
  return Float32Array.from({ length: cells }, (_, cell) => sides[1].row(cell)[at.cell])
}

/** Return where colours end: at the end of the `sought` side's, where a part is looked for; and what is above. */
function scaleFor(heat, sought, full) {
  const { top } = scaleOf(sought, false, full)
  return { top, ...aboveOf(heat.flatMap((values) => [...values ?? []]), false, top) }
}

const hottest = (values) => values.reduce((best, value, at) => (value > values[best] ? at : best), 0)

/**
 * Parts of one picture, or of two, that are alike: those like the patch that is pointed at, or pinned, in either.
 * Before anybody points, it is the patch in the middle of the first.
 */
export function SimilarView({ look: { sides }, sources, selection, change }) {
  const [over, point] = useState(null)
  const [beyond, pin] = useState(null) // the patch that is pinned in the second picture
  const own = { side: 0, cell: pinnedOf(selection) ?? middleOf(sides[0]) }
  const pinned = beyond !== null && sides[1] ? { side: 1, cell: beyond } : own
  const at = over && sides[over.side] ? over : pinned
  const found = useMemo(() => sides.map((side) => likenessOf(sides, side, at)), [sides, at.side, at.cell])
  const heat = useMemo(() => found.map((values) => values?.map((value) => Math.max(value, 0)) ?? null), [found])
  const { full, colormap, opacity, smooth, grey } = selection
  const scale = useMemo(() => scaleFor(heat, heat[1 - at.side] ?? heat[at.side], Boolean(full)), [heat, full])
  const pick = (side, cell) => {
    pin(side ? cell : null)
    if (!side) change({ row: rowNamed(cell) })
  }
  const other = sides.length > 1 ? 1 - at.side : 0
  const best = hottest(found[other] ?? NOTHING)
  const markOf = (side) => (side === other && side !== at.side && found[side] ? best // what is most alike
    : side === pinned.side ? pinned.cell : null)
  const words = (side) => (sides.length < 2 ? '' : side ? 'the second picture' : 'the first picture')
  const nearest = sides.length > 1 && found[other]?.length
    ? `Most alike in ${words(other)}: ${placeOf(best, sides[other].columns)}, cosine ${short(found[other][best])}.` : ''
  const hint = over && sides.length === 1 ? '' : TOUCH ? 'Touch a part.' : 'Point at a part; click it to keep it.'
  return html`
    <div class=${sides.length > 1 ? 'pictures several' : 'pictures'} id="picture">
      ${sides.map((side, number) => html`<figure key=${number}>
        <${Picture} ...${side} source=${sources[number]} cells=${heat[number] ?? coldOf(side)} low=${0}
          top=${scale.top} query=${markOf(number)} hovered=${over?.side === number ? over.cell : null}
          onHover=${(cell) => point(cell === null ? null : { side: number, cell })}
          onPick=${(cell) => pick(number, cell)}
          colormap=${colormap} opacity=${Number(opacity)} smooth=${Boolean(smooth)} grey=${Boolean(grey)}
          label=${words(number) || 'Parts that are alike'} />
      </figure>`)}
    </div>
    <${Legend} ...${scale} colormap=${colormap} opacity=${Number(opacity)}
      over=${{ image: sides[0].image, source: sources[0], grey }} />
    <output class="readout">
      ${[`Like ${placeOf(at.cell, sides[at.side].columns)}${words(at.side) && ` of ${words(at.side)}`}.`, nearest, hint]
        .filter(Boolean).join('\n')}
    </output>`
}

const coldOf = ({ rows, columns }) => new Float32Array(rows * columns)

/** The parts of one picture, or of two, each in a colour. */
export function PartsView({ look: { sides }, sources, selection }) {
  const { opacity, smooth, grey } = selection
  return html`
    <div class=${sides.length > 1 ? 'pictures several' : 'pictures'} id="picture">
      ${sides.map((side, number) => html`<figure key=${number}>
        <${Picture} ...${side} source=${sources[number]} opacity=${Number(opacity)}
          smooth=${Boolean(smooth)} grey=${Boolean(grey)} label="Parts, each in a colour" />
      </figure>`)}
    </div>
    <output class="readout">
      Red, green and blue are the three directions in which the patches${sides.length > 1 ? ' of both pictures' : ''}
      differ most: what has one colour is alike to the model.
    </output>`
}
