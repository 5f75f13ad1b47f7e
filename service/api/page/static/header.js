import { useLater } from './lazy.js'
import { html, useState } from './preact.js'
import { Select } from './select.js'

/** The page's head: its name, the model that is asked, and what is shared or kept of what is seen. */
export function Header({ models, model, choose, missing, ...seen }) {
  const [open, setOpen] = useState(false)
  const { Share, wrong } = useLater(open)
  const names = models?.map(({ name, state }) => [name, state === 'ready' ? name : `${name} (${state})`])
  return html`<header>
    <h1>regard</h1>
    ${models && html`<${Select} words="Model" id="model" values=${names} chosen=${model.name} choose=${choose} />`}
    ${model && html`<small>${detailsOf(model)}</small>`}
    <nav>
      <small role="status">${missing && `This service has no model “${missing}”.`}</small>
      ${model && html`<button type="button" class="plain" id="share" aria-expanded=${String(open)}
        onClick=${() => setOpen(!open)}>Share</button>`}
      <a href="docs">API</a>
    </nav>
    ${open && wrong && html`<p class="problem">${wrong}</p>`}
    ${open && Share && html`<${Share} model=${model} ...${seen} />`}
  </header>`
}

const detailsOf = ({ version, family, precision, provider }) =>
  [version, family, precision, provider.replace('ExecutionProvider', '')].join(' · ')
