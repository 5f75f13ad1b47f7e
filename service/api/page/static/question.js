import { blobOf } from './canvas.js'
import { chatOf } from './chat.js'
import { asInput } from './graphs.js'
import { examplePicture, pictureOf } from './image_file.js'
import { requestOf } from './request.js'
import { PENDING, sortOf } from './selection.js'
import { exampleSound, soundOf } from './sound_file.js'
import { ask, BROKEN, listen, Refusal, stored, UNUSABLE } from './service.js'
import { taskOf } from './tasks.js'

const PREFIX = 'regard-picture-'
const MOST_KEPT = 2 ** 21 // characters of a picture that outlives a reload
const MOST_PICTURES = 12
const pictures = new Map() // by the id of their answers, or promises of them

const EXAMPLES = { // what an example of each sort is as an input
  graph: asInput,
  image: examplePicture,
  sound: exampleSound,
  text: (text, { text_pair: pair = '' }) => ({ kind: 'text', text, pair }),
}

/**
 * Return what a selection asks about: a text, a graph, a picture, one that only the service still has, or null; or a
 * promise of it, the same one each time.
 */
export function inputOf(model, { id, text, pair, chat, example }, picture) {
  if (PENDING.includes(id)) return picture
  if (id) return pictures.get(id) ?? restored(id)
  if (chat) return model.inputs.chat ? chatOf(chat) : null
  const { second, needs } = taskOf(model)
  if (text && sortOf(model) === 'graph') return { kind: 'graph', json: text }
  if (text) return needs && !pair.trim() ? null : { kind: 'text', text, pair: second ? pair : '' } // one, or two
  const chosen = example === 'none' ? null : model.examples?.[Number(example || 0)]
  if (!chosen) return null
  const [sort] = Object.keys(EXAMPLES).filter((one) => chosen[one])
  return EXAMPLES[sort](chosen[sort], chosen)
}

/** Return the labels to choose among, one a line: those that are chosen, else those of the example or of the first. */
export const labelsOf = (model, { labels, example }) =>
  labels || (model?.examples?.[Number(example || 0)]?.labels ?? []).join('\n')

/** Keep a picture by the id of its answer while the page is open. */
export function rememberPicture(id, picture) {
  pictures.set(id, picture)
  for (const old of [...pictures.keys()].slice(0, -MOST_PICTURES)) pictures.delete(old)
}

/** Keep a picture by the id of its answer: while the page is open, and for this tab if it is small. */
export function keepPicture(id, picture) {
  rememberPicture(id, picture)
  const reader = new FileReader()
  reader.onload = () => {
    if (reader.result.length > MOST_KEPT) return
    for (const name of Object.keys(stored)) if (name.startsWith(PREFIX)) stored.removeItem(name)
    try {
      stored.setItem(PREFIX + id, JSON.stringify([picture.name, reader.result, picture.drawing]))
    } catch {} // the tab has no room for it: a reload then shows its attention alone
  }
  reader.readAsDataURL(picture.blob)
}

/** Return the picture that this tab kept of an answer, as a promise; without one, only the service has it. */
function restored(id) {
  const [name, data, drawing] = JSON.parse(stored.getItem(PREFIX + id) ?? '[]')
  if (!data) return { kind: 'kept', id }
  const read = data.startsWith('data:audio') ? soundOf : pictureOf
  const promise = read(blobOf(data), name).then((picture) => ({ ...picture, drawing })) // a stroke goes on in it
  pictures.set(id, promise)
  return promise
}

/**
 * Ask a model about an input. A generated text comes token by token: `show`, if it is given, gets what there is of the
 * answer.
 */
export async function question(model, input, selection, signal, show) {
  if (input.kind === 'kept') return { id: input.id, model, input, results: null }
  const task = taskOf(model)
  const options = task.options(model, selection)
  const request = requestOf(model, input, options)
  if (!show || !task.streams || (options.num_beams ?? 1) > 1) {
    const { body, milliseconds, bytes } = await ask(request.path, { ...request.init, signal })
    const results = task.read?.(body, input, options) ?? body.results
    return { id: body.id, model, input, results, request, milliseconds, bytes }
  }
  return streamed(model, input, { ...options, stream: true }, request, signal, show)
}

async function streamed(model, input, options, request, signal, show) {
  const cross = model.attention.kinds.cross
  const steps = cross && { attention: { method: 'raw', kind: 'cross', steps: true, digits: 3 } }
  const { path, init } = requestOf(model, input, { ...options, ...steps })
  const begin = performance.now()
  const tokens = []
  const rows = [] // of cross-attention, as the tokens come
  let last = null
  let bytes = 0
  await listen(path, { ...init, signal }, (name, data) => {
    bytes += JSON.stringify(data).length
    if (name === 'token') {
      const { attention, ...token } = data
      tokens.push(token)
      if (attention) rows.push(attention[0].values[0][0])
      show({ id: null, model, input, streaming: true, rows: [...rows], results: [{ tokens: [...tokens] }] })
    } else if (name === 'done') last = data
    else throw new Refusal(data.status, data.detail)
  })
  if (!last) throw new Refusal(UNUSABLE, BROKEN)
  const results = last.results.map(({ attention, ...result }) => result)
  return { id: last.id, model, input, results, request, milliseconds: performance.now() - begin, bytes }
}

/** Return the attention of an answer by its id: of its first input. */
export async function attentionOf(id, query, signal) {
  const { body } = await ask(`v1/attention/${encodeURIComponent(id)}?${query}`, { signal })
  return body.results[0].attention
}

/** Return the models that are served, as a newcomer wants to see them. */
export const modelsOf = async (signal) => (await ask('v1/models', { signal })).body.models.map((model) =>
  ({ ...model, examples: taskOf(model).examples?.(model.examples) ?? model.examples }))

/** The words for an answer that the service has forgotten. */
export const GONE =
  'The service no longer has this input: it keeps one for some minutes. Ask again with the picture itself.'
