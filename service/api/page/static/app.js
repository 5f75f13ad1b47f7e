import { useGiven } from './dropped.js'
import { Header } from './header.js'
import { Evaluation, Heads } from './heads_view.js'
import { useLater } from './lazy.js'
import { useCompared, useDrawn, useInput, useLook, usePeek } from './look.js'
import { useObjects } from './objects.js'
import { Opened } from './opened.js'
import { Answers, Controls, Input, Look } from './panels.js'
import { html, render, useEffect, useLayoutEffect, useRef, useState } from './preact.js'
import { KeyDialog, Problem } from './problem.js'
import { keepPicture, labelsOf } from './question.js'
import { Request } from './request.js'
import { useOther } from './second.js'
import { aboutAnother, aboutModel, coveredOf, DRAWN, sortOf, within } from './selection.js'
import { Skip } from './skip.js'
import { useCovered, useModels, usePlayed, useSelection } from './state.js'
import { taskOf } from './tasks.js'
import { TERMS } from './words.js'

const SAID = 10000 // milliseconds for which a model that is missing is named

/** Keep the picture of a new answer, and name the answer in the address. */
function useKept(answer, input, id, change) {
  useLayoutEffect(() => { // at once: a stroke may come in between
    if (!answer?.id || !answer.input.blob || !id || id === answer.id) return // an example has no id
    if (answer.input.blob !== input?.blob) return // there is a newer picture
    keepPicture(answer.id, input)
    change({ id: answer.id })
  }, [answer?.id])
}

/** Name the model in the address, whatever was named there; return the name of one that is not served. */
function useModelNamed(chosen, model, change) {
  const [missing, setMissing] = useState('')
  useEffect(() => {
    if (!model || chosen.model === model.name) return
    setMissing(chosen.model)
    history.replaceState(null, '', '#') // nobody wants to go back to a name that is not served
    change({ model: model.name })
    setTimeout(() => setMissing(''), SAID)
  }, [model?.name, chosen.model])
  return missing
}

/**
 * Return what of a question another model reads, too: a text, or a picture or sound that the page has. What is
 * `typed` and was not asked yet is asked.
 */
function keptFor(next, { text, pair, id }, input, typed) {
  const sort = sortOf(next)
  if (sort === 'graph' || input?.kind === 'graph') return {} // nodes of another model have other types
  if (sort !== 'text') return input?.kind === sort && (input.bitmap ?? input.samples) && id ? { id } : {}
  const own = typed || text
  return own && (pair || !taskOf(next).needs) ? { text: own, pair } : {}
}

/** Return what the buttons of the first minute can do with what is drawn. */
function actsOf(model, bitmap, drawn, change) {
  const [values] = (bitmap && drawn?.panels?.[0]?.rows) || []
  const open = () => (document.querySelector('#evaluation details').open = true)
  const measure = taskOf(model).compares ? null : open // it would be a likeness to another input
  if (!values) return { measure }
  const hottest = values.indexOf(Math.max(...values))
  return { measure, cover: () => change({ covered: String(hottest), compare: 'input' }) }
}

/** Say in the document which model is asked, and whether something is on its way. */
function useDocument(model, busy) {
  useLayoutEffect(() => {
    document.body.dataset.busy = String(busy)
  }, [busy])
  useEffect(() => {
    document.title = model ? `${model.name} · regard` : 'regard'
  }, [model?.name])
}

function App() {
  const [chosen, change] = useSelection()
  const [picture, setPicture] = useState(null) // the one that was drawn or chosen last, or a promise of it
  const [others, setOthers] = useState({}) // the second and third picture, by what a selection calls them
  const [needsKey, setNeedsKey] = useState(false)
  const models = useModels()
  const model = models.value?.find(({ name }) => name === chosen.model) ?? models.value?.[0]
  const sought = useInput(model, chosen, picture)
  const { input } = sought
  const missing = useModelNamed(chosen, model, change)
  const [seenBefore, remember] = useState({ value: null, refusal: null })
  const second = useOther('other', model, chosen, others, change, seenBefore)
  const third = useOther('than', model, chosen, others, change, seenBefore)
  const about = (part) => change(aboutAnother(part))
  const take = (next) => {
    setPicture(next)
    about(next ? { id: next.drawing ? DRAWN : 'new' } : { example: 'none' })
  }
  const [several, takeSeveral] = useState(null) // files that were given at once
  const given = useGiven(model, input, { take, ask: (text) => about({ text }), takeSeveral })
  const { Several, wrong } = useLater(several)
  const typed = useRef('') // a text that was not asked yet
  const wanted = {
    ...chosen, pair: input?.pair ?? chosen.pair, // an example may have a second text, too
    labels: labelsOf(model, chosen),
    other: second.refusal ? '' : chosen.other, against: second.id,
    than: third.refusal ? '' : chosen.than, rather: third.id, waits: second.busy || third.busy,
  }
  const selection = model ? within(model, wanted) : wanted

  const main = useLook(model, input, selection)
  useEffect(() => remember({ value: main.look, refusal: main.refusal }), [main.look, main.refusal])
  const answer = main.asked.value
  const [playing, play] = usePlayed([answer?.id, selection.kind, selection.merge].join())
  const drawn = useDrawn(main.look, selection.heads)
  const items = answer?.results && taskOf(answer.model).items?.(answer.results[0])
  const objects = useObjects(items ?? drawn?.found ?? [], selection, change)
  const bitmap = main.look?.answer.input.bitmap
  const edited = useCovered(coveredOf(selection), bitmap, drawn)
  const compared = useCompared(models.value ?? [], model, input, edited, selection, main)
  const peek = usePeek(compared.look ? null : model, input, selection, main, objects)
  const peeked = useDrawn(peek.look, selection.heads)
  const pointed = { ...main, look: peek.look ?? main.look, stale: main.stale || peek.busy }
  useKept(answer, input, chosen.id, change)

  const asked = [models, sought, second, third, main, compared]
  const failed = asked.find(({ refusal }) => refusal)
  const refusal = failed?.refusal
  useEffect(() => setNeedsKey(refusal?.status === 401), [refusal])
  useDocument(model, asked.some(({ busy }) => busy))

  const takeOther = (part, next) => {
    setOthers({ ...others, [part]: next })
    change({ [part]: 'new' })
  }
  const problem = html`<${Problem}
    refusal=${needsKey ? null : refusal} again=${failed?.again} askKey=${() => setNeedsKey(true)} />`
  const dialog = html`<${KeyDialog}
    open=${needsKey} refusal=${refusal} given=${failed?.again} close=${() => setNeedsKey(false)} />`
  if (!model) {
    const none = models.value && html`<p>No model is loaded.</p>`
    return html`<${Header} /><main>${problem} ${none}</main>${dialog}`
  }
  const chooses = { model, selection, change }
  const seen = { input, main, drawn, objects }
  const ask = (name) => {
    const next = models.value.find((one) => one.name === name)
    change(aboutModel(name, keptFor(next, chosen, input, typed.current)))
  }
  return html`
    <${Skip} to="look">Skip to what it looked at<//>
    <${Header} models=${models.value} model=${model} choose=${ask} missing=${missing} main=${main}
      compared=${compared} selection=${selection} />
    <main>
      <div class="column">
        <${Input} ...${chooses} about=${about} input=${input} take=${take} takeOther=${takeOther} given=${given}
          takeSeveral=${takeSeveral} typed=${typed} acts=${actsOf(model, bitmap, drawn, change)} />
        <${Answers} ...${chooses} ...${seen} compared=${compared} playing=${playing} play=${play} problem=${problem}
          about=${about} second=${second} third=${third} />
      </div>
      <div class="column wide">
        ${several && wrong && html`<p class="problem">${wrong}</p>`}
        ${several && Several && html`<${Several} key=${Boolean(model.inputs.width)} ...${chooses} files=${several}
          take=${take} about=${about} close=${() => takeSeveral(null)} />`}
        <${Look} ...${chooses} ...${seen} main=${pointed} drawn=${peeked ?? drawn} compared=${compared}
          playing=${playing} second=${second} about=${about} />
      </div>
      <div class="column beside">
        <${Controls} ...${chooses} models=${models.value} input=${input} main=${main} />
        <${Heads} ...${chooses} ...${seen} />
      </div>
      <div class="column after">
        <${Evaluation} ...${chooses} ...${seen} />
        <${Opened} id="inside" words="One step inside" term=${TERMS.inside} part="Inside" ...${chooses} ...${seen} />
        <${Opened} id="fed" words="What was fed" term=${TERMS.fed} part="WhatWasFed" ...${chooses} ...${seen} />
        <${Request} look=${main.look} selection=${selection} stale=${main.stale} again=${main.asked.again} />
      </div>
    </main>
    ${dialog}`
}

const place = document.getElementById('app')
place.replaceChildren() // it says that the page is loading
render(html`<${App} />`, place)
