import { brushOf, painted, useDrawing } from './canvas.js'
import { opaque } from './colours.js'
import { html, useRef } from './preact.js'
import { short } from './values.js'

const LEVELS = Float32Array.from({ length: 256 }, (_, at) => at / 255)
const SIGNED_LEVELS = LEVELS.map((share) => 2 * share - 1)

/** The colours from the least value (`low`; of signed ones -top) to `top`, with numbers, and what they speak for. */
export function Legend({ top, signed, colormap, low = 0, explains = false }) {
  const canvas = useRef()
  useDrawing(() => {
    const image = painted(signed ? SIGNED_LEVELS : LEVELS, 1, 256, opaque(colormap, signed), 0, 1, signed)
    brushOf(canvas.current, 256, 1).putImageData(image, 0, 0)
  }, [signed, colormap])
  const least = signed ? -top : low
  const numbers = [0, 0.25, 0.5, 0.75, 1].map((share) => short(least + share * (top - least)))
  return html`<div class="legend" role="img" aria-label=${`Colours from ${numbers[0]} to ${numbers[4]}`}>
    <canvas ref=${canvas} />
    <div>${numbers.map((number) => html`<span>${number}</span>`)}</div>
    ${signed && explains && html`<div><span>against it</span><span>for it</span></div>`}
  </div>`
}
