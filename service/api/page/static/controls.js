import { COLORMAP_NAMES } from './colours.js'
import { html } from './preact.js'
import { kindOf, kindsOf, layerOf, layersOf, methodOf, methodsOf } from './selection.js'
import { short } from './values.js'
import { EXPLAINS, KINDS, METHODS } from './words.js'

/** One of several, as buttons that arrow keys move over. `values` are [value, words] or words. */
export function Choice({ legend, name, values, chosen, choose, many = false }) {
  const pairs = values.map((value) => [value, value].flat().slice(-2).map(String))
  if (pairs.length < 2) return null
  const marked = String(chosen).split(',')
  const pick = (value) => choose(!many ? value : marked.includes(value) ? marked.filter((one) => one !== value).join() : [...marked, value].filter(Boolean).join())
  return html`<fieldset class="choices" id=${name}><legend>${legend}</legend>${pairs.map(([value, words]) => html`
    <label class="choice" key=${value}><input type=${many ? 'checkbox' : 'radio'} name=${name} value=${value}
      checked=${marked.includes(value)} onChange=${() => pick(value)} /><span>${words}</span></label>`)}</fieldset>`
}

/** What is shown of the attention: kind, method, layer, heads, what is explained. */
export function LookControls({ model, selection, change, labels }) {
  const kind = kindOf(model, selection)
  const method = methodOf(model, kind, selection)
  const explains = EXPLAINS.includes(method)
  const { through, fixed } = layersOf(model, method)
  const layer = layerOf(kind, selection)
  const best = model.attention.best
  const named = methodsOf(model, kind, selection.pair).map((one) => [one, best?.method === one ? `${one} ★` : one])
  const heads = kind.heads > 1 ? [...Array(kind.heads).keys()].map((head) => [head, `${head}`]) : []
  return html`
    <${Choice} legend="What looks at what" name="kind" chosen=${kind.name} values=${kindsOf(model).map((one) => [one, KINDS[one].name])}
      choose=${(value) => change({ kind: value, layer: '', heads: 'mean', row: '', method: '' })} />
    <${Choice} legend="Method" name="method" values=${named} chosen=${method} choose=${(value) => change({ method: value })} />
    <p class="meaning">${METHODS[method]} ${method === best?.method && html`<${Why} best=${best} />`}</p>
    ${!fixed && kind.layers > 1 && html`<label class="layer">${through ? `Layers 0 to ${layer}` : `Layer ${layer} of 0 to ${kind.layers - 1}`}
      <input type="range" name="layer" id="layer" min="0" max=${kind.layers - 1} value=${layer}
        onInput=${({ target }) => change({ layer: target.value })} /></label>`}
    ${method === 'raw' && kind.heads > 1 && html`<${Heads} heads=${heads} chosen=${selection.heads} change=${change} />`}
    ${method === 'rollout' && kind.heads > 1 && html`<${Choice} legend="Heads" name="heads" values=${['mean', 'max', 'min']}
      chosen=${['max', 'min'].includes(selection.heads) ? selection.heads : 'mean'} choose=${(value) => change({ heads: value })} />`}
    ${explains && labels?.length > 1 && html`<${Choice} many legend="What speaks for" name="target"
      values=${labels.map(({ index, label }) => [index, label])}
      chosen=${selection.target || String(labels[0].index)} choose=${(value) => change({ target: value })} />`}
    ${!explains && kind.name === 'cross' && kind.key !== 'image' && html`<${Choice} legend="A token’s row" name="align"
      values=${[['emit', 'where it came out'], ['input', 'where it went in']]} chosen=${selection.align}
      choose=${(value) => change({ align: value })} />`}`
}

/** Why a method is recommended. */
function Why({ best: { method, measure, values } }) {
  const others = Object.entries(values).filter(([name]) => name !== method).map(([name, value]) => `${name} ${short(value)}`)
  return html`★ It measured best on this model (${measure}): ${[short(values[method]), ...others].join(', ')}.`
}

/** Heads: fused, or some of them; a double click leaves one alone. */
function Heads({ heads, chosen, change }) {
  const alone = ({ target }) => {
    const value = target.closest('label')?.querySelector('input').value
    if (value !== undefined && !Number.isNaN(Number(value))) change({ heads: value })
  }
  const fused = Number.isNaN(Number(chosen.split(',')[0]))
  const pick = (value) => {
    const last = value.split(',').at(-1)
    if (!value) return change({ heads: 'mean' })
    if (Number.isNaN(Number(last))) return change({ heads: last })
    change({ heads: value.split(',').filter((one) => !Number.isNaN(Number(one))).join() })
  }
  return html`<div onDblClick=${alone}><${Choice} many legend=${fused ? 'Heads' : 'Heads (a double click: one alone)'} name="heads"
    values=${['mean', 'max', 'min', ...heads]} chosen=${chosen} choose=${pick} /></div>`
}

/** How it is drawn: colours, threshold, what is left out. Nothing of it is asked of the service. */
export function DrawControls({ selection, change, text, pairs }) {
  const box = (name, words) => html`<label class="box"><input type="checkbox" name=${name} checked=${Boolean(selection[name])}
    onChange=${({ target }) => change({ [name]: target.checked ? '1' : '' })} /> ${words}</label>`
  const slider = (name, words, min) => html`<label>${words}
    <input type="range" name=${name} id=${name} min=${min} max="1" step="0.01" value=${selection[name]}
      onInput=${({ target }) => change({ [name]: target.value })} /></label>`
  return html`<details class="drawing"><summary>How it is drawn</summary>
    ${slider('keep', `Only the largest: ${Math.round(100 * selection.keep)} % of the mass`, 0.05)}
    ${!text && slider('opacity', 'Opacity', 0)}
    <label>Colours <select name="colormap" value=${selection.colormap} onChange=${({ target }) => change({ colormap: target.value })}>
      ${COLORMAP_NAMES.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
    ${!text && box('smooth', 'smooth between patches')}
    ${text && box('merge', 'words instead of tokens')}
    ${text && box('special', 'hide special tokens')}
    ${text && pairs && box('only', 'from the first text to the second alone')}
    ${box('own', 'each map on its own scale')}
  </details>`
}
