import { brushOf, painted, useDrawing } from './canvas.js'
import { opaque, translucent } from './colours.js'
import { groundOf } from './picture.js'
import { html, useRef } from './preact.js'
import { DECADES, figure } from './values.js'

const LEVELS = Float32Array.from({ length: 256 }, (_, at) => at / 255)
const SIGNED_LEVELS = LEVELS.map((share) => 2 * share - 1)

/** Return the value at a place of a logarithmic scale, 0 to 1. */
function logarithmicAt(part, top, signed) {
  const place = signed ? 2 * part - 1 : part
  return place ? Math.sign(place) * top * 10 ** (DECADES * (Math.abs(place) - 1)) : 0
}

/**
 * The colours from the least value (`low`; of signed ones -top) to `top`, with numbers, and what they speak for. Of the
 * patches `above` have larger values, up to `most`. A `share` of a whole is read as per cent. Those `over` a picture
 * ({image, source, grey}) are the heat's, of its `opacity`, on the mean of its ground; else they are opaque.
 */
export function Legend({
  top, signed, colormap, low = 0, explains = false, above = 0, most = top, share = false, over = null,
  opacity = 1, log = false,
}) {
  const canvas = useRef()
  useDrawing(() => {
    const table = over ? translucent(colormap, signed, opacity) : opaque(colormap, signed)
    const heat = new OffscreenCanvas(256, 1)
    heat.getContext('2d').putImageData(painted(signed ? SIGNED_LEVELS : LEVELS, 1, 256, table, 0, 1, signed), 0, 0)
    const brush = brushOf(canvas.current, 256, 1)
    brush.fillStyle = over ? groundOf(over) : 'white'
    brush.fillRect(0, 0, 256, 1)
    brush.drawImage(heat, 0, 0)
  }, [signed, colormap, over?.image, over?.source, over?.grey, opacity])
  const least = signed ? -top : low
  const at = (part) => (log ? logarithmicAt(part, top, signed) : least + part * (top - least))
  const numbers = [0, 0.25, 0.5, 0.75, 1].map((part) => figure(at(part), share))
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
