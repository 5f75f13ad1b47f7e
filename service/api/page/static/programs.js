import { addressOf, hasKey } from './service.js'

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'` // for a shell

/** Return what was sent as a program in each language: the question, and the look at it by its id. */
export function programs({ path, init }, look, name) {
  const question = {
    key: hasKey(),
    file: typeof init.body === 'string' ? null : name || 'input',
    body: init.body,
    type: init.headers['Content-Type'],
    address: addressOf(path),
    looks: `${addressOf('v1/attention')}/`,
    look,
  }
  return { curl: curlOf(question), Python: pythonOf(question), JavaScript: javaScriptOf(question) }
}

function curlOf({ key, file, body, type, address, looks, look }) {
  const command = (...parts) => ['curl', key && '-H "Authorization: Bearer $REGARD_KEY"', ...parts].filter(Boolean)
  const data = file ? `--data-binary ${quoted(`@${file}`)}` : `-d ${quoted(body)}`
  const line = ' \\\n  '
  return [
    `ANSWER=$(${command('-s', `-H 'Content-Type: ${type}'`, data, quoted(address)).join(line)})`,
    'echo "$ANSWER"',
    `ID=$(echo "$ANSWER" | sed 's/^{"id":"\\([0-9a-f]*\\)".*/\\1/')`,
    command('-s', `"${looks}$ID?${look}"`).join(line),
  ].join('\n')
}

function pythonOf({ key, file, body, type, address, looks, look }) {
  return [
    key && 'import os\n',
    'import httpx\n',
    `headers = ${key ? '{"Authorization": f"Bearer {os.environ[\'REGARD_KEY\']}"}' : '{}'}`,
    file ? `with open(${JSON.stringify(file)}, "rb") as file:` : `body = ${JSON.stringify(body)}`,
    file && '    body = file.read()',
    `answer = httpx.post(${JSON.stringify(address)},`,
    `    content=body, headers={**headers, "Content-Type": ${JSON.stringify(type)}}).json()`,
    'print(answer["results"])',
    `look = httpx.get(f"${looks}{answer['id']}?${look}", headers=headers).json()`,
    'print(look["results"][0]["attention"])',
  ].filter(Boolean).join('\n')
}

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
