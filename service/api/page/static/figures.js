import { html, useState } from './preact.js'

const [MOST_COLUMNS, MOST_CELLS] = [64, 5000] // of a table that is shown

/** Return a table as lines of fields between tabs, as spreadsheets take it. */
const tabbed = (head, rows) =>
  [head, ...rows].map((row) => row.map((one) => String(one).replaceAll(/[\t\n]/g, ' ')).join('\t')).join('\n')

/**
 * A table of numbers and words, which scrolls where it is long, and is copied as text for a spreadsheet. With `sorts`
 * its columns are sorted by a click on their heads, the first click from the least to the most; a row that is chosen is
 * given to `choose` by its number in `rows`.
 */
export function Figures({ caption, head, rows, sorts = false, choose }) {
  const [order, sort] = useState(null) // {column, down}
  const [said, say] = useState('')
  const places = [...rows.keys()]
  if (order) {
    const sign = order.down ? -1 : 1
    const of = (at) => String(rows[at][order.column])
    const compare = (one, other) => Number(one) - Number(other) || one.localeCompare(other, 'en', { numeric: true })
    places.sort((one, other) => sign * compare(of(one), of(other)))
  }
  const columns = Math.min(head.length, MOST_COLUMNS)
  const shown = places.slice(0, Math.floor(MOST_CELLS / columns))
  const copy = async () => {
    const text = tabbed(head, places.map((at) => rows[at]))
    const copied = await navigator.clipboard?.writeText(text).then(() => true, () => false)
    say(copied ? 'Copied.' : 'The browser gives no clipboard here.')
  }
  const turn = (column) => sort({ column, down: order?.column === column && !order.down })
  const heading = (words, column) => html`<th scope="col"
    aria-sort=${order?.column === column ? (order.down ? 'descending' : 'ascending') : null}>
    ${sorts && words
      ? html`<button type="button" class="plain" onClick=${() => turn(column)}>${words}</button>` : words}
  </th>`
  const cell = (value, at, column) => html`<td>${choose && !column
    ? html`<button type="button" class="plain" onClick=${() => choose(at)}>${value}</button>` : value}</td>`
  return html`
    <div class="figures" tabindex="0" role="region" aria-label=${caption}><table>
      <caption>${caption}</caption>
      <thead><tr>${head.slice(0, columns).map(heading)}</tr></thead>
      <tbody>${shown.map((at) => html`<tr key=${at}>
        ${rows[at].slice(0, columns).map((one, column) => cell(one, at, column))}
      </tr>`)}</tbody>
    </table></div>
    <div class="row"><button type="button" onClick=${copy}>Copy as a table</button><small role="status">${said}</small>
    </div>
    ${(columns < head.length || shown.length < rows.length) && html`<p class="quiet">
      ${shown.length} of ${rows.length} rows and ${columns} of ${head.length} columns are shown; all are copied.</p>`}`
}

/** A table behind a word, made when it is opened: `table()` returns what `Figures` takes. */
export function AsTable({ table }) {
  const [open, setOpen] = useState(false)
  return html`<details class="as-table" open=${open} onToggle=${({ target }) => setOpen(target.open)}>
    <summary>As a table</summary>
    ${open && html`<${Figures} ...${table()} />`}
  </details>`
}
