import { html, useLayoutEffect, useRef } from './preact.js'

const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity }
const BACK = { ArrowLeft: 1, ArrowRight: -1 } // where lines run from right to left

/** Return which of `count` a key leads to from one in a box; undefined where it leads nowhere. */
export function stepTo({ key, currentTarget }, at, count) {
  const step = (getComputedStyle(currentTarget).direction === 'rtl' && BACK[key]) || STEPS[key]
  return step && Math.min(Math.max(at + step, 0), count - 1)
}

/** A group of buttons of which one is a stop of Tab: arrow keys, Home and End lead to the others. */
export function Roving({ children, ...attributes }) {
  const box = useRef()
  const buttons = () => [...box.current.querySelectorAll('button')]
  const stopAt = (stop) => buttons().forEach((one) => (one.tabIndex = one === stop ? 0 : -1))
  useLayoutEffect(() => {
    const all = buttons()
    stopAt(all.find((one) => one === document.activeElement) ?? all.find(({ ariaPressed }) => ariaPressed === 'true')
      ?? all[0])
  })
  const key = (event) => {
    const all = buttons()
    const next = all.includes(event.target) && stepTo(event, all.indexOf(event.target), all.length)
    if (!all[next]) return
    event.preventDefault() // nothing scrolls
    all[next].focus()
  }
  return html`<div role="group" ...${attributes} ref=${box} onKeyDown=${key}
    onfocusin=${({ target }) => buttons().includes(target) && stopAt(target)}>${children}</div>`
}
