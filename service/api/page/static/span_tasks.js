import { html } from './preact.js'
import { Select } from './select.js'
import { CLASSES, later, rowOf } from './task.js'

/** Return the number of the entity that is pinned, as what is explained; without one, the service takes the surest. */
const entityOf = ({ object, aggregate }) =>
  ({ ...(object !== '' && { target: Number(object) }), ...(aggregate && { aggregate }) })

/** What a tagger answers: the entities of a text. */
export const ENTITIES = {
  ...CLASSES,
  field: 'entities',
  View: later('Marked'),
  Options: ({ selection, change }) => html`<${Select} words="Tokens become entities" name="aggregate"
    values=${AGGREGATES} chosen=${selection.aggregate}
    choose=${(aggregate) => change({ aggregate, object: '' })} />`,
  options: (model, { aggregate }) => (aggregate ? { aggregate } : {}),
  read: ({ results: [{ entities, ...rest }] }, { text }) =>
    [{ ...rest, text, entities: entities.map((one, object) => ({ ...one, object })) }],
  items: ({ entities }) => [...entities].sort((one, other) => other.probability - one.probability),
  prints: ['for one in answer.entities:', '    print(one.label, one.text)'],
  explained: (model, selection) => entityOf(selection),
  scored: (model, selection, { queries, about = 0 }) => ({
    ...entityOf(selection),
    ...(queries !== undefined && { queries: selection.row === '' ? about : rowOf(selection) }),
  }),
  named: ({ entities }, { entity, label }) => entities?.[entity]?.text ?? label,
  best: ({ entities }) => ({
    name: entities.map(({ text, label }) => `${text} (${label})`).join(', ') || 'nothing',
    share: entities.length ? Math.min(...entities.map(({ probability }) => probability)) : undefined,
  }),
  said({ entities }) {
    return entities.length ? `${entities.length} entities: ${this.best({ entities }).name}` : 'Nothing found'
  },
}
/** What is answered to a question: spans of its context. */
export const ANSWERS = {
  ...CLASSES,
  field: 'answers',
  View: later('Spans'),
  first: 'Question',
  second: 'Context',
  needs: true,
  rows: 6,
  options: () => ({ top_k: MOST_ANSWERS }),
  asks: (question, context) => ({ inputs: { question, context } }),
  read: ({ results: [{ answers, ...rest }] }, { pair }) =>
    [{ ...rest, context: pair, answers: answers.map((one, object) => ({ ...one, object })) }],
  items: ({ answers }) => answers,
  prints: ['for one in answer.answers:', '    print(one.score, one.text)'],
  explained: (model, { object }) => ({ target: Number(object) }), // both ends of it
  scored: (model, selection, { queries }) => ({
    target: { answer: Number(selection.object), part: rowOf(selection) ? 'end' : 'start' },
    ...(queries !== undefined && { queries: rowOf(selection) }),
  }),
  named: (result, { part = 'answer' }) => `the ${part}`,
  best: ({ answers: [best] }) => best && { name: best.text, share: best.score },
}
const MOST_ANSWERS = 3
const AGGREGATES = [
  ['', 'by B- and I-'], ['none', 'each alone'], ['first', 'words, by the first token'],
  ['average', 'words, by the mean'], ['max', 'words, by the surest token'],
]
