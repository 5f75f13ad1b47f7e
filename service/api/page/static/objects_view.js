import { Picture } from './picture.js'
import { html } from './preact.js'
import { rowNamed } from './selection.js'
import { TextView } from './text_view.js'

/** What objects looked at in one another: their boxes, and each as a row, which is pinned as the object. */
export function BetweenObjects({ look, other, selection, change, kind, objects, source }) {
  const { found, numbers, explained, image } = look
  const rowOf = (number) => (numbers?.includes(number) ? numbers.indexOf(number) : null)
  const pick = ({ row, ...part }) => {
    if (row !== undefined && numbers) objects.pin(row === '' ? null : numbers[Number(row)])
    if (Object.keys(part).length) change(part)
  }
  return html`
    <div class="pictures"><${Picture}
      image=${image} source=${source} cells=${null} rows=${1} columns=${1} top=${1} label="What was found"
      objects=${found} marked=${objects.hovered ?? explained ?? objects.shown} pinned=${objects.pinned}
      onObject=${objects.hover} onPickObject=${objects.pin} /></div>
    ${look.rows.length ? html`<${TextView} look=${look} other=${other} kind=${kind} change=${pick}
      selection=${{ ...selection, row: rowNamed(rowOf(objects.pinned)) }} playing=${rowOf(objects.hovered)}
      point=${(row) => objects.hover(row === null || !numbers ? null : numbers[row])} />`
      : html`<p class="readout">Nothing is found that looks at anything.</p>`}`
}
