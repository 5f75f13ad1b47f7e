import { useEffect, useRef, useState } from './preact.js'
import { Refusal, STOPPED } from './service.js'

const NOTHING = { value: null, of: null, key: null, busy: false, refusal: null } // `of`: the key that the value is of

/**
 * Run `job(signal, show)` whenever `key` is another. `show` gives a part of what is to come. The old value stays while
 * the new one is asked for: `busy` says so from the first moment, `behind` until there is a part of the new one.
 * Without a key nothing is asked: null forgets the old value, undefined keeps it. `stop` gives up what is asked for.
 */
export function useAsked(key, job) {
  const [state, set] = useState(NOTHING)
  const [turn, setTurn] = useState(0)
  const running = useRef(null)
  useEffect(() => {
    if (key === undefined) return
    if (key === null) return set(NOTHING)
    const controller = (running.current = new AbortController())
    const tell = (part) => controller.signal.aborted || set((old) => ({ ...old, key, ...part }))
    set((old) => ({ ...old, key, busy: true, refusal: old.key === key ? old.refusal : null })) // it is asked again
    job(controller.signal, (value) => tell({ value, of: key, refusal: null })).then(
      (value) => tell({ value, of: key, busy: false, refusal: null }),
      (refusal) => tell({ busy: false, refusal }),
    )
    return () => controller.abort()
  }, [key, turn])
  const shown = key === null ? NOTHING : state
  const busy = Boolean(key) && (state.key !== key || state.busy)
  const stop = () => {
    if (!busy) return
    running.current?.abort()
    set((old) => ({ ...old, key, busy: false, refusal: new Refusal(STOPPED, 'Stopped, as you asked.') }))
  }
  return { ...shown, busy, behind: key !== undefined && shown.of !== key, again: () => setTurn(turn + 1), stop }
}

/** Return a value, or what it promises, undefined while it does not come yet; and the refusal, null without one. */
export function useResolved(value) {
  const [last, setFound] = useState({ promise: null, of: [null, null] })
  const waits = value instanceof Promise
  useEffect(() => {
    const found = (...of) => setFound({ promise: value, of })
    if (waits) value.then((one) => found(one, null), (refusal) => found(null, refusal))
  }, [value])
  if (!waits) return [value, null]
  return last.promise === value ? last.of : [undefined, null]
}
