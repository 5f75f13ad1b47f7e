import { load } from './lazy.js'
import { html, useEffect, useState } from './preact.js'

const SAID = 5000 // milliseconds

/**
 * For whoever shows a look to others: on the whole screen, where arrow keys lead to the next example (`go`), and as a
 * picture with its legend and `caption`.
 */
export function Present({ caption, go }) {
  const [said, say] = useState('')
  useEffect(() => {
    const key = (event) => {
      const step = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[event.key]
      const within = event.target.closest?.('[role=application], [role=group], input, select, textarea')
      if (!document.fullscreenElement || !step || (within && event.key.startsWith('Arrow'))) return
      event.preventDefault()
      go(step)
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  })
  const tell = (words) => {
    say(words)
    setTimeout(() => say(''), SAID)
  }
  const copy = () => load().then(({ copyLook }) => copyLook(caption)).then(tell, () => tell('It could not be copied.'))
  const whole = () => (document.fullscreenElement ? document.exitFullscreen()
    : document.getElementById('look').requestFullscreen().then(() => document.getElementById('look').focus()))
  const able = document.fullscreenEnabled // not on every telephone
  return html`
    ${able && html`<button type="button" class="plain" id="full-screen" onClick=${whole}>Full screen</button>`}
    <button type="button" class="plain" id="copy-picture" onClick=${copy}>Copy the picture</button>
    <small role="status">${said}</small>
    <p class="said">${caption}</p>`
}
