import { useLater } from './lazy.js'
import { html, useState } from './preact.js'
import { Roving } from './roving.js'

const GUIDED = 'regard-guided'

/** Return what this browser keeps; nothing where it blocks that. */
function keeps() {
  try {
    return localStorage
  } catch {
    return {} // then it is asked at each visit
  }
}

/** Invites newcomers to a first minute; once it was left or done, never again. */
export function Invitation({ acts }) {
  const [over, end] = useState(GUIDED in keeps())
  const [open, setOpen] = useState(false)
  const { Guide, wrong } = useLater(open)
  const leave = () => {
    end(true)
    document.getElementById('input').focus() // the button is gone
    keeps()[GUIDED] = 'yes'
  }
  if (over) return null
  if (open && Guide) return html`<${Guide} acts=${acts} leave=${leave} />`
  if (wrong) return html`<p class="problem">${wrong}</p>`
  return html`<${Roving} class="row" id="invitation" aria-label="For newcomers">
    <button type="button" class="plain" onClick=${() => setOpen(true)}>New here? A first minute</button>
    <button type="button" class="plain" aria-label="No first minute" onClick=${leave}>×</button>
  <//>`
}
