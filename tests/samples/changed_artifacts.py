"""Changes to artifacts on disk: other versions, other manifests, other graphs."""

import json
import shutil

from onnx import TensorProto, helper

from contract.artifact import describe

OPSET = [helper.make_opsetid("", 20)]


def newer(artifacts, name, version):
    """Copy the first version of an artifact as another one."""
    folder = shutil.copytree(artifacts / name / "1", artifacts / name / str(version))
    edit(folder, lambda manifest: manifest.update(version=str(version)))
    return folder


def edit(folder, change):
    """Change the manifest of an artifact, given as a dict."""
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def put_graph(folder, role, nodes):
    """Give an artifact of digits another graph of the same ports for its predictions."""
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["batch", 28, 28, 1])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "stand-in", [pixels], [logits])
    model = helper.make_model(graph, opset_imports=OPSET, ir_version=10)
    file = folder / f"{role}.onnx"
    file.write_bytes(model.SerializeToString())
    edit(folder, lambda manifest: manifest["graphs"][role].update(describe(file).model_dump()))


def deadly():
    """Return nodes that end the process that loads them, on x86: the smallest integer over -1 is folded (SIGFPE)."""
    least = helper.make_tensor("least", TensorProto.INT64, [1], [-(2**63)])
    minus_one = helper.make_tensor("minus_one", TensorProto.INT64, [1], [-1])
    value = helper.make_tensor("value", TensorProto.FLOAT, [1, 10], [0.0] * 10)
    return [
        helper.make_node("Constant", [], ["least"], value=least),
        helper.make_node("Constant", [], ["minus_one"], value=minus_one),
        helper.make_node("Constant", [], ["zeros"], value=value),
        helper.make_node("Div", ["least", "minus_one"], ["overflown"]),
        helper.make_node("Cast", ["overflown"], ["added"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["zeros", "added"], ["logits"]),
    ]
