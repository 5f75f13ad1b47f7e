import { html, useEffect, useState } from './preact.js'

const OTHER = '{"directed": false, "nodes": [{"id": "a", "type": 0}, …], "edges": [{"source": "a", "target": "b"}, …]}'

/** A graph as JSON, with the names of its types and its limits. */
export function GraphInput({ model: { inputs }, json = '', take }) {
  const [text, setText] = useState(json)
  useEffect(() => setText(json), [json])
  const { node_types: nodes, edge_types: edges, directed } = inputs
  const send = (event) => {
    event.preventDefault()
    take({ text })
  }
  const enter = (event) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    event.target.form.requestSubmit()
  }
  return html`
    <form onSubmit=${send}>
      <label>Graph, as JSON <textarea id="graph" required rows="9" spellcheck=${false} autocomplete="off"
        aria-describedby="graph-rules" value=${text} onInput=${({ target }) => setText(target.value)}
        onKeyDown=${enter}></textarea></label>
      <div id="graph-rules" class="quiet">
        <p>Types of nodes: ${nodes.join(', ')}.</p>
        ${edges.length > 1 && html`<p>Types of edges: ${edges.join(', ')}.</p>`}
        <p>At most ${inputs.nodes} nodes and ${inputs.edges} edges, which lead
          ${directed ? ' one way unless “directed” is false' : ' both ways'}.</p>
      </div>
      <button id="ask">Ask</button>
      <details><summary>Forms of a graph</summary>
        <p class="quiet">Types are names or numbers. Edges are from and to the places of nodes, counted from 0, then the
          type where there are several. Or as networkx writes a graph (node_link_data):</p>
        <pre>${OTHER}</pre>
      </details>
    </form>`
}
