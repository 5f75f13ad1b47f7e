import { Matrix } from './matrix.js'
import { Picture } from './picture.js'
import { html } from './preact.js'
import { largest } from './values.js'

/** Rows of cross-attention as the tokens come: of a text as a matrix that grows, of an image as patches. */
export function Streaming({ answer, kind, colormap }) {
  const { rows, results: [{ tokens }] } = answer
  if (!kind || !rows?.length) return html`<p class="quiet">${tokens.length} tokens so far …</p>`
  const last = Float32Array.from(rows.at(-1))
  if (kind.key === 'image') {
    const { rows: down, columns } = kind.grid
    const image = { width: columns, height: down, orientation: 1, box: { left: 0, top: 0, right: columns, bottom: down } }
    const cells = last.slice(kind.prefix)
    return html`<div class="pictures"><figure><${Picture} image=${image} source=${null} cells=${cells} rows=${down} columns=${columns}
      top=${largest(cells, false)} signed=${false} colormap=${colormap} opacity=${1} smooth=${true} query=${null} hovered=${null} covered=${[]}
      label=${`What was looked at for “${tokens.at(-1).text}”`} onHover=${() => {}} onPick=${() => {}} onCover=${() => {}} /></figure></div>`
  }
  const values = Float32Array.from(rows.flat())
  const columns = [...last.keys()].map(() => ({ text: '', span: null }))
  return html`<${Matrix} rows=${tokens.slice(0, rows.length)} columns=${columns} values=${values} signed=${false} top=${largest(values, false)}
    colormap=${colormap} hovered=${null} pinned=${null} onHover=${() => {}} onPick=${() => {}} label="Rows of cross-attention so far" />`
}
