import { html, useEffect, useState } from './preact.js'

const SCRIPT = 'page/joined-later.js'

let asked = null
let parts = null

/** Give what the script exports that is loaded later. */
export function arrive(given) {
  parts = given
}

/** Return what the first view does not need, by name, loaded once, as a promise. */
export function load() {
  asked ??= parts ? Promise.resolve(parts) : new Promise((done, fail) => {
    const ended = () => (parts ? done(parts) : fail()) // it may have come, and not have run
    document.head.append(Object.assign(document.createElement('script'), { src: SCRIPT, onload: ended, onerror: fail }))
  }).catch(() => {
    asked = null // whoever wants it next tries again
    throw new Error('This part of the page could not be loaded: load the page anew.')
  })
  return asked
}

/** Return what is loaded later, by name, once it is `wanted` and there; before, nothing, or what is `wrong`. */
export function useLater(wanted) {
  const [found, set] = useState(parts ?? {})
  useEffect(() => {
    if (wanted) load().then(set, ({ message }) => set({ wrong: message }))
  }, [wanted])
  return found
}

/** What is loaded later, by the name of its `part`, with its other properties. */
export function Later({ part, ...props }) {
  const { [part]: Part, wrong } = useLater(true)
  if (wrong) return html`<p class="problem">${wrong}</p>`
  return Part && html`<${Part} ...${props} />`
}
