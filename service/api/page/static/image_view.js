import { Legend } from './legend.js'
import { Picture } from './picture.js'
import { html, useState } from './preact.js'
import { difference, keepMass, largest, percent, short } from './values.js'

/** What was looked at in an image: one picture, or several on one scale; `other` is the look that it is compared with. */
export function ImageView({ look, other, source, selection, change, word, covered, cover, prefix, explains, caption }) {
  const [hovered, setHovered] = useState(null)
  const { panels, words, rows, columns, normalized, image } = look
  const row = Math.min(word ?? 0, panels[0].rows.length - 1)
  const at = Math.min(row, (other?.look.panels[0].rows.length ?? 1) - 1)
  const named = panels.map((panel) => ({ ...panel, source, image, label: panel.label || (other ? other.here : '') }))
  const beside = (other?.look.panels ?? []).map((panel) => ({ ...panel, source: other.source, image: other.look.image, second: true, scale: other.comparable ? undefined : panel.top, label: [other.there, panel.label].filter(Boolean).join(', ') }))
  const drawn = [...named, ...beside].map((panel) => ({ ...panel, values: panel.rows[panel.second ? at : row] }))
  const edges = Object.keys(image.box)
  const both = drawn.length === 2 && other?.comparable && edges.every((edge) => image.box[edge] === other.look.image.box[edge]) // the same patches of the image
  const top = largest(drawn.filter((panel) => panel.scale === undefined).map((panel) => panel.top), false)
  const query = selection.row === '' || words.length || explains ? null : Number(selection.row)
  const pick = (cell) => words.length || explains || change({ row: cell === null || cell === query ? '' : String(cell) })
  const picture = (panel, key) => html`
    <figure key=${key} class=${key ? 'beside' : 'main'}>
      <${Picture} image=${panel.image} source=${panel.source} cells=${keepMass(panel.values, Number(selection.keep))}
        rows=${rows} columns=${columns} top=${selection.own ? panel.top : (panel.scale ?? top)} signed=${panel.signed}
        colormap=${selection.colormap} opacity=${Number(selection.opacity)} smooth=${Boolean(selection.smooth)}
        query=${query} hovered=${hovered} covered=${panel.second ? [] : covered} label=${panel.label || 'What it looked at'}
        onHover=${setHovered} onPick=${pick} onCover=${cover} />
      ${panel.label && html`<figcaption>${panel.label}${selection.own ? `, up to ${short(panel.top)}` : ''}</figcaption>`}
    </figure>`
  const changed = both && difference(drawn[1].values, drawn[0].values)
  const all = both ? [...drawn, { ...drawn[0], values: changed, signed: true, label: 'difference', top: largest(changed, true), scale: largest(changed, true) }] : drawn
  const values = drawn[0].values
  const said = (cell) => `row ${Math.floor(cell / columns)}, column ${cell % columns}`
  const from = words.length ? `“${words[row]?.text.trim()}”` : query !== null ? `the patch in ${said(query)}` : prefix ? 'the class token' : 'all patches, mean'
  const share = normalized ? `; ${percent(values.reduce((sum, value) => sum + value, 0))} of its attention is on patches` : ''
  return html`
    <div class=${all.length > 1 ? 'pictures several' : 'pictures'} id="picture">${all.map(picture)}</div>
    <${Legend} top=${selection.own ? drawn[0].top : top} signed=${drawn[0].signed} colormap=${selection.colormap} />
    <output class="readout">${hovered === null ? html`Hover a patch for its number${!explains && !words.length && '; click it to see from there'}; Shift and drag to cover patches.`
      : `In ${said(hovered)}: ${drawn.map((panel) => short(panel.values[hovered])).join(' · ')}`}
      ${'\n'}${explains ? caption : `Seen from ${from}${share}.`}</output>
    <div class="row">
      ${query !== null && html`<button type="button" id="back" onClick=${() => pick(null)}>${prefix ? 'Back to the class token' : 'Back to all patches'}</button>`}
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
