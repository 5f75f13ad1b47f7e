import { html, useState } from './preact.js'
import { Select } from './select.js'
import { kindOf, layerOf, methodOf, methodsOf } from './selection.js'
import { range } from './values.js'

/** Chooses what stands beside the look: another method, layer, model or input. */
export function Compare({ models, model, selection, change }) {
  const [typed, type] = useState(null) // until it is sent: the page is drawn again while somebody types
  const kind = kindOf(model, selection)
  const others = (values, own) => values.filter((one) => one !== own)
  const methods = others(methodsOf(model, kind, selection.pair), methodOf(model, kind, selection))
  const layers = others(range(kind.layers), layerOf(kind, selection))
  const alike = models.filter(({ name, task }) => name !== model.name && task === model.task)
  const sees = Boolean(model.inputs.width)
  const choices = [
    ['', 'nothing'],
    ...methods.map((one) => [`method:${one}`, `method ${one}`]),
    ...layers.map((one) => [`layer:${one}`, `layer ${one}`]),
    ...alike.map(({ name }) => [`model:${name}`, `model ${name}`]),
    ['input', sees ? 'the image with patches covered' : 'another text'],
  ]
  const send = (event) => {
    event.preventDefault()
    type(null)
    change({ with: typed ?? selection.with })
  }
  const another = html`<form class="row" onSubmit=${send}>
    <input type="text" name="with" aria-label="Another text" value=${typed ?? selection.with}
      onInput=${({ target }) => type(target.value)} />
    <button>Compare</button>
  </form>`
  const hint = html`<p class="quiet">Drag over the picture with Shift to cover patches; c covers the marked one.</p>`
  return html`
    <${Select} words="Compare with" id="compare" values=${choices} chosen=${selection.compare}
      choose=${(value) => change({ compare: value, with: '', covered: '' })} />
    ${selection.compare === 'input' && (sees ? !selection.covered && hint : another)}`
}
