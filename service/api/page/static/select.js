import { html } from './preact.js'

/** One of several in a list. `values` are [value, words]; `words` stand before it, and a `term` says what it is of. */
export function Select({ words, id, name, values, chosen, choose, term }) {
  const option = ([value, shown]) => html`<option key=${value} value=${value}>${shown}</option>`
  return html`<label data-term=${term}>${words} <select aria-description=${term}
    id=${id} name=${name} value=${chosen} onChange=${({ target }) => choose(target.value)}>
    ${values.map(option)}
  </select><span data-term=${term}></span></label>`
}
