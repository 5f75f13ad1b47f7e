/** Return a chat as an input, from JSON; null of what holds no messages. Its text has each of them in its own lines. */
export function chatOf(json) {
  let messages = null
  try {
    messages = JSON.parse(json)
  } catch {} // an address may be anybody's
  const are = (ones) => Array.isArray(ones) && ones.length && ones.every((one) => typeof one?.content === 'string')
  if (!are(messages)) return null
  return { kind: 'text', text: messages.map(({ content }) => `${content}\n`).join(''), pair: '', messages }
}

/** Return tokens whose spans lie in the text of a chat: each message's behind those before, and the answer's last. */
export function placed(tokens, messages) {
  const begins = [0]
  for (const { content } of messages) begins.push(begins.at(-1) + [...content].length + 1)
  const moved = ({ span, message, ...token }) =>
    ({ ...token, message, span: span && span.map((place) => place + begins[message]) })
  return Object.fromEntries(Object.entries(tokens).map(([axis, list]) =>
    [axis, Array.isArray(list) ? list.map(moved) : list]))
}
