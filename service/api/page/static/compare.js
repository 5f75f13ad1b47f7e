import { html, useState } from './preact.js'
import { Select } from './select.js'
import { compareOf, comparisonsOf } from './selection.js'

/** Chooses what stands beside the look: another method, layer, model or input. */
export function Compare({ models, model, selection, change, input }) {
  const [typed, type] = useState(null) // until it is sent: the page is drawn again while somebody types
  const sees = Boolean(model.inputs.width)
  const chosen = compareOf(models, model, selection, input)
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
    <${Select} words="Compare with" id="compare" chosen=${chosen}
      values=${comparisonsOf(models, model, selection, input)}
      choose=${(value) => change({ compare: value, with: '', covered: '' })} />
    ${chosen === 'input' && (sees ? !selection.covered && hint : another)}`
}
