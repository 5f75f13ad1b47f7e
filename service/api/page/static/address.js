import { COLORMAP_NAMES } from './colours.js'
import { DEFAULTS, DRAWN, PENDING } from './selection.js'

const QUESTION = ['model', 'example', 'text', 'pair', 'id']
const STEPS = [...QUESTION, 'labels', 'method', 'compare', 'with', 'covered'] // changes of them are steps of history

const FORMS = { // an address may be anybody's
  row: /^\d*$/, layer: /^\d*$/, heads: /^(mean|max|min|\d+(,\d+)*)$/, covered: /^(\d+(,\d+)*)?$/,
  first: /^\d*$/, sinks: /^(keep|out)?$/, discard: /^(0|0?\.\d+)?$/,
  object: /^\d*$/, threshold: /^(1|0|0?\.\d+)?$/,
  multi: /^1?$/, aggregate: /^(none|first|average|max)?$/,
  compare: /^(|input|layer:\d+|(method|model):.+)$/, view: /^(place|lines|matrix)$/, align: /^(emit|input)$/,
  order: /^(index|entropy|distance|special|sink)$/, keep: /^(1|0?\.\d+)$/, opacity: /^(1|0|0?\.\d+)$/,
  zoom: /^[1-8]$/, log: /^1?$/,
  colormap: new RegExp(`^(${COLORMAP_NAMES.join('|')})$`),
}

const SLIDERS = ['keep', 'opacity', 'threshold', 'zoom'] // each has many steps
const [PAUSE, RETRY] = [200, 1000] // milliseconds between two addresses of a slider, and after a refusal
let written = -PAUSE
let later = null

/** Return the selection that the page's address names. */
export function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1))
  const fits = (name) => given.has(name) && (FORMS[name]?.test(given.get(name)) ?? true)
  const entries = Object.entries(DEFAULTS).map(([name, value]) => [name, fits(name) ? given.get(name) : value])
  return Object.fromEntries(entries)
}

/**
 * Write a selection into the page's address: a new step of the history where the question or the method is another.
 * Browsers bound how often that may be, so a slider's steps are written a few times a second.
 */
export function writeAddress(selection) {
  clearTimeout(later)
  const before = readAddress()
  const chosen = Object.entries(selection).filter(([name, value]) => value !== DEFAULTS[name])
  const hash = `#${new URLSearchParams(chosen)}`
  if (hash === (location.hash || '#')) return
  const other = Object.keys(DEFAULTS).filter((name) => before[name] !== selection[name])
  const named = other.length === 1 && other[0] === 'id' && !PENDING.includes(selection.id) // an answer was given its id
  const stroke = selection.id === DRAWN && before.id // it goes on with a picture that was there
  const asked = before.model && !PENDING.includes(before.id)
  const step = asked && !named && !stroke && STEPS.some((name) => other.includes(name))
  const wait = other.every((name) => SLIDERS.includes(name)) ? written + PAUSE - performance.now() : 0
  const write = () => writeAddress(selection)
  if (wait > 0) {
    later = setTimeout(write, wait)
    return
  }
  try {
    history[step ? 'pushState' : 'replaceState'](null, '', hash)
    written = performance.now()
  } catch { // too often
    later = setTimeout(write, RETRY)
  }
}
