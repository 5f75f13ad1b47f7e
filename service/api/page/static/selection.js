import { GENERATION } from './generation.js'
import { taskOf } from './tasks.js'
import { range } from './values.js'
import { EXPLAINS, PICTURE, STATES } from './words.js'

const MOST_FRAMES = 256 // of a sound that looks at itself: it has thousands, which are asked for in blocks
const MOST_EXACT = 700 // patches: the likeness of more to one another is asked for in bytes
const DEPTH = 2 / 3 // of the layers, after which states are compared, unless another is chosen

/** What is looked at, and how. What the page's address does not name has these values. */
export const DEFAULTS = {
  model: '', example: '', text: '', pair: '', chat: '', id: '', // the question
  other: '', than: '', // what it is compared with: the second image, and the third image or text
  kind: '', method: '', layer: '', heads: 'mean', row: '', target: '', align: 'emit', merge: '', // the look
  first: '', sinks: '', discard: '', // of rollout
  object: '', threshold: '', // what is pinned of several answers, and the probability from which an object is found
  labels: '', template: '', multi: '', apart: '', // labels to choose among, and whether one is explained against others
  aggregate: '', // how tokens become entities
  view: '', order: 'index', own: '', special: '', keep: '1', only: '', log: '', zoom: '1', // how it is drawn
  colormap: 'viridis', opacity: '0.8', smooth: '1', grey: '1', full: '',
  compare: '', with: '', covered: '', // with another method, layer, model or input
  max_new_tokens: '', num_beams: '', temperature: '', top_k: '', top_p: '', seed: '', alternatives: '3',
  source_language: '', target_language: '',
}

/** What a selection has in place of an answer's id, while there is none of the picture that was drawn last. */
export const DRAWN = 'drawn'

/** The same, of whatever picture was given last. */
export const PENDING = ['new', DRAWN]

/** Return a part of a selection that begins another question: what is true of one is not of the next. */
export const aboutAnother = (part) => ({
  example: '', text: '', pair: '', chat: '', id: '', row: '', target: '', object: '', only: '',
  compare: '', with: '', covered: '', ...part,
})

/** Return a part of a selection that begins to ask another model, about an input that it reads, too (`kept`). */
export const aboutModel = (model, kept = {}) => ({
  ...aboutAnother({
    ...kept, model, other: '', than: '', kind: '', layer: '', first: '', sinks: '', discard: '', heads: 'mean',
    method: '', threshold: '', labels: '', template: '', multi: '', apart: '', aggregate: '',
  }),
  ...Object.fromEntries(GENERATION.map((name) => [name, ''])),
})

/** Return a selection without what its model does not have: an address may be anybody's, or of another version. */
export function within(model, selection) {
  const kind = kindOf(model, selection)
  const { rows = 0, columns = 0 } = kind.grid ?? {}
  const cells = rows * columns
  const listed = Array.isArray(model.labels)
  const count = (listed ? model.labels.length : model.labels) || Infinity // of a model without classes: positions
  const targets = selection.target.split(',').filter((one) =>
    (/^\d+$/.test(one) ? Number(one) < count : !listed || model.labels.includes(one)))
  return {
    ...selection,
    row: cells && kind.query === 'image' && Number(selection.row) >= cells ? '' : selection.row,
    heads: headsOf(selection).every((head) => head < kind.heads) ? selection.heads : 'mean',
    target: targets.join(),
    covered: cells ? coveredOf(selection).filter((cell) => cell < cells).join() : selection.covered,
  }
}

const SAID = { image: 'width', sound: 'rate', graph: 'node_types' } // what is said of inputs of each sort

/** Return the sort of a model's inputs: image, sound, graph or text. */
export const sortOf = ({ inputs }) => Object.keys(SAID).find((sort) => inputs[SAID[sort]]) ?? 'text'

/** Return whether another model reads what a model reads: inputs of its sort, and nodes of its types. */
const readsAlike = (model, other) => sortOf(model) === sortOf(other)
  && String(model.inputs.node_types) === String(other.inputs.node_types)

/** Return whether a text of a kind looks at itself, and so at the second one of a pair. */
export const looksAtItsText = ({ query, key }) => query === 'source' && key === 'source'

/** Return whether what a kind looks at are tokens of a text, which may be words. */
export const hasWords = ({ key }) => !['image', 'object', 'node'].includes(key)

/** Return whether an answer is of a longer sound than its model hears at once: no attention is of such a one. */
export const isLong = ({ inputs }, answer) => answer?.results?.[0].duration > inputs.seconds

/** Return the row that is pinned, null without one. */
export const pinnedOf = ({ row }) => (row === '' ? null : Number(row))

/** Return a row to pin, null for none, as a selection holds it. */
export const rowNamed = (row) => (row === null ? '' : String(row))

/** Return whether rows of a kind are objects that a detector looks for. */
export const hasObjects = ({ query, suffix }) => query === 'object' || suffix > 0

/** Return the patches that are covered. */
export const coveredOf = ({ covered }) => (covered ? covered.split(',').map(Number) : [])

/** Return the heads that are chosen by number; none where they are fused. */
export const headsOf = ({ heads }) => heads.split(',').map(Number).filter((head) => !Number.isNaN(head))

/** Return the kinds of attention of a model that the page shows; what the answer looks at comes first. */
export const kindsOf = (model) => Object.keys(model.attention.kinds).reverse()

/**
 * Return the kind that is chosen, with its name. What looks at itself in a grid is an image: a later stage names its
 * axes after itself.
 */
export function kindOf(model, selection) {
  const names = kindsOf(model)
  const name = names.includes(selection.kind) ? selection.kind
    : names.find((one) => model.attention.kinds[one].key === 'image' || one === 'cross') ?? names[0]
  const kind = { name, ...model.attention.kinds[name] }
  return kind.grid && kind.query === kind.key ? { ...kind, query: 'image', key: 'image' } : kind
}

/** Return the number of the example that is the second picture; null where it is another. */
export const secondOf = (model, other) =>
  (/^\d{1,3}$/.test(other) && model?.examples?.[Number(other)] ? Number(other) : null)

/** Return whether labels of one's own stand for what an embedding is compared with. */
export const hasLabels = (model, { labels }) => Boolean(taskOf(model).chooses && labels)

/** Return the methods of a kind. An embedding is explained by another input only. */
export function methodsOf(model, kind, selection) {
  const { pair, other } = selection
  if (!taskOf(model).compares || hasLabels(model, selection) || (model.inputs.width ? other : pair)) return kind.methods
  return kind.methods.filter((one) => !EXPLAINS.includes(one))
}

/**
 * Return the method that is chosen: else the one that measured best on this model, else the usual one. Of objects it is
 * the weights, which are there for all of them at once; and of a sound, where gradients take long.
 */
export function methodOf(model, kind, selection) {
  const methods = methodsOf(model, kind, selection)
  const { best, usual } = model.attention
  const first = hasObjects(kind) || sortOf(model) === 'sound' ? 'raw' : best?.method
  const told = hasLabels(model, selection) ? 'libra' : '' // others know of no label
  const wanted = [selection.method, first, told, usual.method, 'rollout', 'raw']
  return wanted.find((one) => methods.includes(one)) ?? methods[0]
}

/** Return whether a patch of a kind can be a sink: all tokens of an image see all patches. */
export const hasSinks = ({ grid, query, key, windows }) =>
  Boolean(grid) && query === 'image' && key === 'image' && !windows.length

/** Return how rollout is computed: as it is chosen, else as is usual of this model: {sinks, discard}. */
export function rolloutOf(model, kind, { sinks, discard }) {
  const { usual } = model.attention
  const own = usual.method === 'rollout' ? usual : {}
  return {
    sinks: hasSinks(kind) ? sinks || own.sinks || 'keep' : 'keep',
    discard: kind.windows.length ? 0 : Number(discard || own.discard || 0),
  }
}

/** Return the first layer that is followed. */
export const firstLayerOf = (kind, selection) => Math.min(Number(selection.first), layerOf(kind, selection))

/** Return whether a method follows the layers up to one, and whether a layer can be chosen for it. */
export function layersOf(model, method) {
  const through = method === 'rollout' || method === 'relevance'
  const fixed = method === PICTURE || (EXPLAINS.includes(method) && (!through || 'cross' in model.attention.kinds))
  return { through, fixed }
}

/** Return how many layers a method has: states are of blocks, which may have several attentions. */
export const layersIn = (kind, method) => (STATES.includes(method) ? kind.blocks : kind.layers)

/** Return the layer that is chosen; if none is, the last one, or that after which the service compares states. */
export function layerOf(kind, { layer, method }) {
  const count = layersIn(kind, method)
  const usual = STATES.includes(method) ? Math.max(Math.round(DEPTH * count) - 1, 0) : count - 1
  return layer === '' ? usual : Math.min(Number(layer), count - 1)
}

/** Return whether a method carries a later stage to the patches of the first: its rows are then no patches. */
export const carriedOf = (model, kind, method) => method === 'rollout' && Boolean(kind.grid)
  && Object.values(model.attention.kinds).some(({ grid }) => grid?.rows > kind.grid.rows)

/** Return whether two kinds see an image in the same grid, or neither sees one. */
const sameGrid = (one, other) => one.grid?.rows === other.grid?.rows && one.grid?.columns === other.grid?.columns

/** Return a part of a selection that chooses another kind. Patches are covered by their number in a grid. */
export function aboutKind(model, selection, name) {
  const [old, kind] = [kindOf(model, selection), kindOf(model, { ...selection, kind: name })]
  const uncovered = sameGrid(old, kind) ? {} : { covered: '', compare: '', with: '' }
  return { kind: name, layer: '', first: '', heads: 'mean', row: '', method: '', ...uncovered }
}

/** Return a selection as another model can be asked by it: without a patch, heads or a class that it does not have. */
export function askedOf(model, other, selection) {
  const [here, there] = [kindOf(model, selection), kindOf(other, selection)]
  const classes = Array.isArray(other.labels) ? other.labels.length : other.labels
  return {
    ...selection,
    row: sameGrid(here, there) ? selection.row : '',
    heads: headsOf(selection).every((head) => head < there.heads) ? selection.heads : 'mean',
    target: selection.target.split(',').every((one) => Number(one) < classes) ? selection.target : '',
  }
}

/**
 * Return what a look can be compared with, as [value, words]. Of an `input` that only the service has no other model
 * can be asked, and nothing can be covered in a picture that the page does not have.
 */
export function comparisonsOf(models, model, selection, input) {
  const kind = kindOf(model, selection)
  const method = methodOf(model, kind, selection)
  const others = (values, own) => values.filter((one) => one !== own)
  const sort = sortOf(model)
  if (STATES.includes(method) || sort === 'sound') return [['', 'nothing']] // states compare by themselves
  const methods = others(methodsOf(model, kind, selection), method).filter((one) => !STATES.includes(one))
  const layers = layersOf(model, method).fixed ? [] : others(range(kind.layers), layerOf(kind, selection))
  const byId = EXPLAINS.includes(method) && Boolean(selection.against) // which another model does not know
  const asks = input?.kind !== 'kept' && !byId
  const alike = models.filter((one) => asks && one.name !== model.name && readsAlike(one, model))
  const image = (!input || input.bitmap) && 'the image with patches covered'
  const another = { image, text: !input?.messages && 'another text' }[sort]
  return [
    ['', 'nothing'],
    ...methods.map((one) => [`method:${one}`, `method ${one}`]),
    ...layers.map((one) => [`layer:${one}`, `layer ${one}`]),
    ...alike.map(({ name }) => [`model:${name}`, `model ${name}`]),
    ...(another ? [['input', another]] : []),
  ]
}

/** Return what the look is compared with; nothing, if that is not among what it can be compared with. */
export function compareOf(models, model, selection, input) {
  const values = model ? comparisonsOf(models, model, selection, input).map(([value]) => value) : []
  return values.includes(selection.compare) ? selection.compare : ''
}

/** Return a selection with the second text of the item of an answer that is shown, and its rival where it has one. */
export const ofShown = (selection, answer) =>
  ({ ...selection, pair: answer?.input.pair ?? selection.pair, rival: answer?.input.rival })

/** Return the options of attention that show what is selected. */
export function optionsOf(model, selection) {
  const kind = kindOf(model, selection)
  const method = methodOf(model, kind, selection)
  const explains = EXPLAINS.includes(method)
  const image = kind.key === 'image'
  const speaks = image && kind.query !== 'image'
  const { through, fixed } = layersOf(model, method)
  const task = taskOf(model)
  const options = { attention: method, kind: kind.name }
  const last = layerOf(kind, selection)
  if (!fixed) options.layers = through ? `${firstLayerOf(kind, selection)}:${last + 1}` : last
  if (method === 'raw') options.heads = image ? selection.heads : 'all' // heads of a text are fused in the page
  if (method === 'rollout') {
    const { sinks, discard } = rolloutOf(model, kind, selection)
    if (sinks === 'out') options.sinks = sinks
    if (discard) options.discard = discard
    if (['max', 'min'].includes(selection.heads)) options.heads = selection.heads
  }
  if (kind.query === 'frame') options.pool = MOST_FRAMES
  const patch = image && !speaks && selection.row !== '' && !carriedOf(model, kind, method)
  if (method === PICTURE) return options
  if (STATES.includes(method)) return { ...options, ...ofStates(model, kind, method, selection) }
  if (!explains) {
    if (patch) options.queries = kind.prefix + pinnedOf(selection)
    else if (hasObjects(kind)) Object.assign(options, task.options(model, selection)) // the rows of what is found
    else if (!image || speaks) options.queries = 'all'
    if (kind.name === 'cross' && kind.query === 'target') options.align = selection.align
  }
  if (explains) Object.assign(options, task.explained(model, selection, method))
  if (selection.merge && hasWords(kind)) options.merge = selection.merge === '1' ? 'words' : 'sentences'
  return options
}

/** Return the options of a method that compares states: of every part, and with another input where there is one. */
function ofStates(model, kind, method, { pair, against }) {
  const other = model.inputs.width ? against && { id: against } : taskOf(model).compares && pair && { text: pair }
  const cells = (kind.grid?.rows ?? 0) * (kind.grid?.columns ?? 0)
  const all = method === 'similar' && { queries: 'all', ...(cells > MOST_EXACT && { dtype: 'uint8' }) }
  return { ...all, ...(other && { against: other }) }
}

/** Return the options that show every head of every layer, small. */
export function headOptionsOf(model, selection) {
  const kind = kindOf(model, selection)
  const options = { attention: 'raw', kind: kind.name, layers: 'all', heads: 'all', diagnostics: true }
  const patches = kind.key === 'image' && kind.query === 'image'
  if (patches && selection.row !== '' && !EXPLAINS.includes(methodOf(model, kind, selection))) {
    options.queries = kind.prefix + pinnedOf(selection)
  } else if (hasObjects(kind)) Object.assign(options, taskOf(model).options(model, selection))
  else if (!patches) options.queries = 'all'
  if (kind.key !== 'image') options.pool = 48
  return options
}
