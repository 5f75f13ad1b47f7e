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


def put_graph(folder, role, nodes, **options):
    """Give an artifact of digits another graph of the same ports for its predictions."""
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["batch", 28, 28, 1])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "stand-in", [pixels], [logits])
    model = helper.make_model(graph, opset_imports=options.pop("opsets", OPSET), ir_version=10, **options)
    file = folder / f"{role}.onnx"
    file.write_bytes(model.SerializeToString())
    edit(folder, lambda manifest: manifest["graphs"][role].update(describe(file).model_dump()))


def deadly():
    """Return nodes and functions that overflow the stack of whoever loads them: each calls the next."""
    ours = helper.make_opsetid("ours", 1)
    functions = [
        helper.make_function("ours", f"f{depth}", ["x"], ["y"], [
            helper.make_node(f"f{depth + 1}", ["x"], ["y"], domain="ours") if depth < 3000
            else helper.make_node("Identity", ["x"], ["y"])
        ], [*OPSET, ours])
        for depth in range(3001)
    ]  # fmt: skip
    value = helper.make_tensor("value", TensorProto.FLOAT, [1, 10], [0.0] * 10)
    nodes = [
        helper.make_node("Constant", [], ["zeros"], value=value),
        helper.make_node("f0", ["zeros"], ["logits"], domain="ours"),
    ]
    return nodes, {"functions": functions, "opsets": [*OPSET, ours]}
