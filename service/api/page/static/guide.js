import { html, useEffect, useRef, useState } from './preact.js'

const STEPS = [
  { place: 'answer', title: 'What it answered', words: 'This is what the model makes of the first example.' },
  { place: 'look', title: 'Where it looked',
    words: 'The hotter a part, the more it counted. Point at one to see its number.' },
  { place: 'look', title: 'Cover it', act: 'cover', button: 'Cover the hottest part',
    words: 'Does the answer change when the hottest part is gone?' },
  { place: 'evaluation', title: 'Does it matter?', act: 'measure', button: 'Measure it',
    words: 'Parts are taken away, the hottest first: a map that is true makes the answer fall faster than chance.' },
]

/** A first minute in up to four steps, each beside what it speaks of; `acts` are what its buttons can do. */
export function Guide({ acts, leave }) {
  const box = useRef()
  const [at, go] = useState(0)
  const [steps] = useState(STEPS.filter(({ act }) => !act || acts[act]))
  const { place, title, words, act, button } = steps[at]
  useEffect(() => box.current.focus(), []) // the button that opened it is gone
  useEffect(() => {
    const part = document.getElementById(place)
    part.classList.add('guided')
    part.scrollIntoView({ block: 'nearest' })
    return () => part.classList.remove('guided')
  }, [at])
  const last = at === steps.length - 1
  return html`<section id="guide" aria-label="A first minute" tabindex="-1" ref=${box}>
    <div class="row"><h2>${at + 1} of ${steps.length}: ${title}</h2><p aria-live="polite">${words}</p></div>
    <div class="row">
      ${act && html`<button type="button" id="guide-act" onClick=${acts[act]}>${button}</button>`}
      ${at > 0 && html`<button type="button" onClick=${() => go(at - 1)}>Back</button>`}
      <button type="button" id="guide-next" onClick=${() => (last ? leave() : go(at + 1))}>
        ${last ? 'Done' : 'Next'}
      </button>
      <button type="button" class="plain" id="guide-leave" onClick=${leave}>Leave</button>
    </div>
  </section>`
}
