import { useEffect, useState } from './preact.js'

const NOTHING = { value: null, key: null, busy: false, refusal: null }

/**
 * Run `job(signal, show)` whenever `key` is another. `show` gives a part of what is to come. The old value stays while
 * the new one is asked for, and `busy` says so from the first moment. Without a key nothing is asked: null forgets the
 * old value, undefined keeps it.
 */
export function useAsked(key, job) {
  const [state, set] = useState(NOTHING)
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    if (key === undefined) return
    if (key === null) return set(NOTHING)
    const controller = new AbortController()
    const tell = (part) => controller.signal.aborted || set((old) => ({ ...old, key, ...part }))
    tell({ busy: true })
    job(controller.signal, (value) => tell({ value, refusal: null })).then(
      (value) => tell({ value, busy: false, refusal: null }),
      (refusal) => tell({ busy: false, refusal }),
    )
    return () => controller.abort()
  }, [key, turn])
  const behind = key !== undefined && state.key !== key
  const busy = Boolean(key) && (behind || state.busy)
  return { ...(key === null ? NOTHING : state), busy, behind, again: () => setTurn(turn + 1) }
}

/** Return a value, or what it promises; undefined while it does not come yet, null where it never will. */
export function useResolved(value) {
  const [found, setFound] = useState({ promise: null, value: null })
  const waits = value instanceof Promise
  useEffect(() => {
    const show = (one) => setFound({ promise: value, value: one })
    if (waits) value.then(show, () => show(null))
  }, [value])
  if (!waits) return value
  return found.promise === value ? found.value : undefined
}
