import { useEffect, useState } from './preact.js'

const player = () => document.getElementById('player')

/** Play the sound from a second on. */
export function hearFrom(seconds) {
  const one = player()
  if (!one) return
  one.currentTime = seconds
  one.play().catch(() => {}) // somebody stopped it meanwhile
}

/** Return the second that is heard; null while nothing is played. */
export function useHeard() {
  const [at, set] = useState(null)
  useEffect(() => {
    let frame = 0
    const look = () => {
      const plays = player() && !player().paused
      set(plays ? player().currentTime : null)
      cancelAnimationFrame(frame)
      if (plays) frame = requestAnimationFrame(look)
    }
    const told = ['play', 'pause', 'ended', 'emptied']
    told.forEach((name) => document.addEventListener(name, look, true)) // these events do not bubble
    return () => {
      cancelAnimationFrame(frame)
      told.forEach((name) => document.removeEventListener(name, look, true))
    }
  }, [])
  return at
}
