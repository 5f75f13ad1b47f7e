import { Matrix } from './matrix.js'
import { Picture } from './picture.js'
import { html } from './preact.js'
import { largest } from './values.js'

/** Rows of cross-attention as the tokens come: of a text as a matrix that grows, of an image as patches. */
export function Streaming({ answer, kind, colormap }) {
  const { rows, results: [{ tokens }] } = answer
  if (!kind || !rows?.length) return html`<p class="quiet">${tokens.length} tokens so far …</p>`
  const last = rows.at(-1)
  if (kind.key === 'image') {
    const { rows: height, columns: width } = kind.grid
    const image = { width, height, box: { left: 0, top: 0, right: width, bottom: height } }
    const cells = Float32Array.from(last.slice(kind.prefix))
    return html`<div class="pictures"><figure>
      <${Picture} image=${image} source=${null} cells=${cells} rows=${height} columns=${width}
        top=${largest(cells, false)} colormap=${colormap} opacity=${1}
        label=${`What was looked at for “${tokens.at(-1).text}”`} />
    </figure></div>`
  }
  const values = Float32Array.from(rows.flat())
  const columns = last.map(() => ({ text: '', span: null }))
  return html`<${Matrix} rows=${tokens.slice(0, rows.length)} columns=${columns} values=${values}
    top=${largest(values, false)} colormap=${colormap} label="Rows of cross-attention so far" />`
}
