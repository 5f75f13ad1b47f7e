import { html, useState } from './preact.js'
import { lengthOf, percent } from './values.js'

/**
 * Return what is seen of the objects that are `found`: the one that is `hovered`, the one that is `pinned`, and the one
 * that is `shown`, which is one of these or the surest; each null if there is none. `hover` and `pin` change the first
 * two; a `pin` of what is pinned takes it off.
 */
export function useObjects(found, selection, change) {
  const [over, hover] = useState(null)
  const known = (number) => (found.some(({ object }) => object === number) ? number : null)
  const hovered = known(over)
  const pinned = selection.object === '' ? null : known(Number(selection.object))
  const pin = (number) => {
    if (number === null) hover(null) // what the focus is on is unpinned, too
    change({ object: number === null || number === pinned ? '' : String(number) })
  }
  return { hovered, pinned, shown: hovered ?? pinned ?? found[0]?.object ?? null, hover, pin }
}

/**
 * The objects that were found, surest first, as buttons: one that is pointed at or has the focus is looked at, a click
 * pins it. `before` are those of an answer whose numbers stand beside; `least` is the probability of one that is found.
 */
export function Found({ results: [{ objects: found }], before, least, objects }) {
  const above = least === undefined ? '' : ` above ${percent(least, 0)}`
  if (!found.length) return html`<p class="nothing">Nothing found${above}.</p>`
  const old = new Map(before?.[0].objects?.map(({ object, index, probability }) => [`${object} ${index}`, probability]))
  const item = ({ object, index, label, probability }) => {
    const was = old.get(`${object} ${index}`)
    const parts = html`
      <span>${label}</span>
      <span class="bar">
        ${was !== undefined && html`<span class="was" style=${{ width: lengthOf(was) }}></span>`}
        <span style=${{ width: lengthOf(probability) }}></span>
      </span>
      <span>${percent(probability)}${was !== undefined && html`<small> was ${percent(was)}</small>`}</span>`
    const { shown, pinned, hover, pin } = objects ?? {}
    return html`<li key=${`${object} ${index}`}>
      ${objects ? html`<button type="button" data-object=${object}
        class=${object === shown ? 'shown' : ''}
        aria-pressed=${String(object === pinned)}
        onPointerEnter=${() => hover(object)} onPointerLeave=${() => hover(null)}
        onFocus=${() => hover(object)} onBlur=${() => hover(null)}
        onClick=${() => pin(object)}>${parts}</button>` : html`<div>${parts}</div>`}
    </li>`
  }
  const unpin = ({ key }) => key === 'Escape' && objects?.pin(null)
  return html`<ol class="found" aria-label="Objects" onKeyDown=${unpin}>${found.map(item)}</ol>`
}

/** The probability from which an object counts as found: it is asked for anew when the slider is let go. */
export function Threshold({ least, choose }) {
  const [moved, move] = useState(null) // while it is dragged
  const shown = moved ?? least
  return html`<label>
    Found from ${percent(shown, 0)} on
    <input type="range" id="threshold" name="threshold" min="0" max="1" step="0.01" value=${shown}
      onInput=${({ target }) => move(Number(target.value))}
      onChange=${({ target }) => (move(null), choose(target.value))} />
  </label>`
}
