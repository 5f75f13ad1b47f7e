import { HeadGrid } from './heads.js'
import { html } from './preact.js'
import { Select } from './select.js'
import { percent } from './values.js'
import { ORDERS, TERMS } from './words.js'

/**
 * Every head of every layer, small, in an order that is chosen. `maps` are of one `kind`; they may not be there yet.
 * `query` is the row that an image is seen from. What it contains stands above the thumbnails, and what is `below`
 * below. Heads that are sinks are `out` where rollout leaves them out. Of a text, `special` says which columns are
 * special tokens.
 */
export function EveryHead({
  maps, figures, kind, query, selection, change, chosen, choose, children, below, out = false, special,
}) {
  const has = ([name]) => name === 'index' || name === 'entropy' || figures?.[name]
  const orders = Object.entries(ORDERS).filter(has)
  const order = orders.some(([name]) => name === selection.order) ? selection.order : 'index'
  return html`
    <h2>Every head</h2>
    <p class="quiet" data-term=${TERMS.heads}>The raw attention of each. A click shows one large.</p>
    <${Select} words="Order" id="order" term=${TERMS.order} values=${orders} chosen=${order}
      choose=${(one) => change({ order: one })} />
    ${figures?.sinks?.map(({ layer, head, share }) => html`<p class="quiet" key=${`${layer} ${head}`}>
      Layer ${layer}, head ${head} looks at one patch from everywhere
      (${percent(share)})${out ? '; it is left out' : ''}.
    </p>`)}
    ${children}
    ${maps?.[0].queries === 0 && html`<p class="quiet">Nothing is found, and so there are no rows.</p>`}
    ${maps?.[0].queries > 0 && html`<${HeadGrid}
      maps=${maps}
      order=${order}
      figures=${figures}
      chosen=${chosen}
      onChoose=${choose}
      grid=${kind.key === 'image' ? kind.grid : null}
      prefix=${kind.prefix}
      query=${query}
      special=${special}
      colormap=${selection.colormap}
      own />`}
    ${below}`
}
