import { html, useEffect, useState } from './preact.js'

const TICK = 250 // milliseconds

/** For how long something has been asked, in seconds, and what stops it; nothing in the first second. */
export function Asking({ busy, stop: end }) {
  const [seconds, setSeconds] = useState(0)
  useEffect(() => {
    setSeconds(0)
    if (!busy) return
    const begin = performance.now()
    const timer = setInterval(() => setSeconds(Math.floor((performance.now() - begin) / 1000)), TICK)
    return () => clearInterval(timer)
  }, [busy])
  const stop = () => {
    end()
    document.getElementById('answer').focus() // the button will be gone
  }
  return busy && seconds > 0 && html`<small>${seconds} s</small>
    <button type="button" class="plain" id="stop" onClick=${stop}>Stop</button>`
}
