import { examplePicture } from './image_file.js'
import { Later } from './lazy.js'
import { html, useEffect, useRef, useState } from './preact.js'
import { Roving } from './roving.js'
import { taskOf } from './tasks.js'
import { linesOf } from './values.js'

const THUMB = 88 // pixels of an example's longer side

/** A text, and a second one where the task takes two. `typed` is told what was not asked yet. */
export function TextInput({ model, input, take, typed }) {
  const [text, setText] = useState(input?.text ?? '')
  const [pair, setPair] = useState(input?.pair ?? '')
  useEffect(() => {
    setText(input?.text ?? '')
    setPair(input?.pair ?? '')
  }, [input?.text, input?.pair])
  const { first = 'Text', second, needs, lines, rows } = taskOf(model)
  typed.current = text === (input?.text ?? '') ? '' : text
  const send = (event) => {
    event.preventDefault()
    take({ text, pair: second && pair.trim() ? pair : '' })
  }
  const enter = (event) => {
    const composing = event.isComposing || event.keyCode === 229 // Enter takes what an input method offers; 229: Safari
    const begins = lines && event.target.id === 'pair' && !event.ctrlKey && !event.metaKey // the next line
    if (event.key !== 'Enter' || event.shiftKey || composing || begins) return
    event.preventDefault()
    event.target.form.requestSubmit() // which says what is missing
  }
  const field = (id, value, set, high = 2) => html`<textarea
    id=${id} required=${id === 'text' || needs} rows=${high} dir="auto" spellcheck=${false} autocomplete="off"
    value=${value} onInput=${({ target }) => set(target.value)} onKeyDown=${enter}></textarea>`
  return html`
    <form onSubmit=${send}>
      <label>${first} ${field('text', text, setText)}</label>
      ${second && html`<label>${second} ${field('pair', pair, setPair, rows)}</label>`}
      ${model.inputs.mask && html`<p class="quiet">${model.inputs.mask} stands for what is missing.</p>`}
      <button id="ask">Ask</button>
    </form>`
}

/** The model's own examples, as buttons. */
export function Examples({ examples, chosen, choose, name = 'example' }) {
  if (!examples?.length) return null
  const button = ({ image, sound, graph, text, text_pair: pair }, at) => html`<button type="button" key=${at}
    id=${`${name}-${at}`} class=${image || graph ? 'thumb' : 'sample'} dir="auto"
    aria-label=${image || graph ? `${name[0].toUpperCase()}${name.slice(1)} ${at + 1}` : null}
    aria-pressed=${String(at) === chosen}
    onClick=${() => choose(String(at))}>
    ${image ? html`<${ExamplePicture} address=${image} />`
      : graph ? html`<${Later} part="GraphThumbnail" graph=${graph} />` : sound ? `Sound ${at + 1}`
      : pair ? asExample(text, pair) : text}
  </button>`
  return html`<${Roving} class="examples"
    aria-label=${name === 'example' ? 'Examples' : 'Examples to compare with'}>${examples.map(button)}<//>`
}

/** Return two texts in short; of several lines how many there are. */
function asExample(text, pair) {
  const { length } = linesOf(pair)
  return length > 1 ? `${text} / ${length} texts` : `${text} / ${pair}`
}

/** A picture of an example, small. */
export function ExamplePicture({ address }) {
  const canvas = useRef(null)
  const [missing, miss] = useState(false)
  useEffect(() => {
    let gone = false
    examplePicture(address).then(({ bitmap }) => {
      if (gone || !bitmap) return
      const scale = THUMB / Math.max(bitmap.width, bitmap.height)
      Object.assign(canvas.current, { width: bitmap.width * scale, height: bitmap.height * scale })
      canvas.current.getContext('2d').drawImage(bitmap, 0, 0, canvas.current.width, canvas.current.height)
    }, () => gone || miss(true))
    return () => (gone = true)
  }, [address])
  if (missing) return html`<small>it did not come</small>`
  return html`<canvas ref=${canvas} width=${THUMB} height=${THUMB}></canvas>`
}
