import { html, useState } from './preact.js'
import { cut, shares, tintOf } from './tokens.js'
import { linesOf, short, unpackMap } from './values.js'
import { RATHER } from './words.js'

/** Return labels that stand one a line, or in one line with commas between them; `apart`, commas always part them. */
function labelsIn(text, apart) {
  const lines = linesOf(text)
  return lines.length > 1 && !apart ? lines : linesOf(text.replaceAll(',', '\n'))
}

/**
 * The labels among which a model of entailment chooses, or a model of pictures beside one of texts; the sentence that
 * each is put into, and how.
 */
export function Labels({ model, selection, change }) {
  const [typed, type] = useState({}) // until it is sent: the page is drawn again while somebody types
  const { labels, template } = { ...selection, ...typed }
  const send = (event) => {
    event.preventDefault()
    type({})
    change({ labels: labelsIn(labels, model.contrast).join('\n'), template: template.trim(), object: '', target: '' })
  }
  const input = (name) => ({ target }) => type({ ...typed, [name]: target.value })
  const box = (name, words, part = {}) => html`<label class="box"><input type="checkbox" name=${name}
    checked=${Boolean(selection[name])}
    onChange=${({ target }) => change(target.checked ? { ...part, [name]: '1' } : { [name]: '' })} /> ${words}</label>`
  return html`<form id="labels" onSubmit=${send}>
    <label>Labels to choose among, one a line or with commas <textarea name="labels" rows="3" dir="auto"
      spellcheck=${false} autocomplete="off" value=${labels} onInput=${input('labels')}></textarea></label>
    <label>Its sentence, where {} is the label <input type="text" name="template" dir="auto" autocomplete="off"
      placeholder=${model.contrast ? 'This is a photo of {}.' : 'This example is {}.'} pattern=".*\\{\\}.*"
      title="It must hold {}." value=${template} onInput=${input('template')} /></label>
    ${model.contrast ? box('apart', 'explain it rather than the likeliest of the others', { method: RATHER[0] })
      : box('multi', 'each label for itself')}
    <button>Choose among them</button>
  </form>`
}

/**
 * The words of a label's sentence, with how much each says the picture: in colour, and as a number below it. Special
 * tokens have no words; what several tokens say of one word adds up.
 */
export function LabelWords({ look: { method, maps: [map], tokens: { source }, text } }) {
  const { values, signed } = unpackMap(map, method)
  const seen = [...source.keys()].filter((at) => source[at].span)
  const { pieces, owners } = cut([...text], seen.map((at) => source[at]))
  const sums = pieces.map((_, piece) =>
    seen.reduce((sum, at, place) => (owners[place] === piece ? sum + values[at] : sum), 0))
  const tints = shares(seen.map((at) => values[at]), owners, pieces.length, signed)
  const word = ({ text: own }, at) => (owners.includes(at) && own.trim()
    ? html`<ruby style=${tintOf(tints[at], signed)}>${own}<rt>${short(sums[at])}</rt></ruby>` : own)
  return html`<figure id="opposite">
    <figcaption>Which words of the label say this picture</figcaption>
    <p class="read" dir="auto">${pieces.map(word)}</p>
  </figure>`
}
