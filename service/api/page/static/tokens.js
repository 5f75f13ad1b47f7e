import { useSame } from './canvas.js'
import { AGAINST, FOR } from './colours.js'
import { html, useLayoutEffect, useMemo, useRef } from './preact.js'
import { stepTo } from './roving.js'
import { directionOf, labelOf, percent, rowOrMean, short } from './values.js'

const DEEPEST = 0.45 // share of colour behind a token at most: its text stays readable in light and dark
const SURE = 0.5 // a generated token less likely than this is marked

/**
 * Return the text in pieces, {text, special}, and the piece that each token stands on; tokens that overlap share one.
 * `characters` are code points: spans count these, JavaScript's strings count UTF-16 units.
 */
export function cut(characters, tokens) {
  const pieces = []
  let [end, last] = [0, null]
  const add = (text, special = false) => pieces.push({ text, special }) - 1
  const until = (place) => add(characters.slice(end, (end = place)).join(''))
  const owners = tokens.map(({ text, span }) => {
    if (!span) return add(text, true)
    if (span[0] === span[1]) return null // a part of a character that comes later
    if (span[0] > end) until(span[0])
    return span[1] > end ? (last = until(span[1])) : last
  })
  until(characters.length)
  return { pieces, owners }
}

/** Return two texts in pieces as `cut` does, those of the second behind; `second` is where these begin. */
function cutBoth(text, pair, tokens) {
  const at = tokens.findIndex(({ sequence }) => sequence)
  const [one, other] = [cut([...text], tokens.slice(0, at)), cut([...pair], tokens.slice(at))]
  const second = one.pieces.length
  const owners = other.owners.map((owner) => (owner === null ? null : owner + second))
  return { pieces: [...one.pieces, ...other.pieces], owners: [...one.owners, ...owners], second }
}

/** Return how strongly each piece is tinted, -1 to 1 of the strongest, by the weights of the tokens on it. */
export function shares(weights, owners, count, signed) {
  const sums = new Float32Array(count)
  owners.forEach((owner, at) => owner !== null && (sums[owner] += weights[at]))
  const most = sums.reduce((most, sum) => Math.max(most, signed ? Math.abs(sum) : sum), 1e-9)
  return sums.map((sum) => sum / most)
}

/** Return the style of a piece that has a part of the strongest tint, -1 to 1. */
export function tintOf(part, signed) {
  const tint = Math.round(100 * DEEPEST * (signed ? part : Math.max(part, 0))) // whole: few change at a hover
  return `--weight: ${Math.abs(tint)}%${signed ? `; --tint: ${tint < 0 ? AGAINST : FOR}` : ''}`
}

/**
 * Return in words what a row (of null the mean of all) looks at, or is like: its largest three, or one column; its
 * probability if `sure`.
 */
export function readout({ rows, columns, values, row, column = null, sure, explains = false, alike = false }) {
  const weights = rowOrMean(values, columns.length, row)
  const where = ({ span, sequence }) =>
    span ? ` at character ${span[0]}${sequence ? ' of the second text' : ''}` : ''
  const at = (key) => `“${labelOf(columns[key])}”${where(columns[key])}: ${short(weights[key])}`
  const best = [...columns.keys()].filter((key) => weights[key] > 0)
    .sort((one, other) => weights[other] - weights[one]).slice(0, 3)
  const who = row === null ? 'The mean of all'
    : `“${labelOf(rows[row])}”${sure === undefined ? '' : `, probability ${percent(sure)},`}`
  const [verb, link] = explains ? ['owes', 'to'] : alike ? ['is', 'like'] : ['looks', 'at']
  return column === null ? `${who} ${verb} most ${link} ${best.map(at).join(', ') || 'nothing'}`
    : `${who} ${verb} ${link} ${at(column)}`
}

/**
 * Tokens as buttons, of which one is `current` and one may be `pinned`. Hover or focus previews (`onHover`), a click or
 * Enter picks (`onPick`), Escape picks null; arrow keys move. `before` is text in front of them.
 */
export function TokenList({
  tokens: given, current = null, pinned = null, sure: chances, before, label, chips = false, onHover, onPick,
}) {
  const list = useRef()
  const [tokens, sure] = [useSame(given), useSame(chances)]
  const marked = useRef({}) // elements, by how they are marked: 2000 buttons need not be compared at each hover
  const buttons = useMemo(() => tokens.map(({ text, special }, at) => {
    const names = `${special ? 'special' : ''}${sure?.[at] < SURE ? ' unsure' : ''}`
    const title = sure?.[at] === undefined ? null : `probability ${percent(sure[at])}`
    return html`<button type="button" tabindex="-1" data-at=${at} aria-pressed="false" class=${names} title=${title}
      >${chips ? labelOf({ text }) : text}</button>`
  }), [tokens, sure, chips])
  useLayoutEffect(() => {
    const all = list.current.querySelectorAll('[data-at]')
    const mark = (name, at, on, off) => {
      const [old, next] = [marked.current[name], all[at]]
      if (old !== next) off(old ?? {})
      if (next) on(next)
      marked.current[name] = next
    }
    mark('current', current, (one) => (one.ariaCurrent = 'true'), (one) => (one.ariaCurrent = null))
    mark('pinned', pinned, (one) => (one.ariaPressed = 'true'), (one) => (one.ariaPressed = 'false'))
    mark('stop', current ?? pinned ?? 0, (one) => (one.tabIndex = 0), (one) => (one.tabIndex = -1))
  }, [buttons, current, pinned])

  const of = (event) => event.target.closest('[data-at]')
  const hover = (event) => {
    const at = of(event)?.dataset.at
    if (at !== undefined && Number(at) !== current) onHover(Number(at))
  }
  const key = (event) => {
    if (event.key === 'Escape') onPick(null)
    else {
      const next = stepTo(event, Number(of(event)?.dataset.at ?? 0), tokens.length)
      if (next === undefined) return
      list.current.querySelector(`[data-at="${next}"]`)?.focus()
    }
    event.preventDefault() // nothing scrolls
  }
  const named = tokens.every(({ span, special }) => !span && special === undefined) // they are of no text
  const form = chips ? 'chips' : named ? 'named' : ''
  return html`<div ref=${list} class=${`tokens ${form}`} role="group" aria-label=${label}
    dir=${directionOf(tokens)}
    onPointerOver=${hover} onfocusin=${hover} onPointerLeave=${() => onHover(null)}
    onfocusout=${(event) => event.currentTarget.contains(event.relatedTarget) || onHover(null)}
    onClick=${(event) => of(event) && onPick(Number(of(event).dataset.at))} onKeyDown=${key}>
    ${before && html`<span class="given">${before}</span>`}${buttons}
  </div>`
}

/**
 * Tokens in place: the rows as buttons, and the text that the columns' spans lie in, tinted by the weights of `row`.
 * Where rows and columns are the `same` tokens, they are one line of chips that tints itself. Without a `text`, and of
 * two texts without the second (`pair`), the columns are chips. `before` is text in front of the rows; `sure` are the
 * rows' probabilities, 0 to 1.
 */
export function InPlace({
  rows, columns: keys, values: given, signed = false, row = 0, pinned = null, text = null, pair = null,
  sure, same = false, before = '', onHover = () => {}, onPick = () => {},
}) {
  const box = useRef()
  const [columns, values] = [useSame(keys), useSame(given)]
  const both = columns.some(({ sequence }) => sequence)
  const chips = same || text === null || (both && pair === null)
  const { pieces, owners, second } = useMemo(
    () => chips ? { pieces: columns, owners: [...columns.keys()] }
      : both ? cutBoth(text, pair, columns) : cut([...text], columns), [chips, text, pair, columns])
  const spans = useMemo(() => pieces.map(({ text: own, special }) =>
    html`<span class=${special ? 'special' : ''}>${chips ? labelOf({ text: own }) : own}</span>`), [pieces, chips])
  useLayoutEffect(() => {
    const tinted = box.current.querySelectorAll(same ? '.tokens > [data-at]' : '.read > span')
    const weights = values.subarray(row * columns.length, (row + 1) * columns.length)
    const parts = shares(weights, owners, pieces.length, signed)
    parts.forEach((part, at) => {
      const style = tintOf(part, signed)
      if (tinted[at].drawn !== style) tinted[at].style.cssText = tinted[at].drawn = style
    })
  }, [spans, values, row, signed, same])
  return html`<div class="in-place" ref=${box}>
    <${TokenList} key=${same} tokens=${rows} current=${row} pinned=${pinned} sure=${sure} before=${before} chips=${same}
      label="Tokens; arrow keys move over them, Enter pins one" onHover=${onHover} onPick=${onPick} />
    ${!same && html`<p class=${`read${chips ? ' chips' : ''}`}
      dir=${directionOf(columns)}>${spans.slice(0, second)}</p>`}
    ${second && html`<p class="read" dir=${directionOf(columns.filter(({ sequence }) => sequence))}>
      ${spans.slice(second)}</p>`}
  </div>`
}
