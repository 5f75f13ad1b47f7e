import { html, useEffect, useState } from './preact.js'

const STEPS = [
  { place: 'answer', title: 'What it answered', words: 'The bars say how sure the model is of each answer.' },
  { place: 'look', title: 'Where it looked',
    words: 'The hotter a part, the more it counted. Point at one to see its number.' },
  { place: 'look', title: 'Cover it', act: 'cover', button: 'Cover the hottest part',
    words: 'Does the answer change when the hottest part is gone?' },
  { place: 'evaluation', title: 'Does it matter?', act: 'measure', button: 'Measure it',
    words: 'Parts are taken away, the hottest first: a map that is true makes the answer fall faster than chance.' },
]

/** A first minute in four steps, each beside what it speaks of; `acts` are what its buttons do. */
export function Guide({ acts, leave }) {
  const [at, go] = useState(0)
  const { place, title, words, act, button } = STEPS[at]
  useEffect(() => {
    const part = document.getElementById(place)
    part.classList.add('guided')
    part.scrollIntoView({ block: 'nearest' })
    return () => part.classList.remove('guided')
  }, [at])
  const last = at === STEPS.length - 1
  return html`<section id="guide" aria-label="A first minute">
    <div class="row"><h2>${at + 1} of ${STEPS.length}: ${title}</h2><p aria-live="polite">${words}</p></div>
    <div class="row">
      ${acts[act] && html`<button type="button" id="guide-act" onClick=${acts[act]}>${button}</button>`}
      ${at > 0 && html`<button type="button" onClick=${() => go(at - 1)}>Back</button>`}
      <button type="button" id="guide-next" onClick=${() => (last ? leave() : go(at + 1))}>
        ${last ? 'Done' : 'Next'}
      </button>
      <button type="button" class="plain" id="guide-leave" onClick=${leave}>Leave</button>
    </div>
  </section>`
}
