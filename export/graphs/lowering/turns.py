"""Turn the queries and keys of a prompt in one node each: nine that read and write all of them take longer."""

import onnx

from export.graphs.editing.builder import Builder
from export.graphs.editing.cleanup import prune
from export.graphs.lowering.decode_step import RUNTIME
from export.graphs.lowering.fusion import AttentionPattern
from export.plan import Plan


def fuse_turns(graph: onnx.ModelProto, plan: Plan) -> onnx.ModelProto:
    """Return a graph of whole texts with each tensor that is turned, up to its last number, by one `RotaryEmbedding`.

    Its angles are those of the first tokens (token, angle), the same for each text. What is turned in part stays.
    """
    pattern, b = AttentionPattern(graph), Builder(graph, "turns.")
    given, tables = list(graph.graph.node), dict[str, str]()
    del graph.graph.node[:]
    for node in given:
        found = pattern.turned(node.output[0])
        if found is None or len(node.input) > len(("first half", "second half")):
            graph.graph.node.append(node)
            continue
        for name in (found.cosine, found.sine):
            if name not in tables:
                tables[name] = b.op("Reshape", name, b.constant([-1, found.angles]))
        angles = [tables[name] for name in (found.cosine, found.sine)]
        b.op("RotaryEmbedding", found.source, b.constant([0]), *angles, domain=RUNTIME)
        graph.graph.node[-1].output[0] = node.output[0]
    return prune(graph, plan)
