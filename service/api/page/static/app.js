import { Answer, GenerationOptions } from './answer.js'
import { useAsked, useResolved } from './asked.js'
import { Compare } from './compare.js'
import { DrawControls, LookControls } from './controls.js'
import { Evaluation, Heads } from './heads_view.js'
import { ImageView, coveredImage } from './image_view.js'
import { Examples, ImageInput, TextInput, fileOf } from './inputs.js'
import { drawnOf, useCompared, useLook } from './look.js'
import { html, render, useEffect, useLayoutEffect, useMemo, useState } from './preact.js'
import { KeyDialog, Problem } from './problem.js'
import { inputOf, keepPicture, modelsOf } from './question.js'
import { Request } from './request.js'
import { aboutAnother, kindOf, readAddress, writeAddress } from './selection.js'
import { Streaming } from './streaming.js'
import { TextView } from './text_view.js'
import { EXPLAINS, METHODS, TITLES } from './words.js'

const WARMING = 1000 // milliseconds between two looks at models that are warming up
const STEP = 500 // milliseconds of a step that is played

/** Return the selection, which is the page's address, and what changes a part of it. */
function useSelection() {
  const [selection, setSelection] = useState(readAddress)
  useEffect(() => {
    const back = () => setSelection(readAddress())
    addEventListener('popstate', back)
    return () => removeEventListener('popstate', back)
  }, [])
  useLayoutEffect(() => writeAddress(selection), [selection]) // at once: what is seen and what is shared are one
  return [selection, (part) => setSelection((old) => ({ ...old, ...part }))]
}

/** Return the models that are served; asked for again while some warm up. */
function useModels() {
  const models = useAsked('models', modelsOf)
  const warming = models.value?.some(({ state }) => state !== 'ready')
  useEffect(() => {
    if (!warming) return
    const timer = setTimeout(models.again, WARMING)
    return () => clearTimeout(timer)
  }, [models.value])
  return models
}

/** Return the picture with the selected patches covered, as what is sent; null without any. */
function useCovered(cells, bitmap, drawn) {
  const [made, setMade] = useState(null)
  useEffect(() => {
    if (!cells || !bitmap) return setMade(null)
    const covered = coveredImage(bitmap, drawn.image, cells.split(',').map(Number), drawn.rows, drawn.columns)
    setMade({ kind: 'image', blob: fileOf(covered), bitmap: covered, name: 'covered.png' })
  }, [cells, bitmap])
  return made
}

/** Return the step of an answer that is being played, and what plays `count` of them. */
function usePlayed() {
  const [playing, setPlaying] = useState(null)
  const play = (count) => {
    let at = 0
    setPlaying(0)
    const timer = setInterval(() => {
      at++
      setPlaying(at < count ? at : null)
      if (at >= count) clearInterval(timer)
    }, STEP)
  }
  return [playing, play]
}

function App() {
  const [chosen, change] = useSelection()
  const [picture, setPicture] = useState(null) // the one that was drawn or chosen last, or a promise of it
  const [needsKey, setNeedsKey] = useState(false)
  const [playing, play] = usePlayed()
  const models = useModels()
  const model = models.value?.find(({ name }) => name === chosen.model) ?? models.value?.[0]

  const { id, text, pair, example } = chosen
  const sought = useMemo(
    () => (model ? inputOf(model, chosen, picture) : null), [model, id, text, pair, example, picture])
  const found = useResolved(sought)
  const fits = !found || !model || found.kind === 'kept' || (found.kind === 'image') === Boolean(model.inputs.width)
  const input = fits ? found : null
  const selection = { ...chosen, pair: input?.pair ?? pair } // an example may have a second text, too

  const main = useLook(model, input, selection)
  const answer = main.asked.value
  const drawn = main.look && drawnOf(main.look, selection)
  useEffect(() => {
    if (!answer?.id || answer.input.kind !== 'image' || id !== 'new') return
    keepPicture(answer.id, answer.input)
    change({ id: answer.id })
  }, [answer?.id])
  const bitmap = main.look?.answer.input.bitmap
  const edited = useCovered(selection.covered, bitmap, drawn)
  const compared = useCompared(models.value, model, input, edited, selection, main)

  const failed = [models, main, compared].find(({ refusal }) => refusal)
  const refusal = failed?.refusal
  useEffect(() => setNeedsKey(refusal?.status === 401), [refusal])
  const busy = [models, main, compared].some((one) => one.busy)
  useLayoutEffect(() => {
    document.body.dataset.busy = String(busy)
  }, [busy])
  useEffect(() => {
    document.title = model ? `${model.name} · regard` : 'regard'
  }, [model?.name])

  const about = (part) => change(aboutAnother(part))
  const problem = html`<${Problem} refusal=${needsKey ? null : refusal} again=${failed?.again} />`
  const dialog = html`<${KeyDialog} open=${needsKey} refusal=${refusal} given=${failed?.again} />`
  if (!model) return html`<${Head} /><main>${problem} ${models.value && html`<p>No model is loaded.</p>`}</main>${dialog}`
  const parts = { models: models.value, model, selection, change, about, input, answer, main, compared, drawn, playing }
  const take = (next) => {
    setPicture(next)
    about(next ? { id: 'new' } : { example: 'none' })
  }
  return html`
    <${Head} models=${models.value} model=${model} choose=${(name) => about({ model: name, kind: '', layer: '', heads: 'mean', method: '' })} />
    <main>
      <div class="column">
        <${Input} ...${parts} take=${take} />
        <${Answers} ...${parts} problem=${problem} play=${play} />
      </div>
      <div class="column wide">
        <${Look} ...${parts} bitmap=${bitmap} />
        <${Evaluation} ...${parts} look=${drawn} />
        <${Request} answer=${answer} options=${main.options} model=${model} />
      </div>
      <div class="column">
        <${Controls} ...${parts} />
        <${Heads} ...${parts} word=${rowOf(selection)} />
      </div>
    </main>
    ${dialog}`
}

const rowOf = ({ row }) => (row === '' ? null : Number(row))
const toggled = (row) => (row === null ? '' : String(row))

function Head({ models, model, choose }) {
  const [said, setSaid] = useState('')
  const share = async () => {
    const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false)
    setSaid(copied ? 'The address is copied.' : 'Copy the address of this page: it says all that you see.')
  }
  const option = ({ name, state }) => html`
    <option key=${name} value=${name}>${name}${state === 'ready' ? '' : ` (${state})`}</option>`
  return html`<header>
    <h1>regard</h1>
    ${models && html`<label>Model <select id="model" value=${model.name} onChange=${({ target }) => choose(target.value)}>
      ${models.map(option)}</select></label>`}
    ${model && html`<small>${[model.version, model.family, model.precision, model.provider.replace('ExecutionProvider', '')].join(' · ')}</small>`}
    <nav><small role="status">${said}</small>
      <button type="button" class="plain" id="share" onClick=${share}>Share</button> <a href="docs">API</a></nav>
  </header>`
}

function Input({ model, selection, change, about, input, take }) {
  const { id, text, example } = selection
  const shown = example || (input && !text && !id ? '0' : '')
  return html`<section id="input" aria-label="Input">
    <p class="about"><strong>${TITLES[model.task] ?? model.task}</strong> ${model.about}</p>
    <${Examples} examples=${model.examples} chosen=${shown} choose=${(at) => about({ example: at })} />
    ${model.inputs.width ? html`<${ImageInput} picture=${input?.kind === 'image' ? input : null} take=${take} />`
      : html`<${TextInput} model=${model} input=${input} take=${({ text: one, pair }) => about({ text: one, pair })} />`}
    ${model.endpoints[0] === 'generate' && html`
      <${GenerationOptions} selection=${selection} change=${change} limits=${model.limits} />`}
  </section>`
}

function Answers({ model, selection, change, input, answer, main, compared, playing, problem, play }) {
  const pinned = playing ?? rowOf(selection)
  const pin = (row) => change({ row: toggled(row) })
  const old = input === undefined || (main.asked.busy && !answer?.streaming) || main.asked.refusal
  const nothing = answer ? 'The answer itself is not kept, its attention is.'
    : model.state === 'ready' ? 'Ask something.' : 'The model is warming up.'
  return html`<section id="answer" aria-label="Answer">
    <div class="row"><h2>Answer</h2><small role="status">${main.busy ? 'asking…' : ''}</small></div>
    ${problem}
    <div class=${old ? 'stale' : ''}>
      ${answer?.results ? html`<${Answer} results=${answer.results} streaming=${answer.streaming} pinned=${pinned} pin=${pin}
          replay=${() => play(answer.results[0].tokens.length)} />` : html`<p class="quiet">${nothing}</p>`}
      ${compared.answer?.results && html`<h3>${compared.there}</h3>
        <${Answer} results=${compared.answer.results} before=${answer?.results} pinned=${pinned} pin=${pin} />`}
    </div>
  </section>`
}

function Look({ model, selection, change, answer, main, compared, drawn, playing, bitmap }) {
  const { look } = main
  const other = compared.look && {
    ...compared, look: drawnOf(compared.look, selection), source: compared.look.answer.input.bitmap,
  }
  const explains = look && EXPLAINS.includes(look.options.attention)
  const covered = bitmap && selection.covered ? selection.covered.split(',').map(Number) : []
  const cover = (cells) => change({ covered: cells.join(), compare: cells.length ? 'input' : '', with: '' })
  const word = playing ?? (drawn?.words?.length ? rowOf(selection) : null)
  const shared = { look: drawn, other, selection, change }
  const views = {
    image: () => html`<${ImageView} ...${shared} source=${bitmap} word=${word} covered=${covered} cover=${cover}
      prefix=${look.kind.prefix} explains=${explains} caption=${METHODS[look.options.attention]} />`,
    text: () => html`<${TextView} ...${shared} kind=${look.kind} playing=${playing} edit=${editOf(look, change)} />`,
  }
  const view = drawn && views[look.kind.key === 'image' ? 'image' : 'text']
  return html`<section id="look" aria-label="What it looked at" class=${main.busy || main.refusal ? 'stale' : ''}>
    <h2>What it looked at</h2>
    ${answer?.streaming ? html`<${Streaming} answer=${answer} kind=${model.attention.kinds.cross} colormap=${selection.colormap} />` : view?.()}
  </section>`
}

/** Return what puts words in place of a token, and compares what becomes of it; its `mask` is the model's. */
function editOf({ answer: { input }, model }, change) {
  if (input.kind !== 'text') return null
  const letters = [...input.text]
  const edit = ({ span: [from, to] }, words) => change({
    compare: 'input', with: letters.slice(0, from).join('') + words + letters.slice(to).join(''),
  })
  return Object.assign(edit, { mask: model.inputs.mask })
}

function Controls({ models, model, selection, change, answer }) {
  const kind = kindOf(model, selection)
  return html`<section id="controls" aria-label="Controls">
    <${LookControls} model=${model} selection=${selection} change=${change} labels=${answer?.results?.[0].labels} />
    <${Compare} models=${models} model=${model} selection=${selection} change=${change} />
    <${DrawControls} selection=${selection} change=${change} text=${kind.key !== 'image'} pairs=${kind.name === 'encoder'} />
  </section>`
}

render(html`<${App} />`, document.getElementById('app'))
