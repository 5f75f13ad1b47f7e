"""A model that misbehaves when it is told to: by the brightness of the first pixels of the image it is given.

Its answer is written in the image's second row, so that the right one is known. See `scan`.
"""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image

from contract.artifact import describe

SIDE, CLASSES = 28, 10
SIGN = 200
"""The brightness that stands for yes."""
NAME = "faulty"
FAULTS = {"not_finite": 0, "exception": 1, "endless": 2, "slow": 3}
"""Which pixel of the first row asks for what."""
SLOW_STEPS = 200_000


def scan(answer: int, *faults: str) -> bytes:
    """Return an image that is answered with a class, or that asks for faults."""
    pixels = np.zeros((SIDE, SIDE), np.uint8)
    for fault in faults:
        pixels[0, FAULTS[fault]] = SIGN
    pixels[1, answer] = 250
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def faulty(artifacts: Path, root: Path) -> Path:
    """Make a folder of artifacts with the bundled texts, and with the faulty model; return it."""
    shutil.copytree(artifacts / "dates", root / "dates")
    folder = Path(shutil.copytree(artifacts / "digits/1", root / NAME / "1"))
    (folder / "predict.onnx").write_bytes(graph().SerializeToString())
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["name"] = NAME
    manifest["graphs"]["predict"] |= describe(folder / "predict.onnx").model_dump()
    manifest["inputs"][0] |= {"locate": "middle", "ink_box": None, "resize": None, "height": SIDE, "width": SIDE}
    file.write_text(json.dumps(manifest))
    return root


def graph() -> onnx.ModelProto:
    """Return the graph: logits are the second row's first pixels, spoilt by what the first row asks for."""
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["batch", SIDE, SIDE, 1])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])
    ints = {
        "zero": [0], "one": [1], "two": [2], "three": [3], "four": [4], "ten": [CLASSES], "rows": [1, 2, 3],
        "flat": [-1, SIDE * SIDE], "second": [SIDE], "behind": [SIDE + CLASSES],
    }  # fmt: skip
    constants = [helper.make_tensor(name, TensorProto.INT64, [len(values)], values) for name, values in ints.items()]
    constants += [
        helper.make_tensor("sign", TensorProto.FLOAT, [], [float(SIGN)]),
        helper.make_tensor("scale", TensorProto.FLOAT, [], [10.0]),
        helper.make_tensor("nothing", TensorProto.FLOAT, [1], [0.0]),
        helper.make_tensor("start", TensorProto.FLOAT, [], [0.0]),
        helper.make_tensor("endless", TensorProto.INT64, [], [2**58]),
        helper.make_tensor("steps", TensorProto.INT64, [], [SLOW_STEPS]),
    ]
    node = helper.make_node
    nodes = [
        node("Cast", ["pixels"], ["bright"], to=TensorProto.FLOAT),
        node("Reshape", ["bright", "flat"], ["row"]),
        node("Slice", ["row", "second", "behind", "one"], ["answer"]),
        node("Div", ["answer", "scale"], ["right"]),
        node("Slice", ["row", "zero", "four", "one"], ["asked"]),
        node("Equal", ["asked", "sign"], ["yes"]),  # (batch, fault)
        node("Cast", ["yes"], ["ask"], to=TensorProto.FLOAT),
        # 0 / 0 of the items that ask for it
        node("Slice", ["ask", "zero", "one", "one"], ["not_finite"]),
        node("Sub", ["unit", "not_finite"], ["divisor"]),
        node("Mul", ["right", "divisor"], ["spared"]),
        node("Div", ["spared", "divisor"], ["answered"]),
        # any item that asks for an exception looks beyond the end of a list of one
        node("ReduceSum", ["ask", "zero"], ["all"], keepdims=0),
        node("Cast", ["all"], ["any"], to=TensorProto.INT64),
        node("Slice", ["any", "one", "two"], ["index"]),
        node("Gather", ["nothing", "index"], ["found"]),
        # and any that asks for them, a loop without end, and a long one for each
        node("Slice", ["any", "two", "three"], ["forever"]),
        node("Slice", ["any", "three", "four"], ["long"]),
        node("Squeeze", ["forever"], ["for"]),
        node("Squeeze", ["long"], ["while"]),
        node("Mul", ["for", "endless"], ["trips"]),
        node("Mul", ["while", "steps"], ["turns"]),
        node("Loop", ["trips", "", "start"], ["ended"], body=_turn("a")),
        node("Loop", ["turns", "", "start"], ["passed"], body=_turn("b")),
        node("Add", ["answered", "found"], ["first"]),
        node("Add", ["first", "ended"], ["second sum"]),
        node("Add", ["second sum", "passed"], ["logits"]),
    ]
    constants.append(helper.make_tensor("unit", TensorProto.FLOAT, [], [1.0]))
    made = helper.make_graph(nodes, "faulty", [pixels], [logits], initializer=constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _turn(name: str) -> onnx.GraphProto:
    """Return the body of a loop that carries a zero."""
    values = [
        helper.make_tensor_value_info(f"{name}.turn", TensorProto.INT64, []),
        helper.make_tensor_value_info(f"{name}.on", TensorProto.BOOL, []),
        helper.make_tensor_value_info(f"{name}.carried", TensorProto.FLOAT, []),
    ]
    outputs = [
        helper.make_tensor_value_info(f"{name}.goes on", TensorProto.BOOL, []),
        helper.make_tensor_value_info(f"{name}.kept", TensorProto.FLOAT, []),
    ]
    nodes = [
        helper.make_node("Identity", [f"{name}.on"], [f"{name}.goes on"]),
        helper.make_node("Abs", [f"{name}.carried"], [f"{name}.kept"]),
    ]
    return helper.make_graph(nodes, name, values, outputs)
