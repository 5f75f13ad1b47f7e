import { Marked } from './marked.js'
import { html } from './preact.js'
import { Ranked } from './ranked.js'

/** Return the answers that can be marked in one text, since none lies over another: the one that is `first`, if any. */
export function apart(answers, first) {
  const order = [...answers].sort((one, other) => (other.object === first) - (one.object === first))
  const over = (one, { start, end }) => one.start < end && start < one.end
  return order.reduce((kept, one) =>
    (one.start === one.end || kept.some((other) => over(one, other)) ? kept : [...kept, one]), [])
}

/** A context with the answers that were found in it marked, and these as a list, best first. */
export function Spans({ results: [{ answers, context }], before, objects }) {
  const ranked = (some) => some?.map(({ object, text, score }) => ({ object, text, share: score }))
  const marks = apart(answers, objects.shown).map((one) =>
    ({ ...one, label: String(one.object + 1), probability: one.score }))
  return html`
    <${Marked} results=${[{ entities: marks, text: context }]} objects=${objects} what="Answers" />
    <${Ranked} results=${[{ ranked: ranked(answers) }]} before=${before && [{ ranked: ranked(before[0].answers) }]}
      objects=${objects} />`
}
