import { useAsked } from './asked.js'
import { coveredImage } from './image_file.js'
import { useEffect, useLayoutEffect, useState } from './preact.js'
import { modelsOf } from './question.js'
import { readAddress, writeAddress } from './selection.js'

const WARMING = 1000 // milliseconds between two looks at models that are warming up
const STEP = 500 // milliseconds of a step that is played

/** Return the selection, which is the page's address, and what changes a part of it. */
export function useSelection() {
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

/** Return the picture of a look with some patches covered, as what is sent; null without any. */
export function useCovered(cells, bitmap, drawn) {
  const [made, setMade] = useState(null)
  useEffect(() => setMade(cells.length && bitmap ? coveredImage(bitmap, drawn, cells) : null), [cells.join(), bitmap])
  return made
}

/** Return the step of an answer that is being played, null if none is, and what plays `count` of them. */
export function usePlayed() {
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
