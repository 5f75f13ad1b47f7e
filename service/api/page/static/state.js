import { readAddress, writeAddress } from './address.js'
import { useAsked } from './asked.js'
import { coveredImage } from './image_file.js'
import { useEffect, useLayoutEffect, useRef, useState } from './preact.js'
import { modelsOf } from './question.js'
import { PENDING } from './selection.js'

const WARMING = 1000 // milliseconds between two looks at models that are warming up
const STEP = 500 // milliseconds of a step that is played

/** Return the selection of a page that is opened: it has no picture that was not answered before. */
function beginning() {
  const selection = readAddress()
  return PENDING.includes(selection.id) ? { ...selection, id: '' } : selection
}

/** Return the selection, which is the page's address, and what changes a part of it. */
export function useSelection() {
  const [selection, setSelection] = useState(beginning)
  useEffect(() => {
    const back = () => setSelection(readAddress())
    addEventListener('popstate', back)
    return () => removeEventListener('popstate', back)
  }, [])
  useLayoutEffect(() => writeAddress(selection), [selection]) // at once: what is seen and what is shared are one
  return [selection, (part) => setSelection((old) => ({ ...old, ...part }))]
}

/** Return the models that are served; asked for again while some warm up. */
export function useModels() {
  const models = useAsked('models', modelsOf)
  const warming = models.value?.some(({ state }) => state !== 'ready')
  useEffect(() => {
    if (!warming) return
    const timer = setTimeout(models.again, WARMING)
    return () => clearTimeout(timer)
  }, [models.value])
  return models
}

/** Return the picture of a look with some patches covered, as what is sent; null without any, or without patches. */
export function useCovered(cells, bitmap, drawn) {
  const [made, setMade] = useState(null)
  const covers = cells.length > 0 && bitmap && drawn?.panels
  useEffect(
    () => setMade(covers ? coveredImage(bitmap, drawn, cells) : null),
    [cells.join(), bitmap, covers && drawn.columns],
  )
  return made
}

/**
 * Return the step that is being played, null if none is, and what plays `count` of them, or stops. `rows` names whose
 * rows they are: the answer, and how it is looked at.
 */
export function usePlayed(rows) {
  const [playing, setPlaying] = useState(null)
  const timer = useRef(null)
  const stop = () => {
    clearInterval(timer.current)
    setPlaying(null)
  }
  const play = (count) => {
    if (playing !== null) return stop()
    let at = 0
    setPlaying(0)
    timer.current = setInterval(() => (++at < count ? setPlaying(at) : stop()), STEP)
  }
  useEffect(() => stop, [rows]) // other rows are no steps, or have yet to be asked for
  return [playing, play]
}
