import { pictureOf } from './image_file.js'
import { useEffect, useState } from './preact.js'
import { sortOf } from './selection.js'
import { soundOf } from './sound_file.js'

/** Return whether a file is a text, by its type or its name. */
export const isText = ({ type, name = '' }) => type.startsWith('text/') || /\.(txt|csv|tsv|md)$/i.test(name)

/** Return whether a file is JSON, as a graph is. */
const isJson = ({ type, name = '' }) => type === 'application/json' || /\.json$/i.test(name)

/** Return whether a file is a table of many inputs. */
export const isTable = ({ name = '' }) => /\.(csv|tsv)$/i.test(name)

/** Return the files that are dropped, those of folders too, each with the `folder` that it lies in; as a promise. */
async function filesOf({ items, files }) {
  const entries = [...items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean)
  if (!entries.some(({ isDirectory }) => isDirectory)) return [...files]
  const read = async (entry, folder) => {
    if (entry.isFile) {
      const file = await new Promise((done, fail) => entry.file(done, fail))
      return [Object.assign(file, { folder })]
    }
    const reader = entry.createReader()
    const within = []
    for (;;) { // it gives a hundred at a time
      const some = await new Promise((done, fail) => reader.readEntries(done, fail))
      if (!some.length) break
      within.push(...some)
    }
    return (await Promise.all(within.map((one) => read(one, entry.name)))).flat()
  }
  return (await Promise.all(entries.map((entry) => read(entry, '')))).flat()
}

/** Call `take({files, text})` with what is pasted or dropped anywhere; return whether files are dragged over it. */
function useDropped(take) {
  const [over, setOver] = useState(false)
  useEffect(() => {
    const paste = ({ target, clipboardData: given }) => {
      const [files, text] = [[...given.files], given.getData('text/plain')]
      if (text && target.closest('input, textarea')) return // it goes there, whatever else the clipboard holds
      if (files.length || text) take({ files, text })
    }
    const drag = (event) => {
      if (!event.dataTransfer.types.includes('Files')) return // a text may be dragged elsewhere
      event.preventDefault() // the browser would leave the page for the file
      setOver(event.type === 'dragover')
      if (event.type === 'drop') filesOf(event.dataTransfer).catch(() => []).then((files) => take({ files, text: '' }))
    }
    const listened = Object.entries({ paste, dragover: drag, dragleave: drag, drop: drag })
    listened.forEach(([name, listener]) => addEventListener(name, listener))
    return () => listened.forEach(([name, listener]) => removeEventListener(name, listener))
  }, [take])
  return over
}

const NOT_TAKEN = {
  nothing: 'Nothing was found in it that could be asked about.',
  text: 'This model reads pictures: give it one, or choose a model of texts.',
  sound: 'This model hears sounds: give it one, or choose another model.',
  graph: 'This model reads graphs: give it one as JSON, or choose another model.',
  image: 'This model reads texts: give it one, or choose a model of pictures.',
  file: 'This is neither a text nor a table of texts: give it one of type txt, csv or tsv.',
}

/**
 * Take what is dropped or pasted anywhere on the page as a model's input: one picture (`take`), one text or graph
 * (`ask`), or several (`takeSeveral`). Return whether files are `over` the page, and the `notice` of what the model
 * does not read, until another `question` is asked.
 */
export function useGiven(model, question, { take, ask, takeSeveral }) {
  const [notice, say] = useState('')
  const sort = model && sortOf(model)
  const [sees, hears] = [sort === 'image', sort === 'sound']
  const receive = ({ files, text }) => {
    const [file] = files
    const words = !file && text.trim()
    if (!file && !words) return say(NOT_TAKEN.nothing)
    say('')
    if (hears) {
      if (file && !isText(file) && !file.type.startsWith('image/')) take(soundOf(file, file.name ?? 'sound'))
      else say(NOT_TAKEN.sound)
    } else if (sort === 'graph') {
      if (words) ask(words)
      else if (isJson(file)) file.text().then(ask)
      else say(NOT_TAKEN.graph)
    } else if (files.length > 1 || (file && isTable(file))) takeSeveral(files)
    else if (sees && file && !isText(file)) take(pictureOf(file, file.name ?? 'image.png'))
    else if (sees) say(NOT_TAKEN.text)
    else if (words) ask(words)
    else if (isText(file)) file.text().then((read) => (read.trim() ? ask(read.trim()) : say(NOT_TAKEN.nothing)))
    else say(NOT_TAKEN[file.type.startsWith('image/') ? 'image' : 'file'])
  }
  const over = useDropped(receive)
  useEffect(() => say(''), [model?.name, question])
  return { over, notice }
}
