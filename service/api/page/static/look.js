import { useAsked, useResolved } from './asked.js'
import { placed } from './chat.js'
import { foundIn, imageLook, statesLook, textLook, withinSound } from './looks.js'
import { useEffect, useMemo, useRef, useState } from './preact.js'
import { attentionOf, GONE, inputOf, question } from './question.js'
import { askedOf, compareOf, isLong, kindOf, layerOf, ofShown, optionsOf, sortOf } from './selection.js'
import { queryOf } from './service.js'
import { taskOf, thresholdOf } from './tasks.js'
import { STATES } from './words.js'

const PAUSE = 120 // milliseconds

const serials = new WeakMap() // of pictures: each is asked about once
let serial = 0

/** Return what tells an input from others. */
export function nameOf(input) {
  const said = () => JSON.stringify([input.messages ?? input.text, input.pair])
  const own = { text: said, graph: () => input.json, kept: () => input.id }
  if (own[input.kind]) return own[input.kind]()
  if (!serials.has(input)) serials.set(input, ++serial)
  return serials.get(input)
}

/**
 * Return the `input` that a selection names, undefined while it is on its way, null where the model cannot take it; or
 * a `refusal`, and what seeks it `again`.
 */
export function useInput(model, { id, text, pair, chat, example }, picture) {
  const [turn, setTurn] = useState(0)
  const sought = useMemo(
    () => (model ? inputOf(model, { id, text, pair, chat, example }, picture) : null),
    [model, id, text, pair, chat, example, picture, turn],
  )
  const [found, refusal] = useResolved(sought)
  const fits = !found || !model || found.kind === 'kept' || found.kind === sortOf(model)
  return { input: fits ? found : null, refusal, again: () => setTurn(turn + 1) }
}

/**
 * Ask a model about an input, and look at the answer; once more if the service has forgotten it meanwhile. An input
 * that is undefined is still on its way; one that is null is none. With `from`, another look's answer is looked at.
 */
export function useLook(model, input, selection, from = null) {
  const nothing = input === undefined ? undefined : null
  const about = !model || !input ? nothing
    : JSON.stringify([model.name, nameOf(input), taskOf(model).options(model, selection)])
  const asked = useAsked(from ? null : about, (signal, show) => question(model, input, selection, signal, show))
  const answer = useShown(from ?? asked, selection)
  const ready = model && !answer.behind && answer.value?.id && answer.value.model.name === model.name
  const shown = ofShown(selection, answer.value)
  const options = ready ? { ...optionsOf(model, shown), encoding: 'base64' } : {}
  const waits = selection.waits && (options.against || STATES.includes(options.attention)) // for the second picture
  const long = model && isLong(model, answer.value)
  const nobody = about === null || long
  const key = ready && !waits && !long ? `${answer.value.id}?${queryOf(options)}` : nobody ? null : undefined
  const look = useAsked(key, async (signal) => {
    const attention = await attentionOf(answer.value.id, queryOf({ ...options, model: model.name }), signal)
    return { attention, answer: answer.value, model, kind: kindOf(model, selection), options, selection: shown }
  })
  useForgotten(look, input, answer)
  useEffect(() => {
    if (model?.state === 'ready' && answer.refusal?.status === 503) answer.again() // it was warming up
  }, [model?.state])
  const lost = look.refusal?.status === 404 && input?.kind === 'kept' && { ...look.refusal, message: GONE }
  const refusal = answer.refusal ?? (lost || look.refusal)
  const busy = input === undefined || answer.busy || look.busy || Boolean(waits)
  const again = answer.refusal ? answer.again : look.again
  const stop = () => (answer.stop(), look.stop())
  return { asked: answer, look: look.value, refusal, busy, stale: busy || Boolean(refusal), again, stop }
}

/** Return what was asked, with its answer as that of the item that is chosen, where it has several. */
function useShown(asked, { object }) {
  const { value } = asked
  const shown = useMemo(() => {
    const task = value?.results && taskOf(value.model)
    return task?.shown ? task.shown(value, { object }) : value
  }, [value, object])
  return { ...asked, value: shown }
}

/** Look at the item of an answer that somebody points at; nothing where it is looked at already. */
export function usePeek(model, input, selection, main, { hovered, pinned }) {
  const [object, point] = useState(null)
  const items = (main.asked.value?.results && taskOf(main.asked.value.model).items?.(main.asked.value.results[0])) ?? []
  const wanted = items.length && hovered !== (pinned ?? items[0].object) ? hovered : null
  useEffect(() => {
    const timer = setTimeout(() => point(wanted), wanted === null ? 0 : PAUSE) // whoever passes over many asks for one
    return () => clearTimeout(timer)
  }, [wanted])
  const named = { ...selection, object: String(wanted) }
  return useLook(wanted !== null && object === wanted ? model : null, input, named, main.asked)
}

/** Ask once more where the service has forgotten an answer; in vain where only the service had its input. */
export function useForgotten({ refusal, value }, input, answer) {
  const tried = useRef(false)
  useEffect(() => {
    if (value) tried.current = false
  }, [value])
  useEffect(() => {
    if (refusal?.status !== 404 || !input || input.kind === 'kept' || tried.current) return
    tried.current = true // once, so that two do not go on for ever
    answer.again()
  }, [refusal])
}

/** Return what is drawn of a look (nothing without one), unpacked once for the heads that are chosen. */
export const useDrawn = (look, heads) => useMemo(() => look && drawnOf(look, heads), [look, heads])

function drawnOf({ attention, answer, model, kind, options, selection }, heads) {
  const found = foundIn(attention, answer.results?.[0].objects, thresholdOf(model, selection))
  if (kind.key === 'image') return STATES.includes(attention.method) ? statesLook(attention)
    : { ...imageLook(attention, kind, null, found), opposite: oppositeOf(attention, kind, answer.input) }
  if (STATES.includes(attention.method) && attention.against) return betweenTexts(attention, kind, answer.input, heads)
  const text = answer.input.text ?? ''
  const written = answer.results?.[0].tokens ?? []
  const merged = Boolean(options.merge)
  const { pair } = answer.input
  const { row, items } = taskOf(model)
  const all = (answer.results && items?.(answer.results[0])) ?? []
  const about = (all.find(({ object }) => String(object) === selection.object) ?? all[0])?.tokens?.[0]
  const { mask, step, edge_types: edges } = model.inputs
  const { messages } = answer.input
  const looked = messages ? { ...attention, tokens: placed(attention.tokens, messages) } : attention
  const seen = textLook(looked, kind, {
    text, pair, row, written, heads, mask, merged, found, about, step, edges, turns: messages?.length,
  })
  const { duration } = answer.results?.[0] ?? {}
  if (duration) return withinSound(seen, kind, Math.min(duration / model.inputs.seconds, 1))
  const { method, against } = attention
  const other = { text: answer.input.pair ?? '', written: [], heads, merged }
  return { ...seen, opposite: against?.maps ? textLook({ ...against, method }, kind, other) : null }
}

/** Return what is drawn of the words of two texts (columns of the second) that are alike. */
function betweenTexts({ method, tokens: { source }, against }, { query, ...kind }, { pair }, heads) {
  const tokens = { source: against.tokens.source, first: source.map((token) => ({ ...token, sequence: 0 })) }
  return textLook({ ...against, method, tokens }, { ...kind, query: 'first' }, { text: pair, written: [], heads })
}

/** Return what is drawn of the other picture, or of a text, where both sides of a likeness are explained; else null. */
function oppositeOf({ method, against }, kind, { pair }) {
  if (!against?.maps) return null
  return against.tokens.source ? { ...against, method, text: pair } : imageLook({ ...against, method }, kind)
}

/** Look at what the selection compares with: by another method or layer, of another model or input (`edited`). */
export function useCompared(models, model, input, edited, selection, main) {
  const [what, value] = compareOf(models, model, selection, input).split(':')
  const asks = what === 'model' || what === 'input' // else it is another look at the same answer
  const other = what === 'model' ? models.find(({ name }) => name === value) : model
  const text = what === 'input' && selection.with && { kind: 'text', text: selection.with, pair: selection.pair }
  const its = what === 'input' ? text || edited : what ? input : null
  const part = { method: { method: value }, layer: { layer: value } }[what]
  const chosen = what === 'model' && other ? askedOf(model, other, selection) : { ...selection, ...part }
  const [first] = (what === 'input' && main.asked.value?.results?.[0].labels) || [] // its class is explained of both
  chosen.target ||= String(first?.index ?? '')
  const found = useLook(its && other ? other : null, its, chosen, what && !asks ? main.asked : null)
  if (!what || !its) return { busy: false }
  if (found.refusal) return { ...found, look: null, answer: null } // the one before would stand under the new name
  const names = { // of what is shown, which is the one before until the new one comes
    method: ({ options }) => options.attention,
    layer: ({ kind, selection: its }) => `layer ${layerOf(kind, its)}`,
    model: (look) => [look.model.name, look.options.attention].join(', '),
    input: ({ answer: { input: { kind, text: other } } }) => (kind === 'text' ? `“${other}”` : 'covered'),
  }
  const [here, there] = [main.look, found.look].map((look) => (look ? names[what](look) : ''))
  const comparable = found.look?.options.attention === main.look?.options.attention // one unit: one scale, a difference
  const answer = asks ? found.asked.value : null
  return { ...found, answer, comparable, here: what === 'input' ? 'as it was' : here, there }
}
