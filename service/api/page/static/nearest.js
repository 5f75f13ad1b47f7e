import { useAsked } from './asked.js'
import { examplePicture } from './image_file.js'
import { ExamplePicture } from './inputs.js'
import { html } from './preact.js'
import { requestOf } from './request.js'
import { ask } from './service.js'
import { cosine, short } from './values.js'

const ITSELF = 0.9999 // of a cosine: it is the example

/** Return the vectors of a model's examples, which are pictures. */
async function vectorsOf(model, signal) {
  return Promise.all(model.examples.map(async ({ image }) => {
    const { path, init } = requestOf(model, await examplePicture(image), {})
    const { body } = await ask(path, { ...init, signal })
    return { image, vector: body.results[0].embedding }
  }))
}

/** How alike an image is to each of the model's examples, the nearest first. Nothing where it has none. */
export function Nearest({ model, embedding, choose }) {
  const pictures = model.examples.filter(({ image }) => image).length
  const found = useAsked(pictures ? `${model.name} ${model.version}` : null, (signal) => vectorsOf(model, signal))
  const vectors = (!found.behind && !found.refusal && found.value) || [] // else those of the model before
  const alike = vectors.map(({ image, vector }, at) => ({ image, at, likeness: cosine(embedding, vector) }))
    .filter(({ likeness }) => likeness < ITSELF).sort((one, other) => other.likeness - one.likeness)
  if (!alike.length) return null
  return html`<p>Most like (cosine):</p>
    <div class="examples" id="nearest">${alike.map(({ image, at, likeness }) => html`<button type="button" key=${at}
      class="thumb" aria-label=${`Example ${at + 1}, likeness ${short(likeness)}`} onClick=${() => choose(String(at))}>
      <${ExamplePicture} address=${image} /><small>${short(likeness)}</small>
    </button>`)}</div>`
}
