import { hearFrom, useHeard } from './hearing.js'
import { html } from './preact.js'
import { Roving } from './roving.js'
import { timeOf, wordAt } from './transcript.js'
import { lengthOf } from './values.js'

/**
 * What was said, word by word, each underlined by how sure it is: the one that is heard is lit; a click marks one, and
 * plays the sound from there.
 */
export function Heard({ results: [{ text, language, words = [] }], objects, pin: pinRow }) {
  const heard = wordAt(words, useHeard())
  const { pinned, pin } = objects ?? { pinned: null, pin: () => {} }
  const choose = (at) => {
    pinRow?.(null) // a token's, which would be seen in the word's place
    if (at !== pinned) pin(at)
    hearFrom(words[at].start)
  }
  const button = (one, at) => html`<button type="button" key=${at} title=${timeOf(one)}
    aria-pressed=${String(at === pinned)} aria-current=${at === heard ? 'true' : null} onClick=${() => choose(at)}
    style=${{ '--sure': lengthOf(one.probability) }}>${one.word}</button>`
  if (!text) return html`<p class="nothing">Nothing was said.</p>`
  return html`<div onKeyDown=${({ key }) => key === 'Escape' && pin(null)}>
    ${words.length ? html`<${Roving} class="words heard" dir="auto"
      aria-label="Words; arrow keys move over them, Enter plays from one">${words.map(button)}<//>` : text}
    ${language && html`<p class="quiet">Language: ${language}.</p>`}
  </div>`
}
