import { html } from './preact.js'
import { clamp, lengthOf, percent } from './values.js'

const INSIDE = 0.07 // share of the picture's height: a label has no room above a box that begins so near the top

/** Return the number of the object with the smallest box at a place, in pixels of the image; null where none is. */
export function objectAt(objects, x, y) {
  const here = objects.filter(({ box: { left, top, right, bottom } }) =>
    left <= x && x <= right && top <= y && y <= bottom)
  const area = ({ box: { left, top, right, bottom } }) => (right - left) * (bottom - top)
  return here.sort((one, other) => area(one) - area(other))[0]?.object ?? null
}

/**
 * The boxes of objects over a picture that shows a `frame` of its image, each with its label; that of the `marked`
 * object stands out, and that of the `pinned` one, too. For people who see them alone: the answer lists the objects.
 */
export function Boxes({ objects, frame, marked = null, pinned = null }) {
  const across = (x) => clamp((x - frame.left) / frame.width, 0, 1)
  const down = (y) => clamp((y - frame.top) / frame.height, 0, 1)
  const drawn = ({ object, label, probability, box }) => {
    const [left, top, right, bottom] = [across(box.left), down(box.top), across(box.right), down(box.bottom)]
    const names = ['box-of', object === marked && 'marked', object === pinned && 'pinned', top < INSIDE && 'inside']
    return html`<div key=${object} class=${names.filter(Boolean).join(' ')} data-object=${object} style=${{
      left: lengthOf(left), top: lengthOf(top), width: lengthOf(right - left), height: lengthOf(bottom - top),
    }}><span>${label}${object === marked && ` ${percent(probability)}`}</span></div>`
  }
  return html`<div class="boxes" aria-hidden="true">${objects.map(drawn)}</div>`
}
