import { html, useState } from './preact.js'
import { linesOf } from './values.js'

/** The labels among which a model of entailment chooses, the sentence that each is put into, and how. */
export function Labels({ selection, change }) {
  const [typed, type] = useState({}) // until it is sent: the page is drawn again while somebody types
  const { labels, template } = { ...selection, ...typed }
  const send = (event) => {
    event.preventDefault()
    type({})
    change({ labels: linesOf(labels).join('\n'), template: template.trim(), object: '', target: '' })
  }
  const input = (name) => ({ target }) => type({ ...typed, [name]: target.value })
  return html`<form id="labels" onSubmit=${send}>
    <label>Labels to choose among, one a line <textarea name="labels" rows="3" dir="auto" spellcheck=${false}
      autocomplete="off" value=${labels} onInput=${input('labels')}></textarea></label>
    <label>Its sentence, where {} is the label <input type="text" name="template" dir="auto" autocomplete="off"
      placeholder="This example is {}." pattern=".*\\{\\}.*" title="It must hold {}."
      value=${template} onInput=${input('template')} /></label>
    <label class="box"><input type="checkbox" name="multi" checked=${Boolean(selection.multi)}
      onChange=${({ target }) => change({ multi: target.checked ? '1' : '' })} /> each label for itself</label>
    <button>Choose among them</button>
  </form>`
}
