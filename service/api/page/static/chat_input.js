import { TextInput } from './inputs.js'
import { html, useEffect, useState } from './preact.js'

const ROLES = ['system', 'user', 'assistant']
const BEGIN = [{ role: 'user', content: '' }]

/** A text, or the turns of a chat, for a model that takes both. */
export function ChatInput({ input, take, ...rest }) {
  const [turns, setTurns] = useState(input?.messages ?? null) // null for a text
  useEffect(() => setTurns(input?.messages ?? null), [JSON.stringify(input?.messages), input?.text])
  const given = turns ? null : input
  return html`
    <label class="box"><input type="checkbox" id="as-chat" checked=${Boolean(turns)}
      onChange=${({ target }) => setTurns(target.checked ? BEGIN : null)} /> as a chat</label>
    ${turns ? html`<${Turns} turns=${turns} set=${setTurns} take=${take} />`
      : html`<${TextInput} ...${rest} input=${given?.messages ? null : given} take=${take} />`}`
}

/** The turns of a chat, of which the last is the user's; the model answers it. */
function Turns({ turns, set, take }) {
  const send = (event) => {
    event.preventDefault()
    take({ chat: JSON.stringify(turns) })
  }
  const change = (at, part) => set(turns.map((turn, place) => (place === at ? { ...turn, ...part } : turn)))
  const next = turns.at(-1)?.role === 'user' ? 'assistant' : 'user'
  const option = (role, own) => html`<option value=${role} selected=${role === own}>${role}</option>`
  const one = ({ role, content }, at) => html`<div class="row" key=${at} role="group" aria-label=${`Turn ${at + 1}`}>
    <select aria-label=${`Role of turn ${at + 1}`} name=${`role-${at}`}
      onChange=${({ target }) => change(at, { role: target.value })}>${ROLES.map((name) => option(name, role))}</select>
    <textarea aria-label=${`Text of turn ${at + 1}`} name=${`turn-${at}`} required rows="2" dir="auto"
      spellcheck=${false} autocomplete="off" value=${content}
      onInput=${({ target }) => change(at, { content: target.value })}></textarea>
    <button type="button" aria-label=${`Remove turn ${at + 1}`} disabled=${turns.length === 1}
      onClick=${() => set(turns.filter((_, place) => place !== at))}>×</button>
  </div>`
  return html`
    <form id="turns" onSubmit=${send}>
      ${turns.map(one)}
      <div class="row">
        <button id="ask">Ask</button>
        <button type="button" id="add-turn" onClick=${() => set([...turns, { role: next, content: '' }])}>Add a turn
        </button>
      </div>
    </form>`
}
