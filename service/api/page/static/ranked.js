import { html } from './preact.js'
import { Roving } from './roving.js'
import { lengthOf, percent, short } from './values.js'

/** Return scores as lengths of bars, 0 to 1: of scores that are logits, their sigmoid. */
const partsOf = (scores) => (scores.every((one) => one >= 0 && one <= 1) ? scores
  : scores.map((one) => 1 / (1 + Math.exp(-one))))

/**
 * Texts with a `share` or a `score` each, best first, as buttons: one that is pointed at or has the focus is looked at,
 * a click pins it. A score that is no logit has a `part`, 0 to 1. `before` is an answer whose numbers stand beside.
 */
export function Ranked({ results: [{ ranked }], before, objects }) {
  const figure = ({ share, score }) => (share === undefined ? short(score) : percent(share))
  const old = new Map(before?.[0].ranked?.map((one) => [one.object, figure(one)]))
  const parts = partsOf(ranked.map(({ share, score }) => share ?? score))
  const { shown, pinned, hover, pin } = objects
  const item = (one, at) => html`<li key=${one.object}>
    <button type="button" data-object=${one.object} class=${one.object === shown ? 'shown' : ''} dir="auto"
      aria-pressed=${String(one.object === pinned)}
      onPointerEnter=${() => hover(one.object)} onPointerLeave=${() => hover(null)}
      onFocus=${() => hover(one.object)} onBlur=${() => hover(null)} onClick=${() => pin(one.object)}>
      <span>${one.text}</span>
      <span class="bar"><span style=${{ width: lengthOf(one.part ?? parts[at]) }}></span></span>
      <span>${figure(one)}${old.has(one.object) && html`<small> was ${old.get(one.object)}</small>`}</span>
    </button>
  </li>`
  return html`<div onKeyDown=${({ key }) => key === 'Escape' && pin(null)}>
    <${Roving} aria-label="Best first; arrow keys move over them, Enter pins one">
      <ol class="ranked">${ranked.map(item)}</ol>
    <//>
  </div>`
}
