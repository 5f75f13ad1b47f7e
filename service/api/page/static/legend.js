import { brushOf, painted, useDrawing } from './canvas.js'
import { opaque } from './colours.js'
import { html, useRef } from './preact.js'
import { figure } from './values.js'

const LEVELS = Float32Array.from({ length: 256 }, (_, at) => at / 255)
const SIGNED_LEVELS = LEVELS.map((share) => 2 * share - 1)

/**
 * The colours from the least value (`low`; of signed ones -top) to `top`, with numbers, and what they speak for. Of the
 * patches `above` have larger values, up to `most`. A `share` of a whole is read as per cent.
 */
export function Legend({ top, signed, colormap, low = 0, explains = false, above = 0, most = top, share = false }) {
  const canvas = useRef()
  useDrawing(() => {
    const image = painted(signed ? SIGNED_LEVELS : LEVELS, 1, 256, opaque(colormap, signed), 0, 1, signed)
    brushOf(canvas.current, 256, 1).putImageData(image, 0, 0)
  }, [signed, colormap])
  const least = signed ? -top : low
  const numbers = [0, 0.25, 0.5, 0.75, 1].map((part) => figure(least + part * (top - least), share))
  if (above) numbers[4] = `≥ ${numbers[4]}`
  return html`<div class="legend" role="img" aria-label=${`Colours from ${numbers[0]} to ${numbers[4]}`}>
    <canvas ref=${canvas} />
    <div>${numbers.map((number) => html`<span>${number}</span>`)}</div>
    ${above > 0 && html`<small>
      ${above} ${above === 1 ? 'patch is' : 'patches are'} above, up to ${figure(most, share)}
    </small>`}
    ${signed && explains && html`<div><span>against it</span><span>for it</span></div>`}
  </div>`
}
