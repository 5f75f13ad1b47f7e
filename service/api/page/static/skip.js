import { html } from './preact.js'

/** A link for keys, seen while it has the focus, which leads on to a section. The address, which says all, stays. */
export function Skip({ to, children }) {
  const go = (event) => {
    event.preventDefault()
    document.getElementById(to).focus()
  }
  return html`<a class="skip" href=${`#${to}`} onClick=${go}>${children}</a>`
}
