import { COLORMAP_NAMES } from './colours.js'
import { html } from './preact.js'
import { Select } from './select.js'

/**
 * How it is drawn: colours, threshold, what is left out. Nothing of it but the words is asked of the service, where
 * there is one (`asks`).
 */
export function DrawControls({ selection, change, text, pairs, asks = false }) {
  const box = (name, words, also, key = name, value = '1') => html`<label class="box">
    <input type="checkbox" name=${name} checked=${selection[key] === value}
      onChange=${({ target }) => change({ [key]: target.checked ? value : '', ...also })} />
    ${words}
  </label>`
  const slider = (name, words, min) => html`<label>
    ${words}
    <input type="range" name=${name} id=${name} min=${min} max="1" step="0.01" value=${selection[name]}
      onInput=${({ target }) => change({ [name]: target.value })} />
  </label>`
  return html`<details class="drawing">
    <summary>How it is drawn</summary>
    ${slider('keep', `Only the largest: ${Math.round(100 * selection.keep)} % of the mass`, 0.05)}
    ${!text && slider('opacity', 'Opacity', 0)}
    <${Select} words="Colours" name="colormap" values=${COLORMAP_NAMES.map((name) => [name, name])}
      chosen=${selection.colormap} choose=${(colormap) => change({ colormap })} />
    ${!text && box('smooth', 'smooth between patches')}
    ${!text && box('grey', 'grey ground')}
    ${!text && box('full', 'colours to the largest value')}
    ${text && asks && box('merge', 'words instead of tokens', { row: '' })}
    ${text && asks && box('sentences', 'sentences instead of tokens', { row: '' }, 'merge', 'sentences')}
    ${text && box('special', 'hide special tokens')}
    ${text && pairs && box('only', 'from the first text to the second alone')}
    ${box('own', 'each map on its own scale')}
  </details>`
}
