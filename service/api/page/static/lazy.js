import { useEffect, useState } from './preact.js'

const SCRIPT = 'page/joined-later.js'

let asked = null
let give = null

/** Give what the script exports that is loaded later. */
export function arrive(parts) {
  give?.(parts)
}

/** Return what the first view does not need, by name, loaded once, as a promise. */
export function load() {
  asked ??= new Promise((done, fail) => {
    give = done
    const script = Object.assign(document.createElement('script'), { src: SCRIPT, onerror: fail })
    document.head.append(script)
  }).catch((error) => {
    asked = null // the next one who wants it tries again
    throw error
  })
  return asked
}

/** Return what is loaded later, by name, once it is `wanted` and there; nothing before. */
export function useLater(wanted) {
  const [parts, set] = useState({})
  useEffect(() => {
    if (wanted) load().then(set, () => {})
  }, [wanted])
  return parts
}
