/** Whether fingers point, which hover over nothing and have no keys. */
export const TOUCH = matchMedia('(hover: none)').matches

/** What is said where nothing was asked yet, by the model's state. */
export const NOTHING = {
  ready: 'Ask something.',
  'warming up': 'The model is warming up.',
  failed: 'The model’s runs fail: the service’s log says why. It is tried again every few seconds.',
}

/** What the numbers of each method are. */
export const METHODS = {
  raw: 'How much of each token’s value was mixed in: the attention weights of one layer.',
  rollout: 'The weights followed through the layers (Abnar & Zuidema 2020).',
  norm: 'How long the vectors are that were mixed in (Kobayashi et al. 2020). Sizes, not shares.',
  relevance:
    'The weights times their gradients: what spoke for one class or token (Chefer et al. 2021). No shares either.',
  libra: 'Each token’s share of a score, for (red) or against (blue) it, by balanced gradients (Mehri et al. 2025).',
  integrated: 'Each token’s share of a score, along a path from an empty input (Sundararajan et al. 2017).',
  similar: 'How like each part is to the one that is pointed at: the cosine of their states, less the mean of all.',
  parts: 'What the parts are: the three principal components of their states, as colours (Oquab et al. 2023).',
  saliency: 'What stands out in light, colour and orientation, whatever the model makes of it (Itti et al. 1998).',
}

/** Methods that compare the states of tokens, and explain nothing. */
export const STATES = ['similar', 'parts']

/** The method that is of the picture alone: it has no layers and no rows. */
export const PICTURE = 'saliency'

/** Methods that explain a score. */
export const EXPLAINS = ['relevance', 'libra', 'integrated']

/** Methods that explain why an input is like a second one rather than like a third. */
export const RATHER = ['libra', 'integrated']

const KINDS = { // what looks at what; what the answer looks at comes first
  cross: { name: 'answer → input', rows: 'From the answer (rows) to the text (columns)' },
  decoder: { name: 'answer → itself', rows: 'From the answer (rows) to all that was before (columns)' },
  encoder: { name: 'input → itself', rows: 'From the text (rows) to itself (columns)' },
}
const OBJECTS = { // the same where the answer is objects
  cross: { name: 'objects → input', rows: 'From the objects (rows) to the image (columns)' },
  decoder: { name: 'objects → themselves', rows: 'From objects (rows) to all that are looked for (columns)' },
}

const SOUNDS = { // the same where the input is a sound
  cross: { name: KINDS.cross.name, rows: 'From the answer (rows) to the sound (columns)' },
  encoder: { name: KINDS.encoder.name, rows: 'From the sound (rows) to itself (columns)' },
}

const GRAPHS = { // the same where the input is a graph
  encoder: { name: KINDS.encoder.name, rows: 'From the nodes (rows) to the nodes (columns)' },
}
const OF_INPUT = { frame: SOUNDS, node: GRAPHS }

/** The sorts of attention; what the answer looks at comes first. */
export const SORTS = Object.keys(KINDS)

/** Return what looks at what in a kind of attention: its `name`, and what its `rows` and columns are. */
export function wordsOf({ name, kind: sort = name, query, key }) {
  const words = (query === 'object' && OBJECTS[sort]) || OF_INPUT[key]?.[sort] || KINDS[sort]
  if (!words) return { name, rows: 'From what is asked about (rows) to what is looked at (columns)' }
  return sort === name ? words : { ...words, name: `${words.name}, ${name}` } // of several of a sort
}

/** Orders of the thumbnails. */
export const ORDERS = {
  index: 'layer × head',
  entropy: 'entropy, the most focused first',
  distance: 'distance, the most local first',
  sink: 'share of one patch, the least first',
  special: 'share on special tokens',
}

/** Figures of a head: the words for each. */
export const FIGURES = {
  entropy: 'entropy', distance: 'distance', special: 'on special tokens', sink: 'most on one patch',
}

/** What a term of the page means, in one sentence. */
export const TERMS = {
  kind: 'The answer may look at the input, or each part of the input at the other parts.',
  method: 'How it is computed from the model what it looked at.',
  layer: 'A model is a stack of layers: each looks anew, at what the one before made of the input.',
  heads: 'A layer looks several times at once; each time is a head, and may look for something else.',
  mean: 'All heads added up, each counts alike.',
  max: 'Of each value that of the head that has the largest.',
  min: 'Of each value that of the head that has the smallest.',
  target: 'Which answer the heat speaks for.',
  align: 'A written token has two rows: that of the token before, which chose it, and its own.',
  measure: 'Taking away what is hottest shows whether the answer rests on it.',
  fed: 'What is left of the input after scaling, cutting and splitting: the numbers that the model computes with.',
  inside: 'How a head computes one weight: query times key, softmax, and what it takes of the value.',
  order: 'Heads of low entropy look at one place, those of high entropy everywhere.',
}
