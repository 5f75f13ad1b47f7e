import { html } from './preact.js'
import { percent, short } from './values.js'

const [WIDTH, HEIGHT] = [320, 210] // of a chart, in the units of its own
const [LEFT, RIGHT, TOP, BOTTOM] = [44, 300, 10, 170] // the axes' places
const TITLE = { deletion: 'Deletion', insertion: 'Insertion' }
const MARGIN = 0.02 // of the chart's height: random orders tell areas apart no better
const DONE = { deletion: 'taken away', insertion: 'put back' }

/** Return the numbers at the ticks of an axis: 0 to 1, or wider where a value lies beyond. */
export function ticksOf(values) {
  const [low, high] = [Math.min(0, ...values), Math.max(1, ...values)]
  if (low === 0 && high === 1) return [0, 0.25, 0.5, 0.75, 1]
  const unit = 10 ** Math.floor(Math.log10((high - low) / 4))
  for (const factor of [1, 2, 3, 4, 5, 10, 20]) {
    const step = unit * factor
    const first = step * Math.floor(low / step)
    if (first + 4 * step >= high) return [0, 1, 2, 3, 4].map((at) => first + at * step)
  }
}

/** Return the curves of all random orders. */
const chanceOf = ({ random: { others = [], ...first } }) => [first, ...others]

/** Say what a curve means beside those of random orders. `range` is the height of the chart. */
function verdict(name, curve, range, parts) {
  const { probabilities, area } = curve
  const chance = chanceOf(curve)
  const areasOf = chance.map((one) => one.area)
  const [low, high] = [Math.min(...areasOf), Math.max(...areasOf)]
  const random = chance.length > 1 ? `${chance.length} random orders (the band) ${short(low)} to ${short(high)}`
    : `random order (dashed) ${short(low)}`
  const areas = `Area ${short(area)}, in ${random}`
  const values = [probabilities, ...chance.map((one) => one.probabilities)].flat()
  if (Math.max(...values) - Math.min(...values) < MARGIN * range) {
    return `${areas}: no difference, since it hardly depends on these ${parts}.`
  }
  const [goal, gains] = name === 'deletion' ? ['less', areasOf.map((one) => one - area)]
    : ['more', areasOf.map((one) => area - one)]
  const told = chance.length > 1 ? 'each random order' : 'a random order'
  const better = gains.every((gain) => gain >= MARGIN * range)
  if (better || gains.every((gain) => gain <= -MARGIN * range)) {
    return `${areas}; ${goal} is better, so the map is ${better ? 'better' : 'worse'} than ${told}.`
  }
  return `${areas}: no difference.`
}

/**
 * The curves of an evaluation, deletion and insertion, each beside the mean of random orders and their band, and in
 * words the areas under them. `label` is what the score is of. `parts` are the patches or tokens that are taken away.
 */
export function Curves({ evaluation, label, parts = 'patches' }) {
  const { fractions, curves, measure = 'probability' } = evaluation
  const ticks = ticksOf(curves.flatMap((curve) =>
    [curve, ...chanceOf(curve)].flatMap(({ probabilities }) => probabilities)))
  const [low, high] = [ticks[0], ticks.at(-1)]
  const x = (fraction) => LEFT + fraction * (RIGHT - LEFT)
  const y = (value) => BOTTOM - ((value - low) / (high - low)) * (BOTTOM - TOP)
  const line = (values) => values.map((value, at) => `${x(fractions[at]).toFixed(1)} ${y(value).toFixed(1)}`).join('L')
  const back = (values) => line(values).split('L').reverse().join('L')
  return html`<div class="curves">${curves.map((curve) => {
    const { name, probabilities } = curve
    const chance = chanceOf(curve)
    const [least, mean, most] = [
      (values) => Math.min(...values), (values) => values.reduce((sum, value) => sum + value, 0) / values.length,
      (values) => Math.max(...values),
    ].map((of) => fractions.map((_, at) => of(chance.map((one) => one.probabilities[at]))))
    const words = `the ${measure} of “${label}” as ${parts} are ${DONE[name]}, the highest first. ` +
      verdict(name, curve, high - low, parts)
    return html`<figure class=${name} key=${name}>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`${name}: ${words}`}>
        ${ticks.map((tick) => html`<g class="tick"><path d=${`M${LEFT} ${y(tick)}H${RIGHT}`} />
          <text x=${LEFT - 6} y=${y(tick) + 4} text-anchor="end">${short(tick)}</text></g>`)}
        ${[0, 0.25, 0.5, 0.75, 1].map((part) => html`<g class="tick"><path d=${`M${x(part)} ${BOTTOM}v4`} />
          <text x=${x(part)} y=${BOTTOM + 17} text-anchor="middle">${percent(part, 0)}</text></g>`)}
        <text x=${(LEFT + RIGHT) / 2} y=${BOTTOM + 35} text-anchor="middle">${parts} ${DONE[name]}</text>
        <path class="area" d=${`M${line(probabilities)}L${back(mean)}Z`} />
        ${chance.length > 1 && html`<path class="band" d=${`M${line(least)}L${back(most)}Z`} />`}
        <path class="random" d=${`M${line(mean)}`} />
        <path class="own" d=${`M${line(probabilities)}`} />
      </svg>
      <figcaption><strong>${TITLE[name]}</strong>: ${words}</figcaption>
    </figure>`
  })}</div>`
}
