import { Classes } from './answer.js'
import { Later } from './lazy.js'
import { html } from './preact.js'
import { percent, short } from './values.js'

/** Return the row of an evaluation: that of the pinned token, not of a pinned word. */
export const rowOf = ({ merge, row }) => (merge ? 0 : Number(row))

/** Return a view, or options, that are loaded when they are first wanted. */
export const later = (part) => (props) => html`<${Later} part=${part} ...${props} />`

/**
 * What a task answers has a `field` of its own, and a `View`. `options(model, selection)` are those of its question,
 * which `Options` chooses; `inputs` are a text and its second one as they are sent; `prints` is how Python prints it.
 * What explains it has `explained(model, selection, method)` as options. An evaluation is of one score: it has the
 * options `scored(model, selection, {queries, explains, rows, masks})`, and `named(result, evaluation, selection)` says
 * whose. Where an answer has several `items(result)`, each with its number as an `object`, the one that is pointed at
 * is looked at: `shown(answer, selection)` is the answer as its own. `best(result)` is the surest part of the answer,
 * as {name, share}, where there is one, and `said(result)` the answer in one sentence.
 */
export const CLASSES = {
  field: 'labels',
  View: Classes,
  options: () => ({}),
  inputs: (text, pair) => [text, pair],
  prints: ['print(answer.json)'],
  explained: (model, { target }) => (target ? { target } : {}),
  scored: (model, selection, { queries }) =>
    (queries === undefined ? {} : { queries: queries === 'all' ? rowOf(selection) : queries }),
  named: ({ labels }, { target }) => labels?.find(({ index }) => index === target)?.label,
  best: ({ labels: [best] = [] }) => best && { name: best.label, share: best.probability, score: best.score },
  said(result) {
    const { name, share, score } = this.best(result) ?? {}
    return name === undefined ? '' : `${name}, ${share === undefined ? short(score) : percent(share)}`
  },
}
