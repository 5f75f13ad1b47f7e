import { html } from './preact.js'
import { Roving } from './roving.js'
import { lengthOf, short } from './values.js'

/** Return a score as the length of its bar, 0 to 1: of scores that are logits, their sigmoid. */
const partsOf = (scores) => (scores.every((one) => one >= 0 && one <= 1) ? scores
  : scores.map((one) => 1 / (1 + Math.exp(-one))))

/**
 * Passages, best first, as buttons: one that is pointed at or has the focus is looked at, a click pins it. `before` are
 * those of an answer whose scores stand beside.
 */
export function Passages({ results: [{ passages }], before, objects }) {
  const old = new Map(before?.[0].passages?.map(({ object, score }) => [object, score]))
  const parts = partsOf(passages.map(({ score }) => score))
  const { shown, pinned, hover, pin } = objects
  const item = ({ object, score, text }, at) => html`<li key=${object}>
    <button type="button" data-object=${object} class=${object === shown ? 'shown' : ''} dir="auto"
      aria-pressed=${String(object === pinned)}
      onPointerEnter=${() => hover(object)} onPointerLeave=${() => hover(null)}
      onFocus=${() => hover(object)} onBlur=${() => hover(null)} onClick=${() => pin(object)}>
      <span>${text}</span>
      <span class="bar"><span style=${{ width: lengthOf(parts[at]) }}></span></span>
      <span>${short(score)}${old.has(object) && html`<small> was ${short(old.get(object))}</small>`}</span>
    </button>
  </li>`
  return html`<div onKeyDown=${({ key }) => key === 'Escape' && pin(null)}>
    <${Roving} aria-label="Passages, best first; arrow keys move over them, Enter pins one">
      <ol class="passages">${passages.map(item)}</ol>
    <//>
  </div>`
}
