import { Answer, GenerationOptions } from './answer.js'
import { useAsked, useResolved } from './asked.js'
import { DrawControls, LookControls } from './controls.js'
import { Evaluation, Heads } from './heads_view.js'
import { ImageView, coveredImage } from './image_view.js'
import { Examples, ImageInput, TextInput, fileOf } from './inputs.js'
import { imageLook, textLook } from './looks.js'
import { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState } from './preact.js'
import { KeyDialog, Problem } from './problem.js'
import { attentionOf, goneWords, inputOf, keepPicture, modelsOf, question } from './question.js'
import { Request } from './request.js'
import { aboutAnother, generationOf, kindOf, layerOf, methodOf, methodsOf, optionsOf, readAddress, writeAddress } from './selection.js'
import { queryOf } from './service.js'
import { Streaming } from './streaming.js'
import { TextView } from './text_view.js'
import { EXPLAINS, METHODS, TITLES } from './words.js'

const WARMING = 1000 // milliseconds between two looks at models that are warming up
const STEP = 500 // milliseconds of a step that is played
const packed = (options) => ({ ...options, encoding: 'base64' })

let serial = 0 // of inputs: each is asked about once
const serials = new WeakMap()
const nameOf = (input) => {
  if (!input) return null
  if (input.kind === 'text') return `${input.text}\n${input.pair}`
  if (input.kind === 'kept') return input.id
  if (!serials.has(input)) serials.set(input, ++serial)
  return serials.get(input)
}

/** Ask about an input, and look at the answer; again if the service has forgotten it meanwhile. */
function useLook(model, input, selection, { from = null, key = '' } = {}) {
  const about = input === undefined ? undefined : model && input ? JSON.stringify([model.name, nameOf(input), generationOf(selection), selection.alternatives, key]) : null
  const asked = useAsked(from ? null : about, (signal, show) => question(model, input, selection, signal, show))
  const answer = from ?? asked
  const ready = !answer.behind && answer.value?.id && answer.value.model.name === model?.name && model
  const options = ready && packed(optionsOf(model, selection))
  const query = ready && queryOf(options)
  const look = useAsked(ready ? `${answer.value.id}?${query}` : about === null ? null : undefined, async (signal) => {
    const kind = kindOf(model, selection)
    const attention = await attentionOf(answer.value.id, query, signal)
    return { attention, answer: answer.value, model, kind, options }
  })
  const gone = look.refusal?.status === 404
  const again = useRef(null)
  useEffect(() => {
    if (!gone || from || input?.kind === 'kept' || again.current === answer.value.id) return
    again.current = answer.value.id // once, so that two do not go on for ever
    asked.again()
  }, [gone])
  const refusal = answer.refusal ?? (gone && input?.kind === 'kept' ? { ...look.refusal, message: goneWords, status: 404 } : look.refusal)
  return { asked: answer, look, options, refusal, busy: answer.busy || look.busy, again: () => (answer.refusal ? answer.again() : look.again()) }
}

/** Return what is drawn of a look, by what the model looks at. */
function drawnOf({ attention, answer, model, kind, options }, { heads }) {
  if (kind.key === 'image') return imageLook(attention, kind)
  const result = answer.results?.[0] ?? {}
  return textLook(attention, model, kind, { text: answer.input.text ?? '', result, heads, merged: Boolean(options.merge) })
}

function App() {
  const [selection, setSelection] = useState(readAddress)
  const [picture, setPicture] = useState(null) // the one that was drawn or chosen last
  const [edited, setEdited] = useState(null) // the picture with patches covered
  const [playing, setPlaying] = useState(null)
  const [needsKey, setNeedsKey] = useState(false)
  const models = useAsked('models', modelsOf)

  const model = models.value?.find(({ name }) => name === selection.model) ?? models.value?.[0]
  const change = (part) => setSelection((old) => ({ ...old, ...part }))
  const about = (part) => setSelection((old) => aboutAnother(old, part))

  useEffect(() => {
    const back = () => setSelection(readAddress())
    addEventListener('popstate', back)
    return () => removeEventListener('popstate', back)
  }, [])
  useEffect(() => writeAddress(selection), [selection])
  useEffect(() => {
    if (!models.value?.some(({ state }) => state !== 'ready')) return
    const timer = setTimeout(models.again, WARMING)
    return () => clearTimeout(timer)
  }, [models.value])
  const sought = useMemo(() => (model ? inputOf(model, selection, picture) : null),
    [model, selection.id, selection.text, selection.pair, selection.example, picture])
  const input = useResolved(sought)

  const fits = input === undefined ? undefined : model && input && (input.kind === 'kept' || (input.kind === 'image') === Boolean(model.inputs.width)) ? input : null
  const main = useLook(model, fits, selection)
  const answer = main.asked.value
  useEffect(() => {
    if (!answer?.id || answer.input.kind !== 'image' || selection.id !== 'new') return
    keepPicture(answer.id, answer.input)
    change({ id: answer.id })
  }, [answer?.id])

  const look = main.look.value
  const drawn = look && drawnOf(look, selection)
  const cells = drawn?.cells && look.answer.input.bitmap ? selection.covered : ''
  useEffect(() => {
    if (!cells) return setEdited(null)
    const bitmap = coveredImage(look.answer.input.bitmap, drawn.image, cells.split(',').map(Number), drawn.rows, drawn.columns)
    setEdited({ kind: 'image', blob: fileOf(bitmap), bitmap, name: 'covered.png' })
  }, [cells, look?.answer.input])

  const compared = useCompared(models.value, model, fits, edited, selection, main)
  const refusal = models.refusal ?? main.refusal ?? compared.refusal
  useEffect(() => setNeedsKey(refusal?.status === 401), [refusal])
  const again = () => (models.refusal ? models.again() : main.refusal ? main.again() : compared.again())
  const stale = input === undefined || main.busy || Boolean(main.refusal)
  const busy = String(models.busy || input === undefined || main.busy || compared.busy)
  useLayoutEffect(() => {
    document.body.dataset.busy = busy
  }, [busy])
  useEffect(() => {
    document.title = model ? `${model.name} · regard` : 'regard'
  }, [model?.name])

  if (!model) return html`<${Head} /><main><${Problem} refusal=${needsKey ? null : refusal} again=${again} />
    ${models.value && html`<p>No model is loaded.</p>`}</main><${KeyDialog} open=${needsKey} refusal=${refusal} given=${again} />`

  const take = (next) => {
    setPicture(next)
    about(next ? { id: 'new' } : { example: 'none' })
  }
  const cover = (cells) => change({ covered: cells.join(), compare: cells.length ? 'input' : '', with: '' })
  const edit = Object.assign(({ span: [from, to] }, words) => {
    const letters = [...fits.text]
    change({ compare: 'input', with: letters.slice(0, from).join('') + words + letters.slice(to).join('') })
  }, { mask: model.inputs.mask })
  const play = () => {
    const count = answer.results[0].tokens.length
    let at = 0
    setPlaying(0)
    const timer = setInterval(() => (++at < count ? setPlaying(at) : (clearInterval(timer), setPlaying(null))), STEP)
  }

  const pinned = selection.row === '' ? null : Number(selection.row)
  const pin = (row) => change({ row: row === null ? '' : String(row) })
  const explains = look && EXPLAINS.includes(look.options.attention)
  const labels = answer?.results?.[0].labels
  return html`
    <${Head} models=${models.value} model=${model} choose=${(name) => about({ model: name, kind: '', layer: '', heads: 'mean', method: '' })} />
    <main>
      <div class="column">
      <section id="input" aria-label="Input">
        <p class="about"><strong>${TITLES[model.task] ?? model.task}</strong> ${model.about}</p>
        <${Examples} examples=${model.examples} chosen=${selection.example || (input && !selection.text && !selection.id ? '0' : '')} choose=${(example) => about({ example })} />
        ${model.inputs.width ? html`<${ImageInput} picture=${fits?.kind === 'image' ? fits : null} take=${take} />`
          : html`<${TextInput} model=${model} input=${fits} take=${({ text, pair }) => about({ text, pair })} />`}
        ${model.endpoints[0] === 'generate' && html`<${GenerationOptions} selection=${selection} change=${change} limits=${model.limits} />`}
      </section>
      <section id="answer" aria-label="Answer">
        <div class="row"><h2>Answer</h2><small role="status">${main.busy ? 'asking…' : ''}</small></div>
        <${Problem} refusal=${needsKey ? null : refusal} again=${again} />
        <div class=${input === undefined || (main.asked.busy && !answer?.streaming) || main.asked.refusal ? 'stale' : ''}>
          ${answer?.results ? html`<${Answer} results=${answer.results} streaming=${answer.streaming} pinned=${playing ?? pinned} pin=${pin} replay=${play} />`
            : html`<p class="quiet">${answer ? 'The answer itself is not kept, its attention is.' : model.state === 'ready' ? 'Ask something.' : 'The model is warming up.'}</p>`}
          ${compared.answer?.results && html`<h3>${compared.there}</h3>
            <${Answer} results=${compared.answer.results} before=${answer?.results} pinned=${pinned} pin=${pin} />`}
        </div>
      </section>
      </div>
      <div class="column wide">
      <section id="look" aria-label="What it looked at" class=${stale ? 'stale' : ''}>
        <h2>What it looked at</h2>
        ${answer?.streaming && html`<${Streaming} answer=${answer} kind=${model.attention.kinds.cross} colormap=${selection.colormap} />`}
        ${!answer?.streaming && drawn && (look.kind.key === 'image'
          ? html`<${ImageView} look=${drawn} other=${compared.look && { ...compared, look: drawnOf(compared.look, selection), source: compared.look.answer.input.bitmap }}
              source=${look.answer.input.bitmap} selection=${selection} change=${change} word=${playing ?? (drawn.words.length ? pinned : null)}
              covered=${cells ? cells.split(',').map(Number) : []} cover=${cover} prefix=${look.kind.prefix} explains=${explains} caption=${METHODS[look.options.attention]} />`
          : html`<${TextView} look=${drawn} other=${compared.look && { ...compared, look: drawnOf(compared.look, selection) }} selection=${selection} change=${change}
              kind=${look.kind} playing=${playing} edit=${look.answer.input.kind === 'text' && edit} />`)}
      </section>
      <${Evaluation} answer=${answer} model=${model} selection=${selection} look=${drawn} />
      <${Request} answer=${answer} options=${main.options || {}} model=${model} />
      </div>
      <div class="column">
      <section id="controls" aria-label="Controls">
        <${LookControls} model=${model} selection=${selection} change=${change} labels=${labels} />
        <${Compare} models=${models.value} model=${model} selection=${selection} change=${change} />
        <${DrawControls} selection=${selection} change=${change} text=${kindOf(model, selection).key !== 'image'} cross=${kindOf(model, selection).name !== 'encoder'} />
      </section>
      <${Heads} answer=${answer} model=${model} selection=${selection} change=${change} word=${pinned} />
      </div>
    </main>
    <${KeyDialog} open=${needsKey} refusal=${refusal} given=${again} />`
}

function Head({ models, model, choose }) {
  const [said, setSaid] = useState('')
  const share = () => navigator.clipboard?.writeText(location.href).then(() => setSaid('The address is copied.'), () => setSaid('The address of this page says all that you see.'))
  return html`<header>
    <h1>regard</h1>
    ${models && html`<label>Model <select id="model" value=${model.name} onChange=${({ target }) => choose(target.value)}>
      ${models.map(({ name, state }) => html`<option key=${name} value=${name}>${name}${state === 'ready' ? '' : ` (${state})`}</option>`)}</select></label>`}
    ${model && html`<small>${model.version} · ${model.family} · ${model.precision} · ${model.provider.replace('ExecutionProvider', '')}</small>`}
    <nav><button type="button" class="plain" id="share" onClick=${share}>Share</button> <a href="docs">API</a> <small role="status">${said}</small></nav>
  </header>`
}

/** What the look is compared with: another method, layer, model or input. */
function useCompared(models, model, input, edited, selection, main) {
  const [what, value] = selection.compare.split(':')
  const other = what === 'model' ? models?.find(({ name }) => name === value) : model
  const asks = what === 'model' || what === 'input'
  const text = what === 'input' && selection.with ? { kind: 'text', text: selection.with, pair: selection.pair } : null
  const its = !what ? null : asks ? (what === 'model' ? input : text ?? edited) : input
  const overrides = { method: { method: value }, layer: { layer: value } }[what] ?? {}
  const found = useLook(its && other ? other : null, its, { ...selection, ...overrides }, { from: asks || !what ? null : main.asked, key: 'compared' })
  const kind = model && kindOf(model, selection)
  const here = { method: model && methodOf(model, kind, selection), layer: model && `layer ${layerOf(kind, selection)}`, model: model?.name, input: 'as it was' }[what]
  const there = { method: value, layer: `layer ${value}`, model: value, input: text ? `“${text.text}”` : 'covered' }[what]
  if (!what || !its) return { busy: false }
  const look = found.look.value
  const comparable = look?.options.attention === main.look.value?.options.attention // one unit, so one scale and a difference
  return { ...found, look, comparable, answer: asks ? found.asked.value : null, here, there }
}

/** Choose what to compare with. */
function Compare({ models, model, selection, change }) {
  const kind = kindOf(model, selection)
  const method = methodOf(model, kind, selection)
  const [what] = selection.compare.split(':')
  const choices = [
    ['', 'nothing'],
    ...methodsOf(model, kind, selection.pair).filter((one) => one !== method).map((one) => [`method:${one}`, `method ${one}`]),
    ...[...Array(kind.layers).keys()].filter((one) => one !== layerOf(kind, selection)).map((one) => [`layer:${one}`, `layer ${one}`]),
    ...models.filter(({ name, task }) => name !== model.name && task === model.task).map(({ name }) => [`model:${name}`, `model ${name}`]),
    ['input', model.inputs.width ? 'the image with patches covered' : 'another text'],
  ]
  const again = (event) => {
    event.preventDefault()
    change({ compare: 'input', with: event.target.elements.with.value })
  }
  return html`<label>Compare with <select id="compare" name="compare" value=${selection.compare} onChange=${({ target }) => change({ compare: target.value, with: '' })}>
      ${choices.map(([value, words]) => html`<option key=${value} value=${value}>${words}</option>`)}</select></label>
    ${what === 'input' && !model.inputs.width && html`<form class="row" onSubmit=${again}>
      <input type="text" name="with" aria-label="Another text" defaultValue=${selection.with} value=${selection.with} /><button>Compare</button></form>`}
    ${what === 'input' && model.inputs.width && !selection.with && html`<p class="quiet">Shift and drag over the picture covers patches; so does c on the marked one.</p>`}`
}

render(html`<${App} />`, document.getElementById('app'))
