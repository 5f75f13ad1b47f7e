import { addressOf, hasKey, queryOf } from './service.js'
import { written } from './values.js'

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'` // for a shell

/**
 * Return an answer as a program in each language: the question that was sent, and the look at it by its id. `options`
 * are those of the look. The input has the `name` of a picture's file and, if it is an example, the `path` that it is
 * fetched from. `prints` is how Python prints the answer.
 */
export function programs({ id, request: { path, init }, input: { name, path: source } }, options, prints) {
  const question = {
    path,
    key: hasKey(),
    file: typeof init.body === 'string' ? null : name || 'input',
    body: init.body,
    type: init.headers['Content-Type'],
    address: addressOf(path),
    source: source && addressOf(source),
    looks: `${addressOf('v1/attention')}/`,
    part: id.match(/\.(\d+)$/)?.[1], // of several texts that were asked about
    look: queryOf(options),
    options,
    prints,
  }
  return { curl: curlOf(question), Python: pythonOf(question), JavaScript: javaScriptOf(question) }
}

function curlOf({ key, file, source, body, type, address, looks, look, part }) {
  const command = (...parts) => ['curl', key && '-H "Authorization: Bearer $REGARD_KEY"', ...parts].filter(Boolean)
  const data = file ? `--data-binary ${quoted(`@${file}`)}` : `-d ${quoted(body)}`
  const line = ' \\\n  '
  return [
    ...(source ? [command('-s', '-o', quoted(file), quoted(source)).join(' ')] : []),
    `ANSWER=$(${command('-s', `-H 'Content-Type: ${type}'`, data, quoted(address)).join(line)})`,
    'echo "$ANSWER"',
    `ID=$(echo "$ANSWER" | sed 's/^{"id":"\\([0-9a-f]*\\)".*/\\1/')`,
    command('-s', `"${looks}$ID${part ? `.${part}` : ''}?${look}"`).join(line),
  ].join('\n')
}

function pythonOf({ key, path, file, body, options: { attention, ...options }, prints, part }) {
  const [place, query] = path.split('?')
  const [model, endpoint] = place.split('/').slice(2)
  const { inputs, messages, graphs, query: wanted, texts, ...given } = file ? { inputs: file, ...numbersOf(query) }
    : JSON.parse(body)
  const both = Array.isArray(inputs) // two texts
  const text = graphs ? graphs.map(inPython).join()
    : messages ? inPython(messages)
    : texts ? `${JSON.stringify(wanted)}, ${JSON.stringify(texts)}`
    : inputs.question ? `${JSON.stringify(inputs.question)}, ${JSON.stringify(inputs.context)}`
    : inputs.text_pair ? `(${JSON.stringify(inputs.text)}, ${JSON.stringify(inputs.text_pair)})`
    : JSON.stringify(inputs)
  const method = endpoint.replace('-', '_') + (both ? '_batch' : '')
  const kept = given.labels?.length > 1 // with the pair of a label
  if (part && kept) given.attention = { method: attention, target: given.labels[part] }
  const found = texts ? 'ranked' : both ? 'answer, *others' : 'answer'
  const address = addressOf('').replace(/\/$/, '')
  return [
    'import regard  # pip install ./client, in a checkout of the service\n',
    `service = regard.connect(${JSON.stringify(address)})${key ? '  # REGARD_KEY holds the key' : ''}`,
    `model = service[${JSON.stringify(decodeURIComponent(model))}]`,
    `${found} = model.${method}(${[text, ...keywordsOf(given)].join(', ')})`,
    ...prints,
    ...(texts ? [`answer = next(one for one in ranked if one.index == ${part ?? 0})`] : []),
    `look = answer.look(${[JSON.stringify(attention), ...keywordsOf(options)].join(', ')})`,
    'for one in look.maps:',
    '    print(one.name, one.values.shape)',
  ].join('\n')
}

/** Return the options of a query, numbers as such, labels as a list: those of a picture's or a sound's question. */
const numbersOf = (query) => Object.fromEntries([...new URLSearchParams(query)].map(([name, value]) =>
  [name, name === 'labels' ? value.split(',') : Number.isNaN(Number(value)) ? value : Number(value)]))

const CONSTANTS = new Map([[true, 'True'], [false, 'False'], [null, 'None']])

/** Return a value as Python writes it. */
const inPython = (value) => written(value, CONSTANTS)

/** Return options as keywords of Python. */
const keywordsOf = (options) => Object.entries(options).map(([name, value]) => `${name}=${inPython(value)}`)

function javaScriptOf({ key, file, body, type, address, looks, look, part }) {
  const read = `await (await import('node:fs/promises')).readFile(${JSON.stringify(file)})`
  return [
    `const headers = ${key ? '{ Authorization: `Bearer ${process.env.REGARD_KEY}` }' : '{}'}`,
    `const body = ${file ? read : JSON.stringify(body)}`,
    `const asked = await fetch(${JSON.stringify(address)}, {`,
    `  method: 'POST', body, headers: { ...headers, 'Content-Type': ${JSON.stringify(type)} },`,
    '})',
    'const { id, results } = await asked.json()',
    'console.log(results)',
    `const look = await (await fetch(\`${looks}\${id}${part ? `.${part}` : ''}?${look}\`, { headers })).json()`,
    'console.log(look.results[0].attention)',
  ].join('\n')
}
