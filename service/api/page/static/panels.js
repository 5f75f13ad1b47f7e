import { Asking } from './asking.js'
import { Compare } from './compare.js'
import { LookControls } from './controls.js'
import { DrawControls } from './drawing.js'
import { ImageView } from './image_view.js'
import { Examples, TextInput } from './inputs.js'
import { Invitation } from './invitation.js'
import { Later } from './lazy.js'
import { useDrawn } from './look.js'
import { Nearest } from './nearest.js'
import { ImageInput } from './pad.js'
import { BetweenObjects } from './objects_view.js'
import { html, useState } from './preact.js'
import { Present } from './present.js'
import {
  aboutKind, carriedOf, coveredOf, hasObjects, hasWords, kindOf, kindsOf, looksAtItsText, pinnedOf, rowNamed,
  sortOf,
} from './selection.js'
import { Likeness, OtherInputs } from './second.js'
import { PartsView, SimilarView } from './states_view.js'
import { Skip } from './skip.js'
import { Streaming } from './streaming.js'
import { taskOf, thresholdOf, viewOf } from './tasks.js'
import { TextView } from './text_view.js'
import { InPlace } from './tokens.js'
import { percent } from './values.js'
import { EXPLAINS, NOTHING } from './words.js'

/** What is asked: the model's task, its examples, one's own text or picture, and options of generation. */
export function Input({ model, selection, change, about, input, take, takeSeveral, takeOther, given, typed, acts }) {
  const { id, text, example } = selection
  const [turn, setTurn] = useState(0) // of choices of an example: each drops what is typed
  const shown = example || (input && !text && !id ? '0' : '')
  const { title, Options } = taskOf(model)
  const sort = sortOf(model)
  const file = input?.kind === sort ? input : null
  const asText = { key: turn, model, input, take: about, typed }
  const own = {
    image: () => html`<${ImageInput} picture=${file} take=${take}
      takeSeveral=${takeSeveral} most=${model.limits.image_pixels} over=${given.over} />`,
    sound: () => html`<${Later} part="SoundInput" sound=${file} take=${take} over=${given.over} />`,
    graph: () => html`<${Later} part="GraphInput" key=${turn} model=${model} json=${text || file?.json}
      take=${about} />`,
    text: () => (model.inputs.chat ? html`<${Later} part="ChatInput" ...${asText} />`
      : html`<${TextInput} ...${asText} />`),
  }[sort]
  return html`<section id="input" aria-label="Input" tabindex="-1">
    <p><strong>${title}</strong> ${model.about}</p>
    ${model.examples?.length > 0 && html`<${Invitation} acts=${acts} />`}
    <${Examples} examples=${model.examples} chosen=${shown}
      choose=${(at) => (setTurn(turn + 1), about({ example: at }))} />
    ${given.notice && html`<p class="caution" role="alert">${given.notice}</p>`}
    ${own()}
    <${OtherInputs} model=${model} selection=${selection} change=${change} take=${takeOther} />
    ${Options && html`<${Options} model=${model} selection=${selection} change=${change} />`}
    <${Skip} to="controls">Skip to how it is looked at<//>
  </section>`
}

/** What the model answered, and below it the answer that it is compared with; `problem` says why there is none. */
export function Answers({
  model, selection, change, input, main, compared, drawn, objects, playing, problem, play, about, second, third,
}) {
  const { value: answer, busy, behind, refusal } = main.asked
  const old = input === undefined || (busy && (behind || !answer?.streaming)) || refusal
  const ofAnswer = (name) => kindOf(model, { kind: name }).query === 'target'
  const { name } = kindOf(model, selection)
  const rows = ofAnswer(name) && !selection.merge // a row is a token of the answer
  const shown = ofAnswer(name) ? {} : aboutKind(model, selection, kindsOf(model).find(ofAnswer))
  const shared = {
    pinned: rows ? playing ?? pinnedOf(selection) : null,
    pin: (row) => change({ ...shown, merge: '', row: rowNamed(row) }),
    objects,
    least: thresholdOf(model, selection),
  }
  const results = answer?.results ?? (answer && drawn?.found?.length ? [{ objects: drawn.found }] : null)
  const others = compared.look && compared.answer?.results
  const nothing = main.stale ? '' : answer ? 'The answer itself is not kept, its attention is.'
    : NOTHING[model.state]
  const said = results && !refusal ? taskOf(answer.model).said(results[0]) : ''
  const replay = !rows ? null : () => play(answer.results[0].tokens.length)
  return html`<section id="answer" aria-label="Answer" tabindex="-1">
    <div class="row"><h2>Answer</h2>
      <small role="status">${main.busy ? 'asking…' : html`<span class="hidden-words">${said}</span>`}</small>
      <${Asking} busy=${main.busy} stop=${main.stop} />
    </div>
    ${problem}
    <div class=${old ? 'stale' : ''}>
      ${results
        ? html`<${viewOf(results[0])} ...${shared} results=${results} streaming=${answer.streaming}
            replay=${replay} playing=${playing !== null} />`
        : html`<p class="quiet">${nothing}</p>`}
      <${Likeness} one=${results?.[0].embedding} other=${second.embedding} />
      <${Likeness} one=${results?.[0].embedding} other=${third.embedding} which="third" />
      ${results?.[0].embedding && model.inputs.width && answer.model.name === model.name && html`<${Nearest}
        model=${model} embedding=${results[0].embedding} choose=${(example) => about({ example })} />`}
      ${others && html`<div class=${compared.busy ? 'stale' : ''}>
        <h3>${compared.there}</h3>
        <${Likeness} one=${others[0].embedding} other=${second.embedding} />
        <${viewOf(others[0])} ...${shared} results=${others}
          before=${others[0].embedding && compared.look.model.name !== model.name ? null : answer?.results} />
      </div>`}
    </div>
  </section>`
}

/** What the model looked at, and beside it the look that it is compared with. */
export function Look({ model, selection, change, main, compared, drawn, objects, playing, second, about }) {
  const { look, stale, asked: { value: answer } } = main
  const bitmap = look?.answer.input.bitmap
  const beside = useDrawn(compared.look, selection.heads)
  const alike = beside && drawn && Boolean(beside.panels) === Boolean(drawn.panels) // they do not come at the same time
  const other = alike ? { ...compared, look: beside, source: compared.look.answer.input.bitmap } : null
  const shared = { look: drawn, other, selection, change }
  const go = (step) => {
    const [at, count] = [Number(selection.example || 0), model.examples?.length ?? 0]
    if (count) about({ example: String((at + step + count) % count) })
  }
  const cover = (cells) => change({ covered: cells.join(), compare: cells.length ? 'input' : '', with: '' })
  const image = () => html`
    ${drawn.opposite?.text && html`<${Later} part="LabelWords" look=${drawn.opposite} />`}
    <${ImageView} ...${shared}
    source=${bitmap}
    opposite=${drawn.opposite?.panels && { look: drawn.opposite, source: second.bitmap }}
    word=${playing ?? (drawn.words.length ? pinnedOf(selection) : null)}
    objects=${objects}
    ofObjects=${hasObjects(look.kind)}
    fixed=${look.kind.query === 'object' || carriedOf(model, look.kind, look.options.attention)}
    covered=${bitmap ? coveredOf(selection) : []}
    cover=${bitmap ? cover : undefined}
    prefix=${look.kind.prefix}
    explains=${EXPLAINS.includes(look.options.attention)} />`
  const states = () => html`<${drawn.states === 'parts' ? PartsView : SimilarView}
    look=${drawn} sources=${[bitmap, second.bitmap]} selection=${selection} change=${change} />`
  const text = () => html`<${TextView} ...${shared}
    kind=${look.kind}
    playing=${playing}
    edit=${editOf(look, change)} />
    ${drawn.opposite && html`<${Opposite} look=${drawn.opposite} />`}`
  const between = () => html`<${BetweenObjects} ...${shared} kind=${look.kind} objects=${objects} source=${bitmap} />`
  const streaming = () => html`<${Streaming}
    answer=${answer}
    kind=${answer.model.attention.kinds.cross}
    colormap=${selection.colormap} />`
  const view = answer?.streaming ? streaming : drawn
    && (drawn.states ? states : look.kind.key === 'image' ? image : look.kind.query === 'object' ? between : text)
  const sound = answer?.input.kind === 'sound' && answer.model.name === model.name
  const live = answer?.streaming && !main.asked.behind && !main.asked.refusal
  const old = (stale && !live) || (compared.look && compared.busy)
  return html`<section id="look" aria-label="What it looked at" tabindex="-1" class=${old ? 'stale' : ''}>
    <div class="row"><h2>What it looked at</h2>
      ${drawn && html`<${Present} caption=${captionOf(look)} go=${go} />`}
    </div>
    ${sound && html`<${Later} part="SoundView" sound=${answer.input} result=${answer.results[0]} selection=${selection}
      look=${look?.kind.name === 'cross' ? drawn : null} step=${model.inputs.step} most=${model.inputs.seconds} />`}
    ${view?.()}
    ${drawn && html`<${Completeness} maps=${look.attention.maps} />`}
    ${drawn && html`<${RestsOn} maps=${look.attention.maps} pinned=${playing ?? pinnedOf(selection)}
      parts=${partsOf(look.model)} />`}
  </section>`
}

/** Return what is seen in a line: the model, its answer, and how it is looked at. */
function captionOf({ answer, model, options: { attention, layers, heads } }) {
  const result = answer.results?.[0]
  const how = [attention, layers !== undefined && `layer ${layers}`, heads !== undefined && `heads: ${heads}`]
  return [`${model.name}:`, result ? `${taskOf(model).said(result)};` : '', how.filter(Boolean).join(', ')].join(' ')
}

/** The other text, where both sides of a likeness are explained. */
function Opposite({ look: { rows, columns, series: [{ values }], signed, text } }) {
  return html`<figure id="opposite">
    <figcaption>The text that it is compared with</figcaption>
    <${InPlace} rows=${rows} columns=${columns} values=${values} signed=${signed} text=${text} />
  </figure>`
}

const MOST_ERROR = 0.05 // of a difference that is explained: where values miss more of it, they say little

/** How far the values along a path add up to what they explain; nothing of other methods. */
function Completeness({ maps }) {
  const missed = maps.flatMap((map) => [map, ...map.targets ?? []])
    .flatMap(({ completeness }) => (completeness ? [completeness.relative_error] : []))
  if (!missed.length) return null
  const most = Math.max(...missed)
  return html`<p class=${most > MOST_ERROR ? 'caution' : 'quiet'} id="completeness">
    ${most > MOST_ERROR
      ? `The values miss ${percent(most)} of the difference that they explain: they say little here.`
      : `The values add up to the difference that they explain, but for ${percent(most)}.`}
  </p>`
}

const PARTS = {
  instructions: 'the instructions', context: 'the messages', source: 'the text', prefix: 'what was written before',
  start: 'what begins it', template: 'what stands around messages',
}
const partsOf = ({ inputs }) =>
  (inputs.height ? { ...PARTS, source: 'the picture' } : inputs.seconds ? { ...PARTS, source: 'the sound' } : PARTS)

/** By how much the `pinned` token of an answer, or without one all of it, rests on each part of what was read. */
function RestsOn({ maps: [{ targets }], pinned, parts: names }) {
  const explained = (targets ?? []).filter(({ parts }) => parts)
  if (!explained.length) return null
  const one = explained.find(({ position }) => position === pinned)
  const chosen = one ? [one] : explained
  const share = (name) => chosen.reduce((sum, { parts }) => sum + (parts[name]?.share ?? 0), 0) / chosen.length
  const said = Object.keys(names).filter((name) => chosen.some(({ parts }) => parts[name]))
    .map((name) => `${names[name]} ${percent(share(name))}`)
  return html`<p class="quiet" id="rests-on">${one ? `“${one.text}”` : 'The answer'} rests on ${said.join(', ')}.</p>`
}

/** Return what compares with the text that is `changed`: other words in place of a token; its `mask` is the model's. */
function editOf({ answer: { input }, model }, change) {
  if (input.kind !== 'text' || input.messages) return null
  const letters = [...input.text]
  const changed = ({ span: [from, to] }, words) => letters.slice(0, from).join('') + words + letters.slice(to).join('')
  const edit = (token, words) => change({ compare: 'input', with: changed(token, words) })
  return Object.assign(edit, { changed, mask: model.inputs.mask })
}

/** What chooses the look, what it is compared with, and how it is drawn. */
export function Controls({ models, model, selection, change, main, input }) {
  const kind = kindOf(model, selection)
  const shared = { model, selection, change }
  return html`<section id="controls" aria-label="Controls" tabindex="-1">
    <${LookControls} ...${shared} labels=${main.asked.value?.results?.[0].labels} />
    <${Compare} ...${shared} models=${models} input=${input} />
    <${DrawControls} ...${shared} text=${kind.key !== 'image'} pairs=${looksAtItsText(kind)}
      asks=${hasWords(kind)} />
  </section>`
}
