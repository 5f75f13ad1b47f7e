import { SERIES } from './colours.js'
import { html } from './preact.js'
import { Roving } from './roving.js'
import { directionOf, percent } from './values.js'

/** Return a text in pieces, in order: those that are marked, {text, mark}, and what is between them. */
export function pieces(text, marks) {
  const characters = [...text] // places are code points
  const cut = (from, to) => characters.slice(from, to).join('')
  let end = 0
  const parts = [...marks].sort((one, other) => one.start - other.start).flatMap((mark) => {
    const between = cut(end, mark.start)
    end = mark.end
    return [{ text: between }, { text: cut(mark.start, end), mark }]
  })
  return [...parts, { text: cut(end) }].filter(({ text: own }) => own)
}

/**
 * A text with its entities marked, each a button with its label, in a colour of its label: what one that is pointed at
 * or has the focus rests on is looked at, a click pins it.
 */
export function Marked({ results: [{ entities, text }], objects: { shown, pinned, hover, pin }, what = 'Entities' }) {
  if (!entities.length) return html`<p class="nothing">Nothing found.</p>`
  const colours = [...new Set(entities.map(({ label }) => label))]
  const mark = ({ object, label, probability }, own) => html`<button type="button" key=${object} data-object=${object}
    class=${object === shown ? 'shown' : ''} aria-pressed=${String(object === pinned)} title=${percent(probability)}
    style=${{ '--tint': SERIES[colours.indexOf(label) % SERIES.length] }}
    onPointerEnter=${() => hover(object)} onPointerLeave=${() => hover(null)}
    onFocus=${() => hover(object)} onBlur=${() => hover(null)} onClick=${() => pin(object)}
    >${own}<small>${label}</small></button>`
  const one = entities.find(({ object }) => object === shown)
  return html`<div onKeyDown=${({ key }) => key === 'Escape' && pin(null)}>
    <${Roving} class="marked" dir=${directionOf([{ text }])}
      aria-label=${`${what} in the text; arrow keys move over them, Enter pins one`}>
      ${pieces(text, entities).map((piece) => (piece.mark ? mark(piece.mark, piece.text) : piece.text))}
    <//>
    ${one && what === 'Entities' && html`<p class="quiet">“${one.text}”: ${one.label}, ${percent(one.probability)}</p>`}
  </div>`
}
