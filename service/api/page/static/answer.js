import { Later } from './lazy.js'
import { html, useState } from './preact.js'
import { Roving } from './roving.js'
import { cosine, labelOf, lengthOf, normOf, percent, short } from './values.js'

/** Return what may be, as {key, name, share}; keys tell apart what has the same name. */
const chances = (list, key) => list?.map((one) => ({
  key: one[key], name: one.label ?? one.text, share: one.probability ?? Math.exp(one.log_probability),
}))

/** Shares as bars, each with the share that it had `before`, where it had one. */
function Bars({ shares, before = [] }) {
  const old = new Map(before.map(({ key, share }) => [key, share]))
  const bar = ({ key, name, share }) => {
    const was = old.get(key)
    return html`<li key=${key}>
      <span>${name}</span>
      <div>
        ${was !== undefined && html`<div class="was" style=${{ width: lengthOf(was) }}></div>`}
        <div style=${{ width: lengthOf(share) }}></div>
      </div>
      <span>${percent(share)}${was !== undefined && html`<small> was ${percent(was)}</small>`}</span>
    </li>`
  }
  return html`<ol class="labels">${shares.map(bar)}</ol>`
}

/**
 * The likeliest classes, by their shares or their scores; here and below `before` is the answer to the uncovered or
 * other input, whose numbers stand beside.
 */
export function Classes({ results: [{ labels }], before }) {
  if (labels.some(({ score }) => score !== undefined)) {
    return html`<ul>${labels.map(({ label, score }) => html`<li>${label}: ${short(score)}</li>`)}</ul>`
  }
  return html`<${Bars} shares=${chances(labels, 'index')} before=${chances(before?.[0].labels, 'index')} />`
}

/** The words that a text is about, with their weights. */
export const Words = ({ results: [{ words }] }) =>
  html`<ul>${words.map(({ token, text, weight }) => html`<li key=${token}>${text}: ${short(weight)}</li>`)}</ul>`

/** What may stand behind each mask. */
export function Masks({ results: [{ candidates }], before }) {
  return candidates.map((some, mask) => html`
    ${candidates.length > 1 && html`<small>Mask ${mask + 1}</small>`}
    <${Bars} shares=${chances(some, 'token')} before=${chances(before?.[0].candidates?.[mask], 'token')} />`)
}

/** A vector, how alike it is to those of other texts, and to what it was before. */
export function Vector({ results: [{ embedding, alike = [] }], before, objects }) {
  const was = before?.[0].embedding?.length === embedding.length && before[0].embedding
  return html`
    ${alike.length > 0 && html`
      <p>Cosine with each text, the most alike first:</p>
      <${Later} part="Ranked" results=${[{ ranked: alike }]} before=${before && [{ ranked: before[0].alike }]}
        objects=${objects} />`}
    ${was && html`<p>Likeness to what it was (cosine): <strong>${short(cosine(embedding, was))}</strong></p>`}
    <small>${embedding.length} numbers, a vector of length ${short(normOf(embedding))}:
      ${` ${embedding.slice(0, 8).map(short).join(', ')}`}${embedding.length > 8 && ', …'}</small>`
}

/** A generated text, token by token: each may be pinned, and shows what might have stood in its place. */
export function Written({ results: [result], before, streaming, pinned, pin, replay, playing }) {
  const { tokens = [], score, finish_reason: reason } = result
  const shown = tokens[pinned]
  const was = before?.[0].text
  const token = ({ text, log_probability: log }, at) => html`<button type="button" key=${at}
    aria-pressed=${at === pinned}
    aria-label=${text.trim() ? null : labelOf({ text })}
    title=${log === undefined ? null : percent(Math.exp(log))}
    onClick=${() => pin(at === pinned ? null : at)}>${text || '·'}</button>`
  const end = reason === 'stop' ? 'ended by itself' : 'cut at its longest'
  const play = html` <button type="button" class="plain" id="play" onClick=${replay}>
    ${playing ? 'Stop' : 'Play its steps'}
  </button>`
  return html`
    <${Roving} class="words" dir="auto" aria-label="Tokens of the answer">
      ${tokens.map(token)}${streaming && html`<span class="cursor" aria-hidden="true">▍</span>`}
    <//>
    ${was !== undefined && was !== result.text && html`<p class="quiet">It was “${was}”.</p>`}
    ${shown?.alternatives?.length > 0 && html`
      <small>What might have stood in place of “${shown.text}”</small>
      <${Bars} shares=${chances(shown.alternatives, 'token')} />`}
    ${reason && html`<p class="quiet">Score ${short(score)}, ${end}.${replay && tokens.length > 1 && play}</p>`}`
}

/** A choice among a model's languages. */
function Language({ words, name, model, selection, change, own }) {
  return html`
    <label>${words} <select
      name=${name} value=${selection[name]} onChange=${({ target }) => change({ [name]: target.value })}>
      <option value="">${own ? `model’s (${own})` : 'model’s choice'}</option>
      ${model.languages.codes.map((code) => html`<option value=${code}>${code}</option>`)}
    </select></label>`
}

/** A number, chosen when its field is left: what is typed until then stays, though the page is drawn again. */
function NumberField({ words, chosen, choose, ...attributes }) {
  const [typed, type] = useState(null) // what is not chosen yet
  const leave = ({ target }) => target.reportValidity() && (type(null), choose(target.value))
  return html`<label>${words} <input
    type="number" placeholder="model’s" ...${attributes} value=${typed ?? chosen}
    onInput=${({ target }) => type(target.value === chosen ? null : target.value)} onChange=${leave} /></label>`
}

/** Options of generation; a model's languages stand before the others. */
export function GenerationOptions({ selection, change, model }) {
  const { limits, languages } = model
  const [open, setOpen] = useState(false)
  const number = (name, words, min, max, step = 1) => html`<${NumberField} words=${words} name=${name} min=${min}
    max=${max} step=${step} chosen=${selection[name]} choose=${(value) => change({ [name]: value })} />`
  const chosen = { model, selection, change }
  return html`
    ${languages && html`<div class="fields">
      ${languages.source && html`
        <${Language} ...${chosen} words="From" name="source_language" own=${languages.source} />`}
      <${Language} ...${chosen} words="To" name="target_language" own=${languages.target} />
    </div>`}
    <details class="generation" open=${open} onToggle=${({ target }) => setOpen(target.open)}>
      <summary>How it is written</summary>
      <div class="fields">
        ${number('num_beams', 'Beams', 1, limits.num_beams ?? 8)}
        ${number('temperature', 'Temperature', 0, 100, 'any')}
        ${number('top_k', 'Top k', 1, 1000000)}
        ${number('top_p', 'Top p', 0, 1, 'any')}
        ${number('max_new_tokens', 'Tokens', 1, limits.max_new_tokens)}
        ${number('seed', 'Seed', 0, 2 ** 31)}
        ${number('alternatives', 'Alternatives', 0, 20)}
      </div>
    </details>`
}
