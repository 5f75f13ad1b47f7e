import { html, useState } from './preact.js'
import { Select } from './select.js'

const SAID = 4000 // milliseconds

/** The page's head: its name, the model that is asked, and what copies the address. */
export function Header({ models, model, choose, missing }) {
  const [said, setSaid] = useState('')
  const share = async () => {
    const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false)
    setSaid(copied ? 'The address is copied.' : 'Copy the address of this page: it says all that you see.')
    setTimeout(() => setSaid(''), SAID)
  }
  const names = models?.map(({ name, state }) => [name, state === 'ready' ? name : `${name} (${state})`])
  return html`<header>
    <h1>regard</h1>
    ${models && html`<${Select} words="Model" id="model" values=${names} chosen=${model.name} choose=${choose} />`}
    ${model && html`<small>${detailsOf(model)}</small>`}
    <nav>
      <small role="status">${said || (missing && `This service has no model “${missing}”.`)}</small>
      <button type="button" class="plain" id="share" onClick=${share}>Share</button>
      <a href="docs">API</a>
    </nav>
  </header>`
}

const detailsOf = ({ version, family, precision, provider }) =>
  [version, family, precision, provider.replace('ExecutionProvider', '')].join(' · ')
