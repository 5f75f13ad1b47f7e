import { Legend } from './legend.js'
import { Picture, coldest } from './picture.js'
import { html, useState } from './preact.js'
import { difference, keepMass, largest, percent, short } from './values.js'

/** Return the panels of a look at one word or place, each with the values that are drawn of it: all but the smallest. */
function panelsOf(look, source, word, keep, title) {
  const { panels, image, rows, columns } = look
  return panels.map(({ rows: lines, ...panel }) => {
    const values = lines[Math.min(word, lines.length - 1)]
    const label = [title, panel.label].filter(Boolean).join(', ')
    return { ...panel, image, rows, columns, source, values, cells: keepMass(values, keep), label }
  })
}

/** Return the panel of what is more (red) or less (blue) in another look; none where its patches are others. */
function differenceOf([one, other], comparable) {
  const edges = Object.keys(one.image.box)
  if (!comparable || !other || edges.some((edge) => one.image.box[edge] !== other.image.box[edge])) return []
  if (one.values.length !== other.values.length) return []
  const values = difference(other.values, one.values)
  return [{ ...one, values, cells: values, signed: true, top: largest(values, true), label: 'difference', apart: true }]
}

/**
 * What was looked at in an image: one picture, or several on one scale. `other` is the look that it is compared with;
 * `word` is the one of a caption that is chosen; `covered` are patches that `cover` hides from the model.
 */
export function ImageView({ look, other, source, selection, change, word, covered, cover, prefix, explains, caption }) {
  const [hovered, setHovered] = useState(null)
  const [covering, setCovering] = useState(false) // without the Shift key, as a finger needs it
  const { words, normalized, columns } = look
  const own = Boolean(selection.own)
  const keep = Number(selection.keep)
  const here = panelsOf(look, source, word ?? 0, keep, other?.here)
  const there = other ? panelsOf(other.look, other.source, word ?? 0, keep, other.there) : []
  const beside = there.map((panel) => ({ ...panel, apart: !other.comparable }))
  const drawn = [...here, ...beside, ...(here.length + there.length === 2 ? differenceOf([here[0], there[0]], other?.comparable) : [])]
  const scaled = drawn.filter(({ apart }) => !apart)
  const top = Math.max(...scaled.map((panel) => panel.top))
  const low = Math.min(...scaled.map(({ cells }) => coldest(cells)))
  const canPick = !words.length && !explains // else the row is a word's, or the answer's
  const query = canPick && selection.row !== '' ? Number(selection.row) : null
  const pick = (cell) => canPick && change({ row: cell === null || cell === query ? '' : String(cell) })
  const [{ values }] = here
  const place = (cell) => `row ${Math.floor(cell / columns)}, column ${cell % columns}`
  const from = words.length ? `“${words[Math.min(word ?? 0, words.length - 1)].text.trim()}”`
    : query !== null ? `the patch in ${place(query)}` : prefix ? 'the class token' : 'all patches, mean'
  const share = normalized ? `; ${percent(values.reduce((sum, value) => sum + value, 0))} of its attention is on patches` : ''
  const hint = `Hover a patch for its number${canPick ? '; click it to see from there' : ''}; drag with Shift to cover some.`
  const numbers = () => drawn.map((panel) => short(panel.values[hovered] ?? NaN)).join(' · ')
  const picture = (panel, at) => {
    const alone = own || panel.apart
    return html`<figure key=${at}>
      <${Picture} ...${panel} top=${alone ? panel.top : top} low=${alone ? undefined : low} colormap=${selection.colormap}
        opacity=${Number(selection.opacity)} smooth=${Boolean(selection.smooth)} query=${query} hovered=${hovered}
        covered=${at < here.length ? covered : []} covering=${covering} label=${panel.label || 'What it looked at'}
        onHover=${setHovered} onPick=${pick} onCover=${cover} />
      ${panel.label && html`<figcaption>${panel.label}${alone && `, up to ${short(panel.top)}`}</figcaption>`}
    </figure>`
  }
  return html`
    <div class=${drawn.length > 1 ? 'pictures several' : 'pictures'} id="picture">${drawn.map(picture)}</div>
    <${Legend} top=${own ? here[0].top : top} low=${own ? coldest(here[0].cells) : low} signed=${here[0].signed} colormap=${selection.colormap} />
    <output class="readout">${hovered === null ? hint : `In ${place(hovered)}: ${numbers()}`}${'\n'}${explains ? caption : `Seen from ${from}${share}.`}</output>
    <div class="row">
      ${query !== null && html`<button type="button" id="back" onClick=${() => pick(null)}>Back to ${prefix ? 'the class token' : 'all patches'}</button>`}
      ${source && html`<button type="button" id="cover" aria-pressed=${covering} onClick=${() => setCovering(!covering)}>Cover patches</button>`}
      ${covered.length > 0 && html`<button type="button" id="uncover" onClick=${() => cover([])}>Uncover</button>`}
    </div>`
}

/** Return an image with some patches grey, as the service will see it. */
export function coveredImage(bitmap, image, cells, rows, columns) {
  const canvas = document.createElement('canvas')
  Object.assign(canvas, { width: bitmap.width, height: bitmap.height })
  const pen = canvas.getContext('2d', { willReadFrequently: true })
  pen.fillStyle = 'white' // as the service takes what is transparent
  pen.fillRect(0, 0, canvas.width, canvas.height)
  pen.drawImage(bitmap, 0, 0)
  const [across, down] = [bitmap.width / image.width, bitmap.height / image.height]
  const [wide, high] = [(image.box.right - image.box.left) / columns, (image.box.bottom - image.box.top) / rows]
  pen.fillStyle = ground(pen, canvas)
  for (const cell of cells) {
    const [left, top] = [image.box.left + (cell % columns) * wide, image.box.top + Math.floor(cell / columns) * high]
    pen.fillRect(left * across, top * down, wide * across, high * down)
  }
  return canvas
}

/** Return the mean colour of an image's edge: that of its ground, where it has one. */
function ground(pen, { width, height }) {
  const strips = [[0, 0, width, 1], [0, height - 1, width, 1], [0, 0, 1, height], [width - 1, 0, 1, height]]
  const sums = [0, 0, 0]
  let pixels = 0
  for (const strip of strips) {
    const { data } = pen.getImageData(...strip)
    for (let at = 0; at < data.length; at += 4, pixels++) for (let channel = 0; channel < 3; channel++) sums[channel] += data[at + channel]
  }
  return `rgb(${sums.map((sum) => Math.round(sum / pixels))})`
}
