import { canvasOf } from './canvas.js'
import { MOST_PIXELS, fileOf, pictureOf } from './image_file.js'
import { html, useEffect, useRef } from './preact.js'

const SIDE = 448 // pixels of the drawing's longer side
const THIN = 14 // a stroke's width is this part of the shorter side
const TOUCHED = matchMedia('(pointer: coarse)').matches // a phone, whose camera the button opens

/**
 * A pad to draw on, which also takes images that are chosen or photographed; several lead to `takeSeveral`. `take` is
 * given each as `pictureOf` returns it, or as a promise of it while the browser reads it; null when it is cleared. Of
 * more than `most` pixels no photo can be sent as it is.
 */
export function ImageInput({ picture, take, takeSeveral, most, over }) {
  const pad = useRef(null)
  const pen = usePen(pad, picture, take)
  const load = (file, options) => file && take(pictureOf(file, file.name ?? 'image.png', options))
  const clear = () => {
    show(pad.current, null)
    take(null)
  }
  const said = !picture ? 'Draw here, or drop or paste an image.'
    : picture.drawing ? 'Your drawing; go on, or clear it.' : picture.name
  const fits = picture?.scaled && picture.pixels <= most
  const whole = html`<button type="button" class="plain" onClick=${() => load(picture.file, { whole: true })}>
    Send it as it is
  </button>`
  return html`<div class=${over ? 'dropping' : ''}>
    <canvas class="pad" id="pad" ref=${pad} width=${SIDE} height=${SIDE} role="img"
      aria-label="Drawing area; without a pointer, choose an image below" ...${pen}></canvas>
    <p class="quiet">
      ${said}${picture && !picture.bitmap && ': the browser cannot show it, the model may read it.'}
      ${picture?.scaled && html` Scaled to ${MOST_PIXELS / 2 ** 20} megapixels. ${fits && whole}`}
    </p>
    <div class="row">
      <${FileButton} id="choose" take=${load} takeSeveral=${takeSeveral}>Choose an image<//>
      <${FileButton} id="folder" folder take=${load} takeSeveral=${takeSeveral}>A folder<//>
      ${TOUCHED && html`<${FileButton} id="camera" capture="environment" take=${load}>Camera<//>`}
      <button type="button" id="clear" onClick=${clear}>Clear</button>
    </div>
  </div>`
}

/** Show a picture on the pad, and return the listeners that draw on it; a drawing is taken when the pen is lifted. */
function usePen(pad, picture, take) {
  const tip = useRef(null) // where the pen is, while it is down
  const drawn = useRef(null) // what the pad shows, so that one's own drawing is not put back while the pen moves
  useEffect(() => {
    if (picture !== drawn.current) show(pad.current, picture?.bitmap)
    drawn.current = picture
  }, [picture])

  const stroke = ({ offsetX, offsetY }) => {
    const { width, height, clientWidth, clientHeight } = pad.current
    const to = [(offsetX * width) / clientWidth, (offsetY * height) / clientHeight]
    const brush = pad.current.getContext('2d')
    Object.assign(brush, { lineCap: 'round', lineWidth: Math.min(width, height) / THIN, strokeStyle: 'black' })
    brush.beginPath()
    brush.moveTo(...(tip.current ?? to))
    brush.lineTo(...to)
    brush.stroke()
    tip.current = to
  }
  const begin = (event) => {
    if (event.button || !event.isPrimary) return
    pad.current.setPointerCapture(event.pointerId)
    if (!picture?.drawing) whiten(pad.current) // of the same size: the pen is on it
    stroke(event)
  }
  const finish = () => {
    if (!tip.current) return
    tip.current = null
    const bitmap = canvasOf(pad.current.width, pad.current.height)
    bitmap.getContext('2d').drawImage(pad.current, 0, 0)
    drawn.current = { kind: 'image', blob: fileOf(bitmap), bitmap, name: 'drawing.png', drawing: true }
    take(drawn.current)
  }
  return {
    onPointerDown: begin,
    onPointerMove: (event) => tip.current && event.isPrimary && stroke(event),
    onPointerUp: finish, // Preact takes onLostPointerCapture for a capturing listener of another event
    onPointerCancel: finish,
  }
}

/** A button that chooses an image, or several where somebody takes them. */
export function FileButton({ id, capture, folder = false, take, takeSeveral, children }) {
  const file = useRef(null)
  const chosen = () => {
    const files = [...file.current.files]
    if (folder || files.length > 1) takeSeveral(files)
    else take(files[0])
    file.current.value = '' // the same may be chosen again
  }
  return html`
    <button type="button" id=${id} onClick=${() => file.current.click()}>${children}</button>
    <input type="file" accept="image/*" capture=${capture} aria-label=${children} hidden
      multiple=${Boolean(takeSeveral)} webkitdirectory=${folder} id=${`${id}-file`} ref=${file} onChange=${chosen} />`
}

/** Leave nothing on the pad but white; return its brush. */
function whiten(canvas) {
  const brush = canvas.getContext('2d')
  brush.fillStyle = 'white'
  brush.fillRect(0, 0, canvas.width, canvas.height)
  return brush
}

/** Show an image on the pad, or nothing but white. */
function show(canvas, bitmap) {
  const { width, height } = bitmap ?? { width: 1, height: 1 }
  const scale = SIDE / Math.max(width, height)
  Object.assign(canvas, { width: Math.ceil(width * scale), height: Math.ceil(height * scale) })
  const brush = whiten(canvas)
  if (bitmap) brush.drawImage(bitmap, 0, 0, canvas.width, canvas.height)
}
