import { html, useEffect, useLayoutEffect, useRef, useState } from './preact.js'
import { hasKey, keepKey, STOPPED, UNUSABLE } from './service.js'

const TEMPORARY = [0, 408, 429, 500, 502, 503, 504, STOPPED, UNUSABLE]
const BY_ITSELF = [0, 429, 502, 503, 504] // of these it is asked again
const [FIRST, LONGEST] = [5, 60] // seconds before, where the service says nothing; each time twice as many
const MOST_TRIES = 10

/** Return the seconds that are left until a refused question is asked again by itself, 0 where it is not. */
function useAgain(refusal, again) {
  const [left, setLeft] = useState(0)
  const tries = useRef(0)
  const ask = useRef(again)
  ask.current = again
  useLayoutEffect(() => {
    if (!refusal) tries.current = 0
    const { status, wait } = refusal ?? {}
    if ((!wait && !BY_ITSELF.includes(status)) || tries.current >= MOST_TRIES) return setLeft(0)
    const seconds = wait || Math.min(FIRST * 2 ** tries.current, LONGEST)
    tries.current++
    const end = Date.now() + 1000 * seconds
    const now = () => {
      stop()
      ask.current()
    }
    const tick = () => {
      const rest = Math.max(0, Math.ceil((end - Date.now()) / 1000))
      setLeft(rest)
      if (!rest) now()
    }
    const timer = setInterval(tick, 250)
    const stop = () => {
      clearInterval(timer)
      removeEventListener('online', now)
    }
    if (status === 0) addEventListener('online', now) // the network is back
    setLeft(seconds)
    return stop
  }, [refusal])
  return left
}

/** A refusal in its own words; what is temporary is asked again by itself, and the seconds until then count down. */
export function Problem({ refusal, again, askKey }) {
  const left = useAgain(refusal, again)
  const tryAgain = () => {
    again()
    document.getElementById('answer')?.focus() // the button will be gone
  }
  const waits = left > 0 && Boolean(refusal?.wait) // the service would refuse it before
  const temporary = refusal && (refusal.wait || TEMPORARY.includes(refusal.status))
  const button = html`<button type="button" id="again" disabled=${waits} onClick=${tryAgain}>
    ${waits ? `Try again in ${left} s` : 'Try again'}
  </button> ${left > 0 && !waits && html`<small>by itself in ${left} s</small>`}`
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
