import { html, useEffect, useLayoutEffect, useRef, useState } from './preact.js'
import { hasKey, keepKey } from './service.js'

/** A refusal in its own words; where it says when to try again, the seconds count down. */
export function Problem({ refusal, again, askKey }) {
  const [left, setLeft] = useState(0)
  useLayoutEffect(() => {
    if (!refusal?.wait) return setLeft(0)
    const end = Date.now() + 1000 * refusal.wait
    setLeft(refusal.wait)
    const timer = setInterval(() => setLeft(Math.max(0, Math.ceil((end - Date.now()) / 1000))), 250)
    return () => clearInterval(timer)
  }, [refusal])
  const temporary = refusal && (refusal.wait || [0, 408, 429, 500, 502, 503, 504].includes(refusal.status))
  const tryAgain = () => {
    again()
    document.getElementById('answer')?.focus() // the button will be gone
  }
  const button = html`<button type="button" id="again" disabled=${left > 0} onClick=${tryAgain}>
    ${left ? `Try again in ${left} s` : 'Try again'}
  </button>`
  return html`<div id="problem">
    ${refusal && html`<div class="problem">
      <span role="alert">${refusal.message}</span> ${temporary && button}
      ${refusal.status === 401 && html`<button type="button" onClick=${askKey}>Enter a key</button>`}
    </div>`}
  </div>`
}

/** Asks for an API key when the service wants one; `close` is told that somebody would rather give none. */
export function KeyDialog({ open, refusal, given, close }) {
  const dialog = useRef(null)
  useEffect(() => {
    if (open && !dialog.current.open) dialog.current.showModal()
    if (!open) dialog.current.close()
  }, [open])
  const send = (event) => {
    event.preventDefault()
    keepKey(event.target.elements.key.value.trim())
    event.target.reset()
    given()
  }
  return html`<dialog id="ask-key" ref=${dialog} aria-labelledby="key-words" onClose=${close}><form onSubmit=${send}>
    <p id="key-words">This service asks for an API key. It is kept for this tab, until you close it.</p>
    ${hasKey() && refusal && html`<p class="problem">${refusal.message}</p>`}
    <label>API key <input type="password" name="key" id="key" required autocomplete="off" /></label>
    <button>Go on</button>
  </form></dialog>`
}
