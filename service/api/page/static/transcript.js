import { percent } from './values.js'

/** What the page knows of a model that writes what was said. */
export const HEARD = {
  field: 'segments',
  options: () => ({ timestamps: 'word', seed: 0 }),
  prints: ['print(answer.text)', 'for one in answer.words:', '    print(one.start, one.end, one.word)'],
  items: ({ words = [] }) => words.map((one, object) => ({ object })),
  explained: () => ({}), // each token that was written
  scored: (model, { row }) => ({ target: Number(row) }),
  named: () => 'what was said',
  best: ({ text, words = [] }) => (
    { name: text, share: words.length ? Math.min(...words.map(({ probability }) => probability)) : undefined }),
  said: ({ text }) => text,
}

/** Return when a word was heard, in words. */
export const spanOf = ({ start, end }) => `${start.toFixed(2)}–${end.toFixed(2)} s`

/** Return a word's time and how sure it is, in words. */
export const timeOf = (word) => `${spanOf(word)}, ${percent(word.probability, 0)}`

/** Return which word is heard at a second, by its number; null at none. */
export function wordAt(words, seconds) {
  const at = seconds === null ? -1 : words.findIndex(({ start, end }) => start <= seconds && seconds < end)
  return at < 0 ? null : at
}

/**
 * Return the rows of each word: the tokens, of those that were written, that it has letters of. A token without any is
 * a part of the next letter.
 */
export function rowsOf(words, tokens) {
  let text = ''
  const places = tokens.map(({ text: own, special }) => {
    const from = text.length
    if (!special) text += own
    return special ? [-1, -1] : [from, Math.max(text.length, from + 1)]
  })
  let end = 0
  return words.map(({ word }) => {
    const from = Math.max(text.indexOf(word, end), end)
    end = from + word.length
    return places.flatMap(([first, last], row) => (last > from && first < end ? [row] : []))
  })
}
