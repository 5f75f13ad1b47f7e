import { useAsked } from './asked.js'
import { Examples } from './inputs.js'
import { nameOf, useForgotten, useInput } from './look.js'
import { FileButton } from './pad.js'
import { pictureOf } from './image_file.js'
import { html, useLayoutEffect, useState } from './preact.js'
import { question, rememberPicture } from './question.js'
import { hasLabels, kindOf, methodOf, secondOf } from './selection.js'
import { taskOf } from './tasks.js'
import { cosine, short } from './values.js'
import { RATHER, STATES } from './words.js'

/** What an input is compared with, by what a selection calls it: when it can be, and the words for it. */
const OTHERS = {
  other: { ordinal: 'second', fits: comparesPictures, words: 'Second picture, to compare' },
  than: { ordinal: 'third', fits: comparesThree, words: 'Third picture: what makes it the second rather than this?' },
}

/**
 * Ask a model about the second picture that a selection names (`part` is `other`), or the third (`than`), so that the
 * first can be compared with it by `id`: {id, embedding, bitmap, busy, refusal, again}. `pictures` are those that were
 * chosen last. Where the service has forgotten it, as the {value, refusal} of the `main` look says, it is asked again.
 */
export function useOther(part, model, selection, pictures, change, main) {
  const [name, picture] = [selection[part], pictures[part]]
  const wanted = model && model.inputs.width && OTHERS[part].fits(model, selection)
    && !(name === 'new' && !picture) && name
  const example = secondOf(model, name)
  const named = example === null ? { id: name, example: 'none' } : { example: name }
  const sought = useInput(wanted ? model : null, { id: '', text: '', pair: '', ...named }, picture)
  const input = wanted ? sought.input : null
  const options = model && taskOf(model).options(model, selection)
  const about = input ? JSON.stringify([model.name, nameOf(input), options]) : input
  const asked = useAsked(about, (signal) => question(model, input, selection, signal))
  useForgotten(main, input, asked)
  const answer = asked.behind || asked.refusal ? null : asked.value
  useLayoutEffect(() => {
    if (!answer || name !== 'new' || answer.input !== input) return
    rememberPicture(answer.id, input)
    change({ [part]: answer.id })
  }, [answer?.id])
  const refusal = wanted ? sought.refusal ?? asked.refusal : null
  return {
    refusal, again: asked.refusal ? asked.again : sought.again,
    id: answer?.id ?? '', embedding: answer?.results?.[0].embedding, bitmap: answer?.input.bitmap,
    busy: Boolean(wanted) && !refusal && !answer,
  }
}

/** Return the method that is chosen of a model. */
const chosenMethod = (model, selection) => methodOf(model, kindOf(model, selection), selection)

/** Return whether two pictures can be compared: their embeddings, or their parts. */
function comparesPictures(model, selection) {
  const embeds = taskOf(model).compares && !hasLabels(model, selection)
  return Boolean(model.inputs.width)
    && (embeds || STATES.includes(chosenMethod(model, selection)))
}

/** Return whether it can be explained why an input is like the second rather than like a third. */
function comparesThree(model, selection) {
  const second = model.inputs.width ? !hasLabels(model, selection) && selection.other : selection.pair
  return Boolean(taskOf(model).compares && second) && RATHER.includes(chosenMethod(model, selection))
}

/** Chooses the second picture, where a model compares two, and what is the third where it compares three. */
export function OtherInputs({ model, selection, change, take }) {
  const shared = { selection, change }
  const picture = (part) => OTHERS[part].fits(model, selection) && html`<${OtherPicture} ...${shared}
    key=${part} part=${part} examples=${model.examples} take=${(next) => take(part, next)} />`
  if (model.inputs.width) return html`${picture('other')}${picture('than')}`
  return comparesThree(model, selection) && html`<${ThirdText} key=${selection.than} ...${shared} />`
}

/** Chooses a picture to compare with: an example, or one's own. */
function OtherPicture({ part, selection, change, examples, take }) {
  const { ordinal, words } = OTHERS[part]
  const load = (file) => file && take(pictureOf(file, file.name ?? `${ordinal}.png`))
  return html`<div id=${ordinal}>
    <p>${words}</p>
    <${Examples} examples=${examples} chosen=${selection[part]} name=${ordinal}
      choose=${(at) => change({ [part]: at === selection[part] ? '' : at })} />
    <div class="row">
      <${FileButton} id=${`choose-${ordinal}`} take=${load}>Choose a ${ordinal} image<//>
      ${selection[part] && html`<button type="button" id=${`no-${ordinal}`} onClick=${() => change({ [part]: '' })}>
        No ${ordinal} image
      </button>`}
    </div>
  </div>`
}

/** Takes a third text. */
function ThirdText({ selection, change }) {
  const [text, type] = useState(selection.than) // until it is sent: the page is drawn again while somebody types
  const send = (event) => {
    event.preventDefault()
    change({ than: text })
  }
  return html`<form id="third" onSubmit=${send}>
    <label>Another text: what makes it like the chosen one rather than like this?
      <input type="text" name="than" dir="auto" autocomplete="off" value=${text}
        onInput=${({ target }) => type(target.value)} />
    </label>
    <button>Compare three</button>
  </form>`
}

/** How alike an embedding is to that of another picture. */
export function Likeness({ one, other, which = 'second' }) {
  if (!one || !other) return null
  return html`<p class="likeness"><strong>${short(cosine(one, other))}</strong> cosine with the ${which} picture</p>`
}
