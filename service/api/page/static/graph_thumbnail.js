import { shapeOf } from './graphs.js'
import { html, useMemo } from './preact.js'
import { range } from './values.js'

const ROUNDS = 80
const [SIDE, MARGIN] = [88, 8] // units of a small drawing

/** Return how many edges are between each two nodes, whatever their direction: (nodes, nodes). */
function distances(count, edges) {
  const near = range(count).map(() => [])
  edges.forEach(([from, to]) => (near[from].push(to), near[to].push(from)))
  return range(count).map((start) => {
    const far = Array(count).fill(Infinity)
    const queue = [start]
    far[start] = 0
    for (const at of queue) {
      for (const next of near[at]) if (far[next] === Infinity) queue.push(next) && (far[next] = far[at] + 1)
    }
    return far
  })
}

/**
 * Return places of nodes, as far from one another as there are edges between them, if that can be: each in turn is put
 * where its distances ask for it (Gansner et al. 2004, section 2.3).
 */
function layout(count, edges) {
  const far = distances(count, edges)
  const most = 1 + Math.max(...far.flat().filter(Number.isFinite))
  const angle = (at) => (2 * Math.PI * at) / count
  const places = range(count).map((at) => [Math.cos(angle(at)), Math.sin(angle(at))])
  for (let round = 0; round < ROUNDS; round++) {
    places.forEach(([x, y], at) => {
      const sums = [0, 0, 0]
      places.forEach(([otherX, otherY], other) => {
        if (other === at) return
        const wanted = Math.min(far[at][other], most)
        const [weight, between] = [wanted ** -2, Math.hypot(x - otherX, y - otherY) || 1]
        sums[0] += weight * (otherX + (wanted * (x - otherX)) / between)
        sums[1] += weight * (otherY + (wanted * (y - otherY)) / between)
        sums[2] += weight
      })
      if (sums[2]) places[at] = [sums[0] / sums[2], sums[1] / sums[2]]
    })
  }
  return places
}

/** Return places within a square. */
function within(places) {
  const low = [0, 1].map((axis) => Math.min(...places.map((place) => place[axis])))
  const size = Math.max(...places.flatMap((place) => place.map((one, axis) => one - low[axis]))) || 1
  const scale = (SIDE - 2 * MARGIN) / size
  return places.map((place) => place.map((one, axis) => MARGIN + (one - low[axis]) * scale))
}

/** A graph, small: nodes of another type than most are coloured. */
export function GraphThumbnail({ graph }) {
  const [nodes, edges, places] = useMemo(() => {
    const { types, edges: all } = shapeOf(graph)
    const groups = [...Map.groupBy(types, (type) => type).values()]
    const most = groups.reduce((one, other) => (other.length > one.length ? other : one))
    return [types.map((type) => type === most[0]), all, within(layout(types.length, all))]
  }, [graph])
  return html`<svg class="example-graph" viewBox=${`0 0 ${SIDE} ${SIDE}`} aria-hidden="true">
    ${edges.map(([from, to]) => html`<line stroke="currentColor" stroke-opacity=".5"
      x1=${places[from][0]} y1=${places[from][1]} x2=${places[to][0]} y2=${places[to][1]} />`)}
    ${nodes.map((usual, at) => html`<circle r="4" cx=${places[at][0]} cy=${places[at][1]}
      fill=${usual ? 'var(--quiet)' : 'var(--accent)'} />`)}
  </svg>`
}
