import { attentionOf } from './question.js'
import { headOptionsOf } from './selection.js'
import { queryOf, send } from './service.js'

const POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
const SCRIPT = 'page/joined-inline.js'
const STYLES = ['page/style.css', 'page/views.css', 'page/inline.css']
const DRAWN = [
  'heads', 'row', 'object', 'view', 'colormap', 'opacity', 'smooth', 'grey', 'full', 'own', 'special', 'keep', 'log',
  'zoom',
]
const REVOKED = 10000 // milliseconds after which the browser has begun to save a file

/** Save a file under a name, as a click on a link does. */
export function saveFile(blob, download) {
  const href = URL.createObjectURL(blob)
  Object.assign(document.createElement('a'), { href, download }).click()
  setTimeout(() => URL.revokeObjectURL(href), REVOKED)
}

/** Return a file as a data URL, as a promise. */
const asAddress = (blob) => new Promise((done, fail) => {
  const reader = Object.assign(new FileReader(), { onload: () => done(reader.result), onerror: fail })
  reader.readAsDataURL(blob)
})

/** Return what one look shows, as the page of a notebook takes it: plain JSON, with the picture or text. */
export async function seenOf({ look: { attention, answer, model }, selection, name }) {
  const { input, results } = answer
  const { embedding, ...result } = results?.[0] ?? {}
  const options = { ...headOptionsOf(model, selection), encoding: 'base64' }
  const heads = await attentionOf(answer.id, queryOf(options)).catch(() => null) // without them the rest is shown
  return {
    name, model: model.name, task: model.task, about: model.about, result, attention, heads,
    picture: input.kind === 'image' ? await asAddress(input.blob) : null,
    text: input.text ? [input.text, input.pair].filter(Boolean).join(' / ') : null,
    messages: input.messages ?? null, mask: model.inputs.mask, edge_types: model.inputs.edge_types,
    drawn: Object.fromEntries(DRAWN.map((one) => [one, selection[one]])),
  }
}

const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

/** Return one HTML file that shows some looks, and needs neither the service nor a network; as a promise. */
export async function htmlOf(looks) {
  const read = async (path) => (await send(path)).text()
  const [script, ...styles] = await Promise.all([SCRIPT, ...STYLES].map(read))
  const seen = JSON.stringify({ looks }).replaceAll('<', '\\u003c')
  return new Blob([
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
    `<meta http-equiv="Content-Security-Policy" content="${POLICY}">\n`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
    `<title>${escaped(looks.map(({ name }) => name).join(', '))}</title>\n<style>\n${styles.join('')}</style>\n`,
    `</head>\n<body>\n<div id="app"></div>\n<script type="application/json" id="seen">${seen}</script>\n`,
    `<script>\n${script}</script>\n</body>\n</html>\n`,
  ], { type: 'text/html' })
}
