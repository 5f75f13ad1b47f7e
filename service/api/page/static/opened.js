import { Later } from './lazy.js'
import { html, useState } from './preact.js'

/** A section that is loaded and asked for when it is opened: `part` names what it shows, `term` what it is. */
export function Opened({ id, words, term, part, ...props }) {
  const [open, setOpen] = useState(false)
  return html`<section id=${id} aria-label=${words}>
    <details open=${open} onToggle=${({ target }) => setOpen(target.open)}>
      <summary data-term=${term}>${words}</summary>
      ${open && html`<${Later} part=${part} ...${props} />`}
    </details>
  </section>`
}
