import { html, useState } from './preact.js'
import { percent, short } from './values.js'

/** What the model answered; `before` is its answer to the uncovered or other input, whose numbers stand beside. */
export function Answer({ results, before, streaming, pinned, pin, alternatives, replay }) {
  const [{ labels, candidates, embedding, tokens }] = results
  if (labels?.some(({ score }) => score !== undefined)) {
    return html`<ul>${labels.map(({ label, score }) => html`<li>${label}: ${short(score)}</li>`)}</ul>`
  }
  if (labels) return html`<${Bars} shares=${labels.map(({ label, probability }) => [label, probability])}
    before=${chances(before?.[0].labels, 'label')} />`
  if (candidates) {
    return candidates.map((some, mask) => html`
      ${candidates.length > 1 && html`<small>Mask ${mask + 1}</small>`}
      <${Bars} shares=${some.map(({ text, probability }) => [text, probability])}
        before=${chances(before?.[0].candidates?.[mask], 'text')} />`)
  }
  if (embedding) return html`<${Embedding} results=${results} />`
  return html`<${Written} result=${results[0]} streaming=${streaming} pinned=${pinned} pin=${pin} tokens=${tokens}
    alternatives=${alternatives} replay=${replay} before=${before?.[0]} />`
}

const chances = (list, name) => list && new Map(list.map((one) => [one[name], one.probability]))

function Bars({ shares, before }) {
  return html`<ol class="labels">${shares.map(([name, share]) => html`
    <li key=${name}>
      <span>${name}</span>
      <div>${before?.has(name) && html`<div class="was" style=${{ width: percent(before.get(name)) }}></div>`}
        <div style=${{ width: percent(share) }}></div></div>
      <span>${percent(share)}${before?.has(name) && html`<small> was ${percent(before.get(name))}</small>`}</span>
    </li>`)}</ol>`
}

function Embedding({ results: [{ embedding }, second] }) {
  const dot = (one, other) => one.reduce((sum, value, at) => sum + value * other[at], 0)
  const length = (vector) => Math.sqrt(dot(vector, vector))
  const cosine = second && dot(embedding, second.embedding) / (length(embedding) * length(second.embedding))
  return html`
    ${second && html`<p>Cosine similarity: <strong>${short(cosine)}</strong></p>`}
    <small>${embedding.length} numbers, a vector of length ${short(length(embedding))}:
      ${` ${embedding.slice(0, 8).map(short).join(', ')}`}${embedding.length > 8 && ', …'}</small>`
}

/** A generated text, token by token: each may be pinned, and shows what might have stood in its place. */
function Written({ result, streaming, pinned, pin, before, replay }) {
  const { tokens = [], score, finish_reason: reason } = result
  const shown = tokens[pinned]
  return html`
    <p class="words" aria-live=${streaming ? 'off' : 'polite'}>${tokens.map(({ text, log_probability: log }, at) => html`
      <button type="button" key=${at} aria-pressed=${at === pinned} onClick=${() => pin(at === pinned ? null : at)}
        title=${log === undefined ? null : percent(Math.exp(log))}>${text || '·'}</button>`)}
      ${streaming && html`<span class="cursor" aria-hidden="true">▍</span>`}</p>
    ${before?.text !== undefined && before.text !== result.text && html`<p class="quiet">It was “${before.text}”.</p>`}
    ${shown?.alternatives?.length > 0 && html`
      <small>What might have stood in place of “${shown.text}”</small>
      <${Bars} shares=${shown.alternatives.map(({ text, log_probability: log }) => [text, Math.exp(log)])} />`}
    ${reason && html`<p class="quiet">Score ${short(score)}, ${reason === 'stop' ? 'ended by itself' : 'cut at its longest'}.
      ${tokens.length > 1 && html` <button type="button" class="plain" id="play" onClick=${replay}>Play its steps</button>`}</p>`}`
}

/** Options of generation. */
export function GenerationOptions({ selection, change, limits }) {
  const [open, setOpen] = useState(false)
  const number = (name, words, min, max, step = 1) => html`
    <label>${words} <input type="number" name=${name} min=${min} max=${max} step=${step} value=${selection[name]}
      placeholder="model’s" onChange=${({ target }) => target.checkValidity() && change({ [name]: target.value })} /></label>`
  return html`
    <details open=${open} onToggle=${({ target }) => setOpen(target.open)} class="generation">
      <summary>How it is written</summary>
      <div class="fields">
        ${number('num_beams', 'Beams', 1, limits.num_beams ?? 8)}
        ${number('temperature', 'Temperature', 0, 100, 0.1)}
        ${number('top_k', 'Top k', 1, 1000000)}
        ${number('top_p', 'Top p', 0.01, 1, 0.01)}
        ${number('max_new_tokens', 'Tokens', 1, limits.max_new_tokens)}
        ${number('seed', 'Seed', 0, 2 ** 31)}
        ${number('alternatives', 'Alternatives', 0, 20)}
      </div>
    </details>`
}
