import { html, useEffect, useRef, useState } from './preact.js'
import { send } from './service.js'
import { SECOND } from './words.js'

const PAD = 448 // pixels of the drawing's longer side
const MOST_PIXELS = 2 ** 21 // of a photo that is sent: a model looks at far fewer
const TOUCHED = matchMedia('(pointer: coarse)').matches // a phone, whose camera the button opens
const SENT = ['image/png', 'image/jpeg', 'image/webp']
const EXTENSIONS = { 'image/png': 'png', 'image/jpeg': 'jpg', 'image/webp': 'webp' }

/** Return a canvas as a file. `toBlob` would wait until the browser is idle, which takes a second. */
export function fileOf(canvas, type = 'image/png') {
  const [head, data] = canvas.toDataURL(type, 0.9).split(',')
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))
  return new Blob([bytes], { type: /data:([^;]*)/.exec(head)[1] })
}

/** Return an image as what is sent: `blob`, `name`, and the `bitmap` that is shown, upright; null where nothing can read it. */
export async function pictureOf(file, name, { whole = false } = {}) {
  const bitmap = await createImageBitmap(file).catch(() => null) // the service has the last word on what it is
  if (!bitmap) return { kind: 'image', blob: file, bitmap, name }
  const { width, height } = bitmap
  const scale = Math.min(1, Math.sqrt(MOST_PIXELS / (width * height)))
  if (whole || (scale === 1 && SENT.includes(file.type))) return { kind: 'image', blob: file, bitmap, name }
  const canvas = document.createElement('canvas')
  Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(height * scale) })
  canvas.getContext('2d').drawImage(bitmap, 0, 0, canvas.width, canvas.height)
  const blob = fileOf(canvas, file.type === 'image/jpeg' || scale < 1 ? 'image/jpeg' : 'image/png')
  const scaled = scale < 1 ? { width, height } : null
  return { kind: 'image', blob, bitmap: canvas, name: name.replace(/\.\w+$/, '') + `.${EXTENSIONS[blob.type]}`, scaled, file }
}

/**
 * A pad to draw on, which also takes images that are dropped, pasted, chosen or photographed. `take` is given each as
 * `pictureOf` returns it, or as a promise of it while the browser reads it; null when it is cleared.
 */
export function ImageInput({ picture, take }) {
  const pad = useRef(null)
  const tip = useRef(null)
  const drawn = useRef(null) // what the pad shows, so that one's own drawing is not put back while the pen moves
  const [over, setOver] = useState(false)

  const load = (file, options) => file && take(pictureOf(file, file.name ?? 'image.png', options))

  useEffect(() => {
    if (picture !== drawn.current) show(pad.current, picture?.bitmap)
    drawn.current = picture
  }, [picture])

  useEffect(() => {
    const paste = (event) => load(event.clipboardData.files[0])
    const drag = (event) => {
      if (!event.dataTransfer.types.includes('Files')) return // a text may be dragged elsewhere
      event.preventDefault() // the browser would leave the page for the file
      setOver(event.type === 'dragover')
      if (event.type === 'drop') load(event.dataTransfer.files[0])
    }
    const listened = { paste, dragover: drag, dragleave: drag, drop: drag }
    for (const [name, listener] of Object.entries(listened)) addEventListener(name, listener)
    return () => Object.entries(listened).forEach(([name, listener]) => removeEventListener(name, listener))
  }, [take])

  function stroke({ offsetX, offsetY }) {
    const canvas = pad.current
    const to = [(offsetX * canvas.width) / canvas.clientWidth, (offsetY * canvas.height) / canvas.clientHeight]
    const pen = canvas.getContext('2d')
    Object.assign(pen, { lineCap: 'round', lineWidth: Math.min(canvas.width, canvas.height) / 14, strokeStyle: 'black' })
    pen.beginPath()
    pen.moveTo(...(tip.current ?? to))
    pen.lineTo(...(tip.current = to))
    pen.stroke()
  }

  function begin(event) {
    if (event.button || !event.isPrimary) return
    pad.current.setPointerCapture(event.pointerId)
    if (!picture?.drawing) show(pad.current, null) // a drawing begins on white; a stroke goes on in it
    stroke(event)
  }

  function finish() { // on the pen's lift: Preact takes onLostPointerCapture for a capturing listener of another event
    if (!tip.current) return
    tip.current = null
    const bitmap = document.createElement('canvas')
    Object.assign(bitmap, { width: pad.current.width, height: pad.current.height })
    bitmap.getContext('2d').drawImage(pad.current, 0, 0)
    take((drawn.current = { kind: 'image', blob: fileOf(bitmap), bitmap, name: 'drawing.png', drawing: true }))
  }

  const said = !picture ? 'Draw here, or drop or paste an image.' : picture.drawing ? 'Your drawing; go on, or clear it.' : picture.name
  return html`
    <div class=${over ? 'dropping' : ''}>
      <canvas class="pad" id="pad" ref=${pad} width=${PAD} height=${PAD} role="img"
        aria-label="Drawing area; without a pointer, choose an image below"
        onPointerDown=${begin} onPointerMove=${(event) => tip.current && event.isPrimary && stroke(event)}
        onPointerUp=${finish} onPointerCancel=${finish}></canvas>
      <p class="quiet">${said}
        ${picture?.scaled && html` Scaled to ${MOST_PIXELS / 2 ** 20} megapixels. <button type="button" class="plain"
          onClick=${() => load(picture.file, { whole: true })}>Send it as it is</button>`}</p>
      <div class="row">
        <${FileButton} id="choose" take=${load}>Choose an image<//>
        ${TOUCHED && html`<${FileButton} id="camera" capture="environment" take=${load}>Camera<//>`}
        <button type="button" id="clear" onClick=${() => (show(pad.current, null), take(null))}>Clear</button>
      </div>
    </div>`
}

function FileButton({ id, capture, take, children }) {
  const file = useRef(null)
  const chosen = () => (take(file.current.files[0]), (file.current.value = '')) // the same may be chosen again
  return html`<button type="button" id=${id} onClick=${() => file.current.click()}>${children}</button>
    <input type="file" accept="image/*" capture=${capture} ref=${file} hidden onChange=${chosen} aria-label=${children} />`
}

/** Show an image on the pad, or nothing but white. */
function show(canvas, bitmap) {
  const { width, height } = bitmap ?? { width: 1, height: 1 }
  const scale = PAD / Math.max(width, height)
  Object.assign(canvas, { width: Math.ceil(width * scale), height: Math.ceil(height * scale) })
  const pen = canvas.getContext('2d')
  pen.fillStyle = 'white'
  pen.fillRect(0, 0, canvas.width, canvas.height)
  if (bitmap) pen.drawImage(bitmap, 0, 0, canvas.width, canvas.height)
}

/** A text, and a second one where the task takes two. */
export function TextInput({ model, input, take }) {
  const [text, setText] = useState('')
  const [pair, setPair] = useState('')
  useEffect(() => {
    setText(input?.text ?? '')
    setPair(input?.pair ?? '')
  }, [input])
  const send = (event) => {
    event.preventDefault()
    take({ kind: 'text', text, pair: SECOND[model.task] ? pair : '' })
  }
  const enter = (event) => event.key === 'Enter' && !event.shiftKey && send(event)
  const field = (id, value, set) => html`<textarea id=${id} rows="2" spellcheck=${false} autocomplete="off" value=${value}
    onInput=${({ target }) => set(target.value)} onKeyDown=${enter}></textarea>`
  return html`
    <form onSubmit=${send}>
      <label>Text ${field('text', text, setText)}</label>
      ${SECOND[model.task] && html`<label>${SECOND[model.task]} ${field('pair', pair, setPair)}</label>`}
      ${model.inputs.mask && html`<p class="quiet">${model.inputs.mask} stands for what is missing.</p>`}
      <button id="ask">Ask</button>
    </form>`
}

/** The model's own examples, as buttons. */
export function Examples({ examples, chosen, choose }) {
  if (!examples?.length) return null
  const button = ({ image, text, text_pair: pair }, at) => html`
    <button type="button" key=${at} id=${`example-${at}`} class=${image ? 'thumb' : 'sample'}
      aria-pressed=${String(at) === chosen} onClick=${() => choose(String(at))} aria-label=${image ? `Example ${at + 1}` : null}>
      ${image ? html`<${ExamplePicture} address=${image} />` : pair ? `${text} / ${pair}` : text}
    </button>`
  return html`<div class="examples" role="group" aria-label="Examples">${examples.map(button)}</div>`
}

const pictures = new Map() // of addresses: each is fetched once

/** Return the picture of an example, as what is sent. */
export function examplePicture(address) {
  if (!pictures.has(address)) {
    const fetched = send(address.slice(1)).then((response) => response.blob()) // relative: the page may lie below a path
    const found = fetched.then((blob) => pictureOf(blob, `example.${EXTENSIONS[blob.type] ?? 'png'}`))
    pictures.set(address, found)
    found.catch(() => pictures.delete(address))
  }
  return pictures.get(address)
}

function ExamplePicture({ address }) {
  const canvas = useRef(null)
  useEffect(() => {
    let gone = false
    examplePicture(address).then(({ bitmap }) => {
      if (gone || !bitmap) return
      const side = 88
      const scale = side / Math.max(bitmap.width, bitmap.height)
      Object.assign(canvas.current, { width: bitmap.width * scale, height: bitmap.height * scale })
      canvas.current.getContext('2d').drawImage(bitmap, 0, 0, canvas.current.width, canvas.current.height)
    }, () => {})
    return () => (gone = true)
  }, [address])
  return html`<canvas ref=${canvas} width="88" height="88"></canvas>`
}
