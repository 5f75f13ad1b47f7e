import { written } from './values.js'

/** Return a graph as an input, with its nodes and its edges in lines of their own. */
export function asInput(graph) {
  const lines = Object.entries(graph).map((entry) => entry.map((part) => written(part)).join(': '))
  return { kind: 'graph', json: `{${lines.join(',\n ')}}` }
}

/** Return the graph of an input. Throws where it is no JSON. */
export function graphOf({ json }) {
  try {
    return JSON.parse(json)
  } catch ({ message }) {
    throw new Error(`graph: must be JSON; ${message}`)
  }
}

/** Return the types of a graph's nodes, and its edges as places of nodes, whichever form it has. */
export function shapeOf({ nodes, edges, links }) {
  const places = new Map(nodes.map((node, at) => [node?.id ?? at, at]))
  const ends = (edge) => (Array.isArray(edge) ? edge : [edge.source, edge.target]).slice(0, 2)
  return {
    types: nodes.map((node) => (typeof node === 'object' ? node.type : node)),
    edges: (edges ?? links ?? []).map((edge) => ends(edge).map((end) => places.get(end))),
  }
}
