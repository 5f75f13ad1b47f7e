import { saveFile } from './html_file.js'
import { fileOf } from './image_file.js'

const [WIDTH, MARGIN, LINE] = [1200, 24, 28] // pixels of a picture that is copied, and around and below its parts
const FONT = '20px system-ui, sans-serif'
const NAMESPACE = 'http://www.w3.org/2000/svg'

/** Return the lines of a text that fit into a width. */
function wrapped(brush, text, width) {
  const lines = ['']
  for (const word of text.split(/\s+/)) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word
    if (brush.measureText(longer).width <= width || !lines.at(-1)) lines[lines.length - 1] = longer
    else lines.push(word)
  }
  return lines
}

/** Return what is drawn in the look as one picture, with its legend and a caption; null where nothing is drawn. */
function drawnPicture(caption) {
  const figures = [...document.querySelectorAll('#look figure')].map((one) => ({
    canvas: one.querySelector('canvas'), words: one.querySelector('figcaption')?.innerText ?? '',
  })).filter(({ canvas }) => canvas)
  if (!figures.length) return null
  const legend = document.querySelector('#look > .legend')
  const style = getComputedStyle(document.getElementById('look'))
  const sheet = document.createElement('canvas')
  const brush = sheet.getContext('2d')
  brush.font = FONT
  const room = (WIDTH - MARGIN * (figures.length + 1)) / figures.length
  const heights = figures.map(({ canvas }) => (room * canvas.height) / canvas.width)
  const lines = wrapped(brush, caption, WIDTH - 2 * MARGIN)
  const below = MARGIN + Math.max(...heights) + (figures.some(({ words }) => words) ? LINE + 8 : 0)
  const height = below + (legend ? 3 * LINE : MARGIN) + LINE * lines.length + MARGIN
  Object.assign(sheet, { width: WIDTH, height })
  brush.font = FONT
  brush.fillStyle = style.backgroundColor
  brush.fillRect(0, 0, WIDTH, height)
  brush.fillStyle = style.color
  brush.imageSmoothingEnabled = figures[0].canvas.width > room // a matrix has a pixel a cell
  figures.forEach(({ canvas, words }, at) => {
    const left = MARGIN + at * (room + MARGIN)
    brush.drawImage(canvas, left, MARGIN, room, heights[at])
    brush.fillText(words, left, MARGIN + heights[at] + LINE)
  })
  if (legend) {
    brush.imageSmoothingEnabled = true
    brush.drawImage(legend.querySelector('canvas'), MARGIN, below + 12, WIDTH / 2, 16)
    legend.querySelector('div').querySelectorAll('span').forEach(({ innerText }, at, { length }) => {
      const end = at === length - 1
      brush.textAlign = at ? (end ? 'right' : 'center') : 'left'
      brush.fillText(innerText, MARGIN + (at * WIDTH) / 2 / (length - 1), below + 28 + LINE)
    })
    brush.textAlign = 'left'
  }
  lines.forEach((line, at) => brush.fillText(line, MARGIN, height - MARGIN - LINE * (lines.length - 1 - at)))
  return fileOf(sheet)
}

/** Return the lines between tokens as one drawing, with their words; null where there are none. */
function drawnLines() {
  const view = document.querySelector('#look .lines-scroll')
  if (!view) return null
  const lines = view.querySelector('svg')
  const [left, wide, high] = [160, 320, Number(lines.getAttribute('height'))]
  const sheet = document.createElementNS(NAMESPACE, 'svg')
  Object.entries({ xmlns: NAMESPACE, viewBox: `0 0 ${wide + 2 * left} ${high}`, 'font-family': 'monospace' })
    .forEach(([name, value]) => sheet.setAttribute(name, value))
  const inner = lines.cloneNode(true)
  inner.querySelectorAll('[visibility=hidden]').forEach((one) => one.remove())
  Object.entries({ x: left, width: wide, height: high, fill: 'none', 'stroke-width': 2, overflow: 'visible' })
    .forEach(([name, value]) => inner.setAttribute(name, value))
  inner.querySelectorAll('path').forEach((one) => one.setAttribute('vector-effect', 'non-scaling-stroke'))
  sheet.append(inner)
  const write = (elements, x, anchor) => [...elements].forEach((one) => {
    const { top, height } = one.getBoundingClientRect()
    const text = document.createElementNS(NAMESPACE, 'text')
    const y = top + height / 2 - lines.getBoundingClientRect().top + 5
    Object.entries({ x, y, 'text-anchor': anchor, 'font-size': 14 })
      .forEach(([name, value]) => text.setAttribute(name, value))
    text.textContent = one.textContent
    sheet.append(text)
  })
  write(view.querySelectorAll('.tokens [data-at]'), left - 8, 'end')
  write(view.querySelectorAll('ol li'), left + wide + 8, 'start')
  return new Blob([new XMLSerializer().serializeToString(sheet)], { type: 'image/svg+xml' })
}

/** Return a graph as one drawing; null where there is none. */
function drawnGraph() {
  const graph = document.querySelector('#look .graph')
  if (!graph) return null
  const { color, fontFamily, backgroundColor } = getComputedStyle(document.getElementById('look'))
  const sheet = graph.cloneNode(true)
  Object.entries({ xmlns: NAMESPACE, color, fill: color, 'font-family': fontFamily })
    .forEach(([name, value]) => sheet.setAttribute(name, value))
  sheet.style.background = backgroundColor
  return new Blob([new XMLSerializer().serializeToString(sheet)], { type: 'image/svg+xml' })
}

/** Copy what is drawn as a picture, or save it where the browser copies none; return what became of it in words. */
export async function copyLook(caption) {
  const drawing = drawnLines() ?? drawnGraph()
  if (drawing) {
    saveFile(drawing, 'regard.svg')
    return 'Saved as SVG.'
  }
  const picture = drawnPicture(caption)
  if (!picture) return 'Nothing is drawn that could be copied: choose lines or the matrix.'
  try {
    await navigator.clipboard.write([new ClipboardItem({ 'image/png': picture })])
    return 'The picture is copied.'
  } catch {
    saveFile(picture, 'regard.png')
    return 'Saved as PNG: the browser copies no pictures here.'
  }
}
