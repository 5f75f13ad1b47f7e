import { useAsked } from './asked.js'
import { Examples } from './inputs.js'
import { nameOf, useForgotten, useInput } from './look.js'
import { FileButton } from './pad.js'
import { pictureOf } from './image_file.js'
import { html, useLayoutEffect } from './preact.js'
import { question, rememberPicture } from './question.js'
import { kindOf, methodOf, secondOf } from './selection.js'
import { taskOf } from './tasks.js'
import { cosine, short } from './values.js'
import { STATES } from './words.js'

/**
 * Ask a model about the second picture that a selection names, so that the first can be compared with it by `id`:
 * {id, embedding, bitmap, busy, refusal, again}. `picture` is the one that was chosen last. Where the service
 * has forgotten it, as the {value, refusal} of the `main` look says, it is asked once more.
 */
export function useSecond(model, selection, picture, change, main) {
  const { other } = selection
  const wanted = model && comparesPictures(model, selection) && !(other === 'new' && !picture) && other
  const example = secondOf(model, other)
  const named = example === null ? { id: other, example: 'none' } : { example: other }
  const sought = useInput(wanted ? model : null, { id: '', text: '', pair: '', ...named }, picture)
  const input = wanted ? sought.input : null
  const options = model && taskOf(model).options(model, selection)
  const about = input ? JSON.stringify([model.name, nameOf(input), options]) : input
  const asked = useAsked(about, (signal) => question(model, input, selection, signal))
  useForgotten(main, input, asked)
  const answer = asked.behind || asked.refusal ? null : asked.value
  useLayoutEffect(() => {
    if (!answer || other !== 'new' || answer.input !== input) return
    rememberPicture(answer.id, input)
    change({ other: answer.id })
  }, [answer?.id])
  const refusal = wanted ? sought.refusal ?? asked.refusal : null
  return {
    refusal, again: asked.refusal ? asked.again : sought.again,
    id: answer?.id ?? '', embedding: answer?.results?.[0].embedding, bitmap: answer?.input.bitmap,
    busy: Boolean(wanted) && !refusal && !answer,
  }
}

/** Return whether two pictures can be compared: their embeddings, or their parts. */
function comparesPictures(model, selection) {
  const states = STATES.includes(methodOf(model, kindOf(model, selection), selection))
  return Boolean(model.inputs.width) && Boolean(taskOf(model).compares || states)
}

/** Chooses the second picture, where a model compares two: an example, or one's own. */
export function SecondInput({ model, selection, change, take }) {
  if (!comparesPictures(model, selection)) return null
  const load = (file) => file && take(pictureOf(file, file.name ?? 'second.png'))
  return html`<div id="second">
    <p>Second picture, to compare</p>
    <${Examples} examples=${model.examples} chosen=${selection.other} name="second"
      choose=${(other) => change({ other: other === selection.other ? '' : other })} />
    <div class="row">
      <${FileButton} id="choose-second" take=${load}>Choose a second image<//>
      ${selection.other && html`<button type="button" id="no-second" onClick=${() => change({ other: '' })}>
        No second image
      </button>`}
    </div>
  </div>`
}

/** How alike an embedding is to that of the second picture. */
export function Likeness({ one, other }) {
  if (!one || !other) return null
  return html`<p class="likeness"><strong>${short(cosine(one, other))}</strong> cosine with the second picture</p>`
}
