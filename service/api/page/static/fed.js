import { useAsked } from './asked.js'
import { Figures } from './figures.js'
import { html } from './preact.js'
import { requestOf } from './request.js'
import { ask } from './service.js'
import { percent, short } from './values.js'

/** Return what a model was fed, and the logits of its labels, where it has some and the page has the input. */
async function fedOf({ id, input, results }, model, signal) {
  const one = results?.length > 1 ? `${id}.0` : id // of two texts the first
  const { body } = await ask(`v1/attention/${encodeURIComponent(one)}/input?model=${encodeURIComponent(model.name)}`,
    { signal })
  if (input.kind === 'kept' || results?.[0].labels?.[0]?.probability === undefined) return body
  const { path, init } = requestOf(model, input, { logits: true })
  const answer = (await ask(path, { ...init, signal })).body
  return { ...body, labels: answer.results[0].labels }
}

/** What a model was fed: the pixels or tokens that its graph takes, its logits, and what of it answered. */
export function WhatWasFed({ model, main }) {
  const { value: answer, behind } = main.asked
  const ready = answer?.id && !behind && answer.model.name === model.name
  const found = useAsked(ready ? `${answer.id} ${model.name}` : null, (signal) => fedOf(answer, model, signal))
  const { pixels, tokens, samples, labels } = found.value ?? {}
  return html`<div class=${found.busy ? 'stale' : ''}>
    ${found.busy && html`<p role="status">asking…</p>`}
    ${found.refusal && html`<p class="problem">${found.refusal.message}</p>`}
    ${pixels && html`<${Pixels} ...${pixels} />`}
    ${tokens && html`<${Tokens} tokens=${tokens} />`}
    ${samples && html`<p>${samples.heard} samples, ${samples.rate} a second, of ${samples.count} that the graph takes,
      from ${short(samples.least)} to ${short(samples.most)}, of loudness ${short(samples.loudness)}.</p>`}
    ${labels && html`<${Figures} caption="Labels" head=${['label', 'logit', 'probability']}
      rows=${labels.map(({ label, logit, probability }) => [label, short(logit), percent(probability)])} />`}
    <p class="quiet">
      ${model.name}, version ${model.version}: ${model.family}, ${model.precision}, ${model.provider}${
        model.weights_sha256 && html`; weights <code>${model.weights_sha256.slice(0, 16)}</code> (SHA-256)`}
    </p>
  </div>`
}

/** The pixels of a tensor as a picture, where they come from, and their numbers by channel. */
function Pixels({ shape: [height, width, channels], mean, std, box, image, tensor, png }) {
  const scale = box && `, cut from ${Math.round(box.right - box.left)} × ${Math.round(box.bottom - box.top)}
    of ${image.width} × ${image.height} pixels and scaled by ${short(width / (box.right - box.left))}`
  const names = channels === 3 ? ['red', 'green', 'blue'] : ['grey']
  const row = (name, at) => [name, ...[tensor.mean, tensor.std, tensor.least, tensor.most].map((one) => short(one[at]))]
  return html`
    <img class="fed" src=${`data:image/png;base64,${png}`} alt="The pixels that the model takes" />
    <p>${`${width} × ${height} pixels`}${scale}. Each number is (pixel / 255 − ${mean.map(short).join(', ')}) /
      ${` ${std.map(short).join(', ')}`}.</p>
    <${Figures} caption="The tensor" head=${['channel', 'mean', 'spread', 'least', 'most']} rows=${names.map(row)} />`
}

/** The tokens as the graph takes them. */
function Tokens({ tokens }) {
  const types = tokens.some(({ type }) => type)
  const row = ({ id, text, special, type }, at) => [at, id, text, special ? 'special' : '', ...(types ? [type] : [])]
  const head = ['place', 'id', 'token', '', ...(types ? ['type'] : [])]
  return html`<${Figures} caption=${`${tokens.length} tokens`} head=${head} rows=${tokens.map(row)} />`
}
