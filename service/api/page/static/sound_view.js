import { brushOf, painted, useDrawing } from './canvas.js'
import { opaque, translucent } from './colours.js'
import { hearFrom, useHeard } from './hearing.js'
import { html, useMemo, useRef } from './preact.js'
import { pinnedOf } from './selection.js'
import { spectrogramOf } from './spectrogram.js'
import { rowsOf, spanOf, wordAt } from './transcript.js'
import { labelOf, lengthOf, range, scaleOf } from './values.js'

/** Return the mean of some rows of a map over frames. */
function meanOf({ columns, series: [{ values }] }, rows) {
  const count = columns.length
  const sum = (at) => rows.reduce((total, row) => total + values[row * count + at], 0)
  return Float32Array.from(range(count), (at) => sum(at) / rows.length)
}

/** Return the rows of what is seen, and what it is called: a token that is pinned, else a word. */
function seenRow(look, words, selection, word) {
  const row = pinnedOf(selection)
  if (row !== null && row < look.rows.length) return { rows: [row], name: labelOf(look.rows[row]) }
  const rows = word === null ? [] : rowsOf(words, look.rows)[word]
  return { rows, name: words[word]?.word }
}

/**
 * The spectrogram of a sound, and over it the heat of what a word looked at: of the word that is heard, else of the one
 * that is marked, else of the first. `step` is the seconds of a frame, `most` those that the model hears at once. A
 * click plays the sound from there.
 */
export function SoundView({ sound, result, look, selection, step, most }) {
  const { words = [], duration = (sound.samples?.length ?? 0) / sound.rate } = result // none of what is not written
  const heard = useHeard()
  const pinned = selection.object === '' ? null : Number(selection.object)
  const word = wordAt(words, heard) ?? (pinned < words.length ? pinned : null) ?? (words.length ? 0 : null)
  const spectrum = useMemo(() => sound.samples && spectrogramOf(sound.samples), [sound])
  const { rows, name } = look ? seenRow(look, words, selection, word) : { rows: [] }
  const heat = useMemo(() => (rows.length ? meanOf(look, rows) : null), [look, rows.join()])
  const [ground, over] = [useRef(), useRef()]
  const { colormap, opacity, full } = selection
  useDrawing(() => {
    if (!spectrum) return
    const { values, rows: high, columns, low, top } = spectrum
    brushOf(ground.current, columns, high)
      .putImageData(painted(values, high, columns, opaque('gray'), low, top), 0, 0)
  }, [spectrum])
  useDrawing(() => {
    const count = heat?.length || 1
    const brush = brushOf(over.current, count, 1)
    brush.clearRect(0, 0, count, 1)
    if (!heat) return
    const { top } = scaleOf(heat, look.signed, full)
    const table = translucent(colormap, look.signed, Number(opacity))
    brush.putImageData(painted(heat, 1, count, table, 0, top, look.signed), 0, 0)
  }, [heat, colormap, opacity, full])
  const hear = ({ offsetX, currentTarget }) => hearFrom((offsetX / currentTarget.clientWidth) * duration)
  const part = (seconds) => lengthOf(duration ? Math.min(seconds / duration, 1) : 0)
  const marked = words[word]
  const wide = heat && duration ? (heat.length * step) / duration : 1
  const hottest = heat && heat.indexOf(Math.max(...heat)) * step
  return html`<figure id="spectrogram">
    <div class="spectrum" onClick=${hear}>
      <canvas ref=${ground} role="img" aria-label="Spectrogram: time from left to right, high tones above"></canvas>
      <canvas ref=${over} class="heat" style=${{ width: lengthOf(wide) }}
        role="img" aria-label="Heat of what the word looked at, over time"></canvas>
      ${marked && html`<span class="span" style=${{ left: part(marked.start), width: part(marked.end - marked.start) }}>
      </span>`}
      ${heard !== null && html`<span class="heard-at" style=${{ left: part(heard) }}></span>`}
    </div>
    <figcaption class="row"><span>0 s</span><span>${duration.toFixed(1)} s</span></figcaption>
    <output class="readout">${marked ? `“${marked.word}”: heard at ${spanOf(marked)}.` : ''}
      ${heat ? ` “${name}” looks most at ${hottest.toFixed(2)} s.` : ''}
      ${duration > most ? ` Of sounds longer than ${most} s, what the model looked at is not shown.` : ''}</output>
  </figure>`
}
