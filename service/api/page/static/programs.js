import { addressOf, hasKey, queryOf } from './service.js'

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'` // for a shell

/**
 * Return what was sent as a program in each language: the question, and the look at it by its id. `options` are those
 * of the look, `name` that of a picture's file, `source` the path that it is fetched from, if it is an example.
 * `prints` is how Python prints the answer.
 */
export function programs({ path, init }, options, { name, path: source }, prints) {
  const question = {
    path,
    key: hasKey(),
    file: typeof init.body === 'string' ? null : name || 'input',
    body: init.body,
    type: init.headers['Content-Type'],
    address: addressOf(path),
    source: source && addressOf(source),
    looks: `${addressOf('v1/attention')}/`,
    look: queryOf(options),
    options,
    prints,
  }
  return { curl: curlOf(question), Python: pythonOf(question), JavaScript: javaScriptOf(question) }
}

function curlOf({ key, file, source, body, type, address, looks, look }) {
  const command = (...parts) => ['curl', key && '-H "Authorization: Bearer $REGARD_KEY"', ...parts].filter(Boolean)
  const data = file ? `--data-binary ${quoted(`@${file}`)}` : `-d ${quoted(body)}`
  const line = ' \\\n  '
  return [
    ...(source ? [command('-s', '-o', quoted(file), quoted(source)).join(' ')] : []),
    `ANSWER=$(${command('-s', `-H 'Content-Type: ${type}'`, data, quoted(address)).join(line)})`,
    'echo "$ANSWER"',
    `ID=$(echo "$ANSWER" | sed 's/^{"id":"\\([0-9a-f]*\\)".*/\\1/')`,
    command('-s', `"${looks}$ID?${look}"`).join(line),
  ].join('\n')
}

function pythonOf({ key, path, file, body, options: { attention, ...options }, prints }) {
  const [place, query] = path.split('?')
  const [model, endpoint] = place.split('/').slice(2)
  const { inputs, ...given } = file ? { inputs: file, ...numbersOf(query) } : JSON.parse(body)
  const both = Array.isArray(inputs) // two texts
  const text = inputs.text_pair ? `(${JSON.stringify(inputs.text)}, ${JSON.stringify(inputs.text_pair)})`
    : JSON.stringify(inputs)
  const method = endpoint.replace('-', '_') + (both ? '_batch' : '')
  const address = addressOf('').replace(/\/$/, '')
  return [
    'import regard  # pip install ./client, in a checkout of the service\n',
    `service = regard.connect(${JSON.stringify(address)})${key ? '  # REGARD_KEY holds the key' : ''}`,
    `model = service[${JSON.stringify(decodeURIComponent(model))}]`,
    `answer${both ? ', other' : ''} = model.${method}(${[text, ...keywordsOf(given)].join(', ')})`,
    ...prints,
    `look = answer.look(${[JSON.stringify(attention), ...keywordsOf(options)].join(', ')})`,
    'for one in look.maps:',
    '    print(one.name, one.values.shape)',
  ].join('\n')
}

/** Return the options of a query whose values are all numbers: those of a picture's question. */
const numbersOf = (query) =>
  Object.fromEntries([...new URLSearchParams(query)].map(([name, value]) => [name, Number(value)]))

/** Return options as keywords of Python, which reads numbers, texts and objects of texts as JSON writes them. */
const keywordsOf = (options) => Object.entries(options).map(([name, value]) => `${name}=${JSON.stringify(value)}`)

function javaScriptOf({ key, file, body, type, address, looks, look }) {
  const read = `await (await import('node:fs/promises')).readFile(${JSON.stringify(file)})`
  return [
    `const headers = ${key ? '{ Authorization: `Bearer ${process.env.REGARD_KEY}` }' : '{}'}`,
    `const body = ${file ? read : JSON.stringify(body)}`,
    `const asked = await fetch(${JSON.stringify(address)}, {`,
    `  method: 'POST', body, headers: { ...headers, 'Content-Type': ${JSON.stringify(type)} },`,
    '})',
    'const { id, results } = await asked.json()',
    'console.log(results)',
    `const look = await (await fetch(\`${looks}\${id}?${look}\`, { headers })).json()`,
    'console.log(look.results[0].attention)',
  ].join('\n')
}
