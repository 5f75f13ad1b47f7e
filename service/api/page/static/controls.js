import { html } from './preact.js'
import {
  aboutKind, firstLayerOf, hasSinks, headsOf, kindOf, kindsOf, layerOf, layersIn, layersOf, methodOf, methodsOf,
  rolloutOf,
} from './selection.js'
import { range, short } from './values.js'
import { EXPLAINS, METHODS, TERMS, wordsOf } from './words.js'

const FUSED = ['mean', 'max', 'min']
const USUAL_DISCARD = 0.9

/**
 * One of several, or `many`, as buttons that arrow keys move over. `values` are [value, words] or words; `terms`
 * explain some of them, the others are explained as the group is.
 */
function Choice({ legend, name, values, chosen, choose, many = false, terms = {} }) {
  const pairs = values.map((value) => [value, value].flat().slice(-2).map(String))
  if (pairs.length < 2) return null
  const marked = String(chosen).split(',')
  const toggled = (value) =>
    marked.includes(value) ? marked.filter((one) => one !== value) : [...marked, value].filter(Boolean)
  const pick = (value) => choose(many ? toggled(value).join() : value)
  return html`<fieldset id=${name}>
    <legend data-term=${TERMS[name]}>${legend}</legend>
    ${pairs.map(([value, words]) => html`<label class="choice" key=${value}>
      <input
        type=${many ? 'checkbox' : 'radio'}
        name=${name}
        aria-description=${terms[value] ?? TERMS[name]}
        value=${value}
        checked=${marked.includes(value)}
        onChange=${() => pick(value)} />
      <span data-term=${terms[value] ?? TERMS[name]}>${words}</span>
    </label>`)}
  </fieldset>`
}

/** What is shown of the attention: kind, method, layer, heads, what is explained. */
export function LookControls({ model, selection, change, labels }) {
  const kind = kindOf(model, selection)
  const method = methodOf(model, kind, selection)
  const explains = EXPLAINS.includes(method)
  const best = model.attention.best
  const kinds = kindsOf(model).map((name) => [name, wordsOf({ name, ...model.attention.kinds[name] }).name])
  const methods = methodsOf(model, kind, selection).map((one) => [one, best?.method === one ? `${one} ★` : one])
  const aligns = !explains && kind.name === 'cross' && kind.key !== 'image'
  return html`
    <${Choice} legend="What looks at what" name="kind" values=${kinds} chosen=${kind.name}
      choose=${(name) => change(aboutKind(model, selection, name))} />
    <${Choice} legend="Method" name="method" terms=${METHODS} values=${methods} chosen=${method}
      choose=${(one) => change({ method: one })} />
    <p class="meaning">${METHODS[method]} ${method === best?.method && html`<${Why} best=${best} />`}</p>
    <${Layer} model=${model} kind=${kind} method=${method} selection=${selection} change=${change} />
    ${method === 'rollout' && html`
      <${Rollout} model=${model} kind=${kind} selection=${selection} change=${change} />`}
    <${Heads} method=${method} count=${kind.heads} chosen=${selection.heads} change=${change} />
    ${explains && labels?.length > 1 && html`<${Choice} many legend="What speaks for" name="target"
      values=${labels.map(({ index, label }) => [index, label])} chosen=${selection.target || labels[0].index}
      choose=${(target) => change({ target })} />`}
    ${aligns && html`<${Choice} legend="A token’s row" name="align"
      values=${[['emit', 'where it came out'], ['input', 'where it went in']]} chosen=${selection.align}
      choose=${(align) => change({ align })} />`}`
}

/** Why a method is recommended. */
function Why({ best: { method, measure, values } }) {
  const others = Object.entries(values).filter(([name]) => name !== method)
  const numbers = [short(values[method]), ...others.map(([name, value]) => `${name} ${short(value)}`)]
  return html`★ It measured best on this model (${measure}): ${numbers.join(', ')}.`
}

/** The layer, or the layers up to one. */
function Layer({ model, kind, method, selection, change }) {
  const { through, fixed } = layersOf(model, method)
  if (fixed || kind.layers < 2) return null
  const [first, layer, last] = [firstLayerOf(kind, selection), layerOf(kind, selection), layersIn(kind, method) - 1]
  const slider = (name, words, value, take) => html`<label data-term=${TERMS.layer}>
    ${words}
    <input type="range" name=${name} id=${name} min="0" max=${last} value=${value} aria-description=${TERMS.layer}
      onInput=${({ target }) => change(take(target.value))} /><span data-term=${TERMS.layer}></span>
  </label>`
  if (!through) return slider('layer', `Layer ${layer} of 0 to ${last}`, layer, (value) => ({ layer: value }))
  return html`
    ${slider('first', `From layer ${first}`, first, (value) => ({
      first: value, ...(Number(value) > layer && { layer: value }) }))}
    ${slider('layer', `to layer ${layer} of 0 to ${last}`, layer, (value) => ({ layer: value }))}`
}

/** What rollout leaves out: heads that look at one patch from everywhere, and all but the strongest tenth. */
function Rollout({ model, kind, selection, change }) {
  if (kind.windows.length) return null
  const { sinks, discard } = rolloutOf(model, kind, selection)
  const box = (name, words, checked, values) => html`<label class="box">
    <input type="checkbox" name=${name} checked=${checked}
      onChange=${({ target }) => change({ [name]: values[Number(target.checked)] })} />
    ${words}
  </label>`
  return html`
    ${hasSinks(kind) && box(
      'sinks', 'without heads that look at one patch from everywhere', sinks === 'out', ['keep', 'out'])}
    ${box('discard', `only the strongest ${Math.round(100 * (1 - (discard || USUAL_DISCARD)))} % of each layer`,
      discard > 0, ['0', String(USUAL_DISCARD)])}`
}

/** Heads: fused, or of raw weights some of them; a double click leaves one alone. */
function Heads({ method, count, chosen, change }) {
  const isHead = (value) => !Number.isNaN(Number(value))
  const choose = (value) => change({ heads: value })
  if (count < 2 || !['raw', 'rollout'].includes(method)) return null
  if (method === 'rollout') {
    return html`<${Choice} legend="Heads" name="heads" terms=${TERMS} values=${FUSED}
      chosen=${isHead(chosen) ? 'mean' : chosen} choose=${choose} />`
  }
  const pick = (value) => {
    const marked = value.split(',')
    const last = marked.at(-1)
    choose(!value ? 'mean' : isHead(last) ? marked.filter(isHead).join() : last)
  }
  const alone = ({ target }) => {
    const value = target.closest('label')?.querySelector('input').value
    if (value !== undefined && isHead(value)) choose(value)
  }
  const some = headsOf({ heads: chosen }).length > 0
  return html`<div onDblClick=${alone}>
    <${Choice} many legend=${some ? 'Heads (a double click: one alone)' : 'Heads'} name="heads"
      terms=${TERMS} values=${[...FUSED, ...range(count)]} chosen=${chosen} choose=${pick} />
  </div>`
}
