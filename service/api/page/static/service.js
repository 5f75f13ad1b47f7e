const KEY = 'regard-key'

/** The words for an answer that ended too early. */
export const BROKEN = 'The answer broke off. Is the service still there?'

/** The status of what somebody stopped: none of the service's. */
export const STOPPED = 499

/** The status of an answer that cannot be used: none of the service's. */
export const UNUSABLE = 599

/** What the service refused, in its words: `status`, and `wait`, seconds until it may be tried again. */
export class Refusal extends Error {
  constructor(status, message, wait = null) {
    super(message)
    Object.assign(this, { status, wait })
  }
}

/** What this tab keeps; where the browser blocks that, it is kept as long as the page is open. */
export const stored = tabStorage()

function tabStorage() {
  try {
    return sessionStorage
  } catch {
    return Object.create({
      getItem(name) { return this[name] ?? null },
      setItem(name, value) { this[name] = value },
      removeItem(name) { delete this[name] },
    })
  }
}

/** Keep an API key for this tab, until it is closed. */
export function keepKey(key) {
  if (key) stored.setItem(KEY, key)
  else stored.removeItem(KEY)
}

/** Return whether requests carry an API key. */
export const hasKey = () => Boolean(stored.getItem(KEY))

/** Return the absolute address of a path of the service. */
export const addressOf = (path) => new URL(path, document.baseURI).href

/** Return a query: `against` as its JSON, and readable where it may be. */
export function queryOf(options) {
  const written = (value) => (typeof value === 'object' ? JSON.stringify(value) : value)
  const given = Object.entries(options).map(([name, value]) => [name, written(value)])
  return String(new URLSearchParams(given)).replaceAll('%3A', ':').replaceAll('%2C', ',')
}

/** The words for an answer that is none of the service's. */
const FOREIGN = 'What answered is not the service. Does a proxy answer in its place?'

/** Send a request; return the response, or throw a Refusal. An aborted one throws the browser's AbortError. */
export async function send(path, init = {}) {
  const key = stored.getItem(KEY)
  const headers = { ...init.headers, ...(key && { Authorization: `Bearer ${key}` }) }
  let response
  try {
    response = await fetch(path, { ...init, headers })
  } catch (error) {
    if (error.name === 'AbortError') throw error
    throw new Refusal(0, 'The service did not answer. Is it running?')
  }
  if (response.ok) return response
  const problem = await response.json().catch(() => null)
  const faults = (problem?.errors ?? []).map(({ loc, msg }) => `${loc}: ${msg}`)
  const lines = [...new Set([problem?.detail ?? `The service answered ${response.status}.`, ...faults])]
  const wait = Number(response.headers.get('Retry-After')) || null
  throw new Refusal(response.status, lines.join('\n'), wait)
}

/** Return what comes, or throw a Refusal if the connection breaks before. */
const whole = (promise) => promise.catch((error) => {
  throw error.name === 'AbortError' ? error : new Refusal(UNUSABLE, BROKEN)
})

/** Ask for JSON; return its `body` with what it cost: `milliseconds` and `bytes`. */
export async function ask(path, init) {
  const begin = performance.now()
  const response = await send(path, init)
  const text = await whole(response.text())
  let body
  try {
    body = JSON.parse(text)
  } catch {
    throw new Refusal(UNUSABLE, FOREIGN)
  }
  return { body, milliseconds: performance.now() - begin, bytes: text.length }
}

/** Ask for server-sent events; give each to `take(name, data)`. Return when the stream ends. */
export async function listen(path, init, take) {
  const response = await send(path, init)
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await whole(reader.read())
    if (done) return
    const events = (rest + value).split('\n\n')
    rest = events.pop()
    for (const event of events) {
      const [, name] = /^event: ([^\n]*)/m.exec(event) ?? []
      const [, data] = /^data: ([^\n]*)/m.exec(event) ?? [] // not `.`, which stops at U+2028
      if (name && data) take(name, JSON.parse(data))
    }
  }
}
