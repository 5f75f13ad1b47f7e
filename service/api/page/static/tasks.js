import { GenerationOptions, Masks, Vector, Words, Written } from './answer.js'
import { generationOf } from './generation.js'
import { Found, Threshold } from './objects.js'
import { html } from './preact.js'
import { ANSWERS, ENTITIES } from './span_tasks.js'
import { CLASSES, later, rowOf } from './task.js'
import { HEARD } from './transcript.js'
import { cosine, linesOf, percent, short } from './values.js'
import { RATHER } from './words.js'

/** Return the probability from which a detector's object counts as found. */
export const thresholdOf = (model, { threshold }) => (threshold === '' ? model.detection?.threshold : Number(threshold))

/** Return what explains the object that is pinned, where a model has such an object: else the surest is explained. */
const objectOf = (model, { object }) =>
  (object !== '' && Number(object) < model.detection.objects ? { target: Number(object) } : {})

/** Return the number of the mask that is pinned: it is a row of what explains, else a token of the text; or 0. */
function maskOf(model, selection, { explains, rows, masks }) {
  const row = Number(selection.row)
  if (explains) return row < masks ? row : 0
  const within = (some) => some.map(({ text }) => text).join('').split(model.inputs.mask).length - 1
  return within(rows.slice(row, row + 1)) ? within(rows.slice(0, row)) : 0
}

const OBJECTS = {
  ...CLASSES,
  field: 'objects',
  View: Found,
  Options: ({ model, selection, change }) => html`
    <${Threshold} least=${thresholdOf(model, selection)} choose=${(threshold) => change({ threshold })} />`,
  options: (model, { threshold }) => (threshold === '' ? {} : { threshold: Number(threshold) }),
  prints: ['for found in answer.objects:', '    print(found.label, found.box)'],
  explained: objectOf,
  scored: (model, selection, { queries }) =>
    ({ ...objectOf(model, selection), ...(queries !== undefined && { queries }) }),
  named: ({ objects }, { object }) => objects?.find((one) => one.object === object)?.label,
  best: ({ objects = [] }) => ({
    name: objects.map(({ label }) => label).join(', ') || 'nothing',
    share: objects.length ? Math.min(...objects.map(({ probability }) => probability)) : undefined,
  }),
  said: ({ objects = [] }) => (objects.length
    ? `${objects.length} objects: ${objects.map(({ label }) => label).join(', ')}` : 'Nothing found'),
}
/** Return what an embedding is compared with: a second picture by its answer's id, or a second text. */
const againstOf = (model, { pair, against }) => ({ against: model.inputs.width ? { id: against } : { text: pair } })

/** Return what explains a likeness: on both sides, or that to the second rather than to a third. */
function likenessOf(model, selection, method) {
  const { against } = againstOf(model, selection)
  const third = againstOf(model, { pair: selection.than, against: selection.rather }).against
  const rather = RATHER.includes(method) && (third.id || third.text)
  return rather ? { against: [against, third] } : { against, sides: 'both' }
}

/** Return an answer as that of the chosen item, or of the first: by its id, with its second text. */
function shownOf(items, answer, { object }) {
  const { id, pair, rival } = items.find((one) => String(one.object) === object) ?? items[0] ?? {}
  return id ? { ...answer, id, input: { ...answer.input, pair, rival } } : answer
}

/** Return the examples of a text and several others: those of one text together, each other in a line. */
function together(examples) {
  const texts = Map.groupBy(examples.filter((one) => one.text_pair), ({ text }) => text)
  return [...texts].map(([text, some]) => ({ text, text_pair: some.map((one) => one.text_pair).join('\n') }))
}
const VECTOR = { // `compares`: its score is how alike two texts are; `alike` are texts, the one most like it first
  ...CLASSES,
  field: 'embedding',
  View: Vector,
  compares: true,
  lines: true,
  rows: 4,
  examples: (examples) => (examples.some((one) => one.image || !one.text_pair) ? examples : together(examples)),
  asks: (text, others) => ({ inputs: others.trim() ? [text, ...linesOf(others)] : text }),
  read({ results: [result, ...others] }, { pair }) {
    const item = ({ embedding }, object) => {
      const [score, text] = [cosine(result.embedding, embedding), linesOf(pair)[object]]
      return { object, id: result.id, score, part: Math.max(score, 0), text, pair: text }
    }
    return [{ ...result, alike: others.map(item).sort((one, other) => other.score - one.score) }]
  },
  items: ({ alike = [] }) => alike,
  shown: (answer, selection) => shownOf(answer.results[0].alike, answer, selection),
  explained: likenessOf,
  scored: againstOf,
  best: () => null,
  said: ({ embedding, alike: [first] = [] }) => (first ? `Most like it, at ${short(first.score)}: ${first.text}`
    : embedding && `A vector of ${embedding.length} numbers`),
}
const WORDS = {
  ...CLASSES,
  field: 'words',
  View: Words,
  options: () => ({ top_k: MOST_WORDS }),
  prints: ['for one in answer.words:', '    print(one.weight, one.text)'],
  named: ({ words }, { target }) => words?.find(({ token }) => token === target)?.text,
  best: ({ words: [best] = [] }) => best && { name: best.text, score: best.weight },
}
const MOST_WORDS = 20
const MASKS = {
  ...CLASSES,
  field: 'candidates',
  View: Masks,
  scored: (model, selection, { queries, ...seen }) => // the row of the mask is among all
    ({ target: maskOf(model, selection, seen), ...(queries !== undefined && { queries: 'all' }) }),
  named: ({ candidates }, { mask = 0, target }) => {
    const word = candidates?.[mask]?.find(({ token }) => token === target)?.text.trim()
    return candidates?.length > 1 ? `${word ?? ''} (mask ${mask + 1})`.trim() : word
  },
  best: ({ candidates = [] }) => ({
    name: candidates.map(([best]) => best.text.trim()).join(', '),
    share: candidates.length ? Math.min(...candidates.map(([best]) => best.probability)) : undefined,
  }),
}
const WRITTEN = { // `streams`: it comes token by token
  ...CLASSES,
  field: 'tokens',
  View: Written,
  Options: GenerationOptions,
  streams: true,
  options: generationOf,
  scored: (model, selection) => ({ target: rowOf(selection) }),
  named: ({ tokens }, evaluation, selection) => tokens?.[rowOf(selection)]?.text,
  best: ({ text, tokens = [] }) => ({
    name: text,
    share: tokens.length ? Math.min(...tokens.map(({ log_probability: log }) => Math.exp(log))) : undefined,
  }),
  said: ({ text }) => text ?? '',
}
const RANKED = { // several answers about the text, best first, each of the text and a `pair` of its own
  ...CLASSES,
  field: 'ranked',
  View: later('Ranked'),
  items: ({ ranked = [] }) => ranked,
  shown: (answer, selection) => shownOf(answer.results[0].ranked ?? [], answer, selection),
}
const RANKING = { // of a model with one label: the second text are passages, each in a line of its own
  ...RANKED,
  endpoint: 'rerank',
  title: 'Which passages answer the query?',
  first: 'Query',
  second: 'Passages, one a line',
  needs: true,
  lines: true,
  rows: 6,
  row: 'score',
  examples: together,
  asks: (query, passages) => ({ query, texts: linesOf(passages), truncate: true }),
  read({ results }, { pair }) {
    const texts = linesOf(pair)
    const passage = ({ id, index, score }) => ({ object: index, id, score, text: texts[index], pair: texts[index] })
    return [{ ranked: results.map(passage) }]
  },
  named: () => 'the score',
  prints: ['for one in ranked:', '    print(one.score, one.text)'],
  best: ({ ranked: [best] }) => ({ name: best.text, score: best.score }),
  said: ({ ranked }) => `Of ${ranked.length} the best, at ${short(ranked[0].score)}: ${ranked[0].text}`,
}
const PAIRS = {
  ...CLASSES,
  second: 'Second text, for a model of pairs',
  inputs: (text, pair) => ({ text, text_pair: pair }),
}
const TEMPLATE = 'This example is {}.' // the service's own
const WORDING = 'This is a photo of {}.' // the same, of labels of a picture

/** Return what is said of a text or a picture that has a label; nothing without one. */
const sentenceOf = (label, template) => (label === undefined ? '' : template.replace('{}', () => label))

const CHOOSING = { // of a model of entailment: where a selection has labels, each is put into a sentence of its own
  ...PAIRS,
  title: 'Does the second text follow from the first, or which label fits?',
  items: RANKED.items,
  shown: RANKED.shown,
  Options: later('Labels'),
  options: (model, { labels, template, multi }) => (labels
    ? { labels: labels.split('\n'), ...(template && { template }), ...(multi && { multi_label: true }) } : {}),
  asks: (text, pair, { labels }) => labels && { inputs: text },
  read({ id, results: [result] }, input, { labels, template = TEMPLATE }) {
    const choice = ({ index, label, probability }) => ({
      object: index, id: labels.length > 1 ? `${id}.${index}` : id, share: probability, text: label,
      pair: sentenceOf(label, template),
    })
    return [labels ? { ranked: result.labels.map(choice) } : result]
  },
  explained: (model, selection, method) => (selection.labels ? {} : CLASSES.explained(model, selection, method)),
  named: ({ ranked, labels }, { target }, { object }) => (ranked
    ? (ranked.find((one) => String(one.object) === object) ?? ranked[0]).text
    : CLASSES.named({ labels }, { target })),
  best: ({ ranked, labels }) => (ranked ? { name: ranked[0].text, share: ranked[0].share } : CLASSES.best({ labels })),
}

const LABELLED = { // of pictures, beside a model of texts: `chooses` among labels, each put into a sentence
  ...VECTOR,
  title: 'Which label fits, and where is it seen?',
  chooses: true,
  Options: later('Labels'),
  options: (model, { labels, template }) =>
    (labels ? { labels: labels.replaceAll('\n', ','), ...(template && { template }) } : {}),
  items: RANKED.items,
  read({ id, results: [result] }, input, { labels, template = WORDING }) {
    if (!labels) return [result]
    const choice = ({ index, label, probability }, at) => ({
      object: index, id, share: probability, text: label, pair: sentenceOf(label, template),
      rival: sentenceOf(result.labels[at ? 0 : 1]?.label, template), // the likeliest of the others
    })
    return [{ ...result, labels: undefined, ranked: result.labels.map(choice) }]
  },
  shown: (answer, selection) => shownOf(answer.results[0].ranked ?? [], answer, selection),
  explained(model, selection, method) {
    const { pair, rival, labels, template, apart } = selection
    if (!labels) return likenessOf(model, selection, method)
    const against = { text: pair || sentenceOf(labels.split('\n')[0], template || WORDING) }
    if (apart && rival && RATHER.includes(method)) return { against: [against, { text: rival }] }
    return { against, sides: 'both' } // what in the picture says the label, and what in the label the picture
  },
  scored: (model, selection) =>
    (selection.labels ? { against: { text: selection.pair } } : againstOf(model, selection)),
  named: CHOOSING.named,
  best: CHOOSING.best,
  said: ({ ranked, ...rest }) => (ranked ? `${ranked[0].text}, ${percent(ranked[0].share)}` : VECTOR.said(rest)),
}

const TASKS = { // `title` is the question, `second` what a second text is; a field that two have is the first one's
  'automatic-speech-recognition': { ...CLASSES, ...HEARD, View: later('Heard'), title: 'What is said?' },
  'audio-classification': { ...CLASSES, title: 'What is heard?' },
  'image-classification': { ...CLASSES, title: 'What is in the image?' },
  'graph-classification': { ...CLASSES, title: 'What kind of graph is it?' },
  'object-detection': { ...OBJECTS, title: 'What is where in the image?' },
  'text-classification': { ...PAIRS, title: 'What kind of text is it?' },
  'token-classification': { ...ENTITIES, title: 'What is named in the text?' },
  'question-answering': { ...ANSWERS, title: 'What answers the question?' },
  'feature-extraction': { ...VECTOR, title: 'What is it like?', second: 'Texts to compare, one a line' },
  'sparse-embedding': { ...WORDS, title: 'What is the text about?' },
  'fill-mask': { ...MASKS, title: 'What is behind the mask?' },
  'text-generation': { ...WRITTEN, title: 'How does the text go on?' },
  'text2text-generation': { ...WRITTEN, title: 'What becomes of the text?' },
  'image-to-text': { ...WRITTEN, title: 'What are the words for the image?' },
}

/** Return what the page knows of a model's task. */
export function taskOf({ task, endpoints, zero_shot: chooses, contrast, inputs }) {
  if (endpoints?.includes(RANKING.endpoint)) return RANKING
  if (contrast && inputs.width) return LABELLED
  return chooses ? CHOOSING : TASKS[task] ?? { ...CLASSES, title: task }
}

/** Return the view of an answer; nothing where it holds attention alone. */
export const viewOf = (result) => [RANKED, ...Object.values(TASKS)].find(({ field }) => result[field])?.View
