import { html } from './preact.js'

/** One of several in a list. `values` are [value, words]; `words` stand before it. */
export function Select({ words, id, name, values, chosen, choose }) {
  const option = ([value, shown]) => html`<option key=${value} value=${value}>${shown}</option>`
  return html`<label>${words} <select
    id=${id} name=${name} value=${chosen} onChange=${({ target }) => choose(target.value)}>
    ${values.map(option)}
  </select></label>`
}
