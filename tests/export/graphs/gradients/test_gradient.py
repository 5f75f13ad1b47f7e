"""Every rule of differentiation against autograd in float64; every shape that a rule does not cover is refused."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional

from export.errors import ExportError
from export.graphs.gradients.gradient import differentiate
from export.graphs.gradients.gradient_rules import RULES
from tests.samples.export_graphs import model_of

OPSETS = (18, 20, 23)
SIZES = {"n": 3, "m": 5}
"""How long the axes are that graphs leave open; shapes are inferred without them, and graphs run at these."""
END = np.iinfo(np.int64).max
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 5e-3}
"""Largest difference, times the largest value where that is over 1."""


@dataclass(frozen=True)
class Case:
    """One node. Its inputs are shapes, of what is drawn, and constants; the latter are no part of `torch`'s inputs."""

    op: str
    inputs: tuple[Any, ...]
    torch: Callable[..., torch.Tensor]
    attributes: dict[str, Any] = field(default_factory=dict)
    wanted: tuple[int, ...] | None = None
    """Indices of those drawn; all of them where it does not say."""
    outputs: int = 1
    single: bool = False
    """True if it is computed in single floats, here or in the runtime."""
    opset: int = 18
    """The first opset that has the operator."""
    positive: bool = False
    """True if the inputs are drawn from positive numbers."""


def ints(*values):
    return np.array(values, np.int64)


MASK = np.array([[True, False, True, True], [False, False, True, False], [True, True, True, False]])
PLACES = np.array([[0, 0, 3], [2, 1, 1], [-1, 3, -1]])  # a place twice and thrice, and counted from the end


STEPPED = np.random.default_rng(4).normal(size=(3, 2, 3, 3))
KERNELS = np.random.default_rng(3).normal(size=(6, 2, 3))


def normalized(x, weight, bias=None, epsilon=1e-5):
    return functional.layer_norm(x, weight.shape, weight, bias, epsilon)


CASES = {
    "Identity": Case("Identity", (("n", 4),), lambda x: x),
    "Cast": Case("Cast", (("n", 4),), lambda x: x, {"to": TensorProto.FLOAT}),
    "Add": Case("Add", (("n", 4), ("n", 4)), torch.add),
    "Add, to less": Case("Add", ((4,), ("n", "m", 4)), torch.add),
    "Add, spread": Case("Add", (("n", 1, 4), ("n", 3, 1)), torch.add),
    "Sub, spread": Case("Sub", (("n", 4), (1, 4)), torch.sub),
    "Mul, spread": Case("Mul", (("n", 3, 4), ("n", 1, 1)), torch.mul),
    "Div, spread": Case("Div", (("n", 4), ("n", 1)), torch.div),
    "MatMul, spread": Case("MatMul", (("n", 2, "m", 4), ("n", 1, 4, 6)), torch.matmul),
    "Where, spread": Case("Where", (MASK, ("n", 4), (1, 4)), lambda x, y: torch.where(torch.from_numpy(MASK), x, y)),
    "Sub": Case("Sub", (("n", 4), ("n", 4)), torch.sub),
    "Sub, from less": Case("Sub", ((1, 4), ("n", 4)), torch.sub),
    "Mul": Case("Mul", (("n", 4), ("n", 4)), torch.mul),
    "Mul, by less": Case("Mul", (("n", "m", 4), ("m", 1)), torch.mul),
    "Div": Case("Div", (("n", 4), ("n", 4)), torch.div),
    "Div, by less": Case("Div", (("n", 4), ()), torch.div),
    "Div, of less": Case("Div", ((), ("n", 4)), torch.div),
    "MatMul": Case("MatMul", (("n", 2, "m", 4), ("n", 2, 4, 6)), torch.matmul),
    "MatMul, by one matrix": Case("MatMul", (("n", "m", 4), (4, 6)), torch.matmul),
    "MatMul, of matrices": Case("MatMul", (("n", 4), (4, "m")), torch.matmul),
    "MatMul, of one matrix": Case("MatMul", (("m", 4), ("n", 4, 6)), torch.matmul),
    "Gemm": Case("Gemm", (("n", 4), (4, 6), (6,)), lambda x, w, b: x @ w + b, wanted=(0,)),
    "Gemm, transB": Case("Gemm", (("n", 4), (6, 4), (6,)), lambda x, w, b: x @ w.T + b, {"transB": 1}, wanted=(0,)),
    "Gemm, without a third": Case("Gemm", (("n", 4), (6, 4)), lambda x, w: x @ w.T, {"transB": 1}, wanted=(0,)),
    "Softmax": Case("Softmax", (("n", 2, 4),), lambda x: x.softmax(-1)),
    "Softmax, axis": Case("Softmax", (("n", 2, 4),), lambda x: x.softmax(1), {"axis": 1}),
    "LayerNormalization": Case(
        "LayerNormalization", (("n", "m", 8), (8,), (8,)), normalized, {"axis": -1}, (0,), single=True
    ),
    "LayerNormalization, epsilon": Case(
        "LayerNormalization",
        (("n", 8), (8,), (8,)),
        lambda *given: normalized(*given, epsilon=0.7),
        {"epsilon": 0.7, "axis": 1},
        (0,),
        single=True,
    ),
    "LayerNormalization, without bias": Case(
        "LayerNormalization", (("n", 8), (8,)), normalized, wanted=(0,), single=True
    ),
    "LayerNormalization, three outputs": Case(
        "LayerNormalization", (("n", 8), (8,), (8,)), normalized, wanted=(0,), outputs=3, single=True
    ),
    "BatchNormalization": Case(
        "BatchNormalization",
        (
            ("n", 3, 4, 5),
            np.array([1.5, -0.5, 2.0]),
            np.array([0.1, 0.2, 0.3]),
            np.array([0.3, 0, 1]),
            np.array([2, 0.1, 1]),
        ),
        lambda x: functional.batch_norm(
            x,
            *(
                torch.tensor(values, dtype=x.dtype)
                for values in ([0.3, 0, 1], [2, 0.1, 1], [1.5, -0.5, 2], [0.1, 0.2, 0.3])
            ),
            eps=1e-3,
        ),
        {"epsilon": 1e-3},
        single=True,
    ),
    "Conv": Case(
        "Conv",
        (("n", 4, 7), KERNELS, np.zeros(6)),
        lambda x: functional.conv1d(x, torch.tensor(KERNELS, dtype=x.dtype), padding=1, groups=2),
        {"group": 2, "pads": [1, 1], "kernel_shape": [3]},
        single=True,
    ),
    "Conv, with steps": Case(
        "Conv",
        (("n", 2, 9, 8), STEPPED),
        lambda x: functional.conv2d(x, torch.tensor(STEPPED, dtype=x.dtype), stride=(3, 2), padding=(1, 0)),
        {"strides": [3, 2], "pads": [1, 0, 1, 0]},
        single=True,
    ),
    "Conv, patches": Case(
        "Conv",
        (("n", 2, 6, 4), STEPPED[:, :, :2, :2]),
        lambda x: functional.conv2d(x, torch.tensor(STEPPED[:, :, :2, :2], dtype=x.dtype), stride=2),
        {"strides": [2, 2], "kernel_shape": [2, 2]},
        single=True,
    ),
    "Conv, with wide steps": Case(
        "Conv",
        (("n", 4, 12), KERNELS),
        lambda x: functional.conv1d(x, torch.tensor(KERNELS, dtype=x.dtype), stride=2, dilation=2, padding=1, groups=2),
        {"strides": [2], "dilations": [2], "pads": [1, 1], "group": 2},
        single=True,
    ),
    "Transpose": Case("Transpose", (("n", 2, 4),), lambda x: x.permute(2, 0, 1), {"perm": [2, 0, 1]}),
    "Transpose, by default": Case("Transpose", (("n", 2, 4),), lambda x: x.permute(2, 1, 0)),
    "Reshape": Case("Reshape", (("n", 2, 4), ints(0, 4, -1)), lambda x: x.reshape(-1, 4, 2)),
    "Squeeze": Case("Squeeze", (("n", 1, 4), ints(1)), lambda x: x[:, 0]),
    "Unsqueeze": Case("Unsqueeze", (("n", 4), ints(0, 2)), lambda x: x[None, :, None]),
    "Flatten": Case("Flatten", (("n", 2, 4),), lambda x: x.flatten(1)),
    "Gelu": Case("Gelu", (("n", 4),), functional.gelu, single=True, opset=20),
    "Gelu, tanh": Case(
        "Gelu", (("n", 4),), lambda x: functional.gelu(x, approximate="tanh"), {"approximate": "tanh"}, opset=20
    ),
    "Relu": Case("Relu", (("n", 4),), torch.relu),
    "Tanh": Case("Tanh", (("n", 4),), torch.tanh),
    "Sigmoid": Case("Sigmoid", (("n", 4),), torch.sigmoid),
    "Where": Case("Where", (MASK, ("n", 4), ("n", 4)), lambda x, y: torch.where(torch.from_numpy(MASK), x, y)),
    "Where, less of a condition": Case(
        "Where", (MASK[:1], ("n", 4), ()), lambda x, y: torch.where(torch.from_numpy(MASK[:1]), x, y)
    ),
    "Where, otherwise": Case("Where", (MASK, (), ("n", 4)), lambda x, y: torch.where(torch.from_numpy(MASK), x, y)),
    "Gather": Case("Gather", (("n", "m", 4), np.array(0)), lambda x: x[:, 0], {"axis": 1}),
    "Gather, from the end": Case("Gather", (("n", "m", 4), np.array(-2)), lambda x: x[:, -2], {"axis": 1}),
    "Gather, axis from the end": Case("Gather", (("n", 2, 4), np.array(3)), lambda x: x[..., 3], {"axis": -1}),
    "Gather, several": Case(
        "Gather", (("n", "m", 4), ints(3, -5, 3)), lambda x: x[:, [3, 0, 3]], {"axis": 1}, single=True
    ),
    "Gather, a table": Case("Gather", (("n", 4), PLACES), lambda x: x[:, PLACES], {"axis": 1}, single=True),
    "Gather, first axis": Case("Gather", (("n", 2, 4), np.array(1)), lambda x: x[1]),
    "Slice": Case("Slice", (("n", 7), ints(1), ints(5), ints(1)), lambda x: x[:, 1:5]),
    "Slice, to the end": Case("Slice", (("n", "m", 4), ints(2), ints(END), ints(1), ints(1)), lambda x: x[:, 2:]),
    "Slice, short of the end": Case("Slice", (("n", 7), ints(1), ints(-2), ints(-1)), lambda x: x[:, 1:-2]),
    "Slice, past the end": Case("Slice", (("n", 7), ints(3), ints(100), ints(1)), lambda x: x[:, 3:]),
    "Slice, two axes": Case(
        "Slice", (("n", 6, 7), ints(1, 2), ints(4, END), ints(2, 1), ints(1, 1)), lambda x: x[:, 2:, 1:4]
    ),
    "Slice, from the end": Case(
        "Slice", (("n", "m", 4), ints(-2), ints(END), ints(1)), lambda x: x[:, -2:], single=True
    ),
    "Slice, of an open axis": Case(
        "Slice", (("n", "m", 4), ints(1, -3), ints(3, -1), ints(1, -1)), lambda x: x[:, 1:3, -3:-1], single=True
    ),
    "Slice, short of an open end": Case(
        "Slice", (("n", "m", 4), ints(1), ints(-1), ints(1)), lambda x: x[:, 1:-1], single=True
    ),
    "Slice, by steps": Case(
        "Slice",
        (("n", "m", 7), ints(1, 0), ints(END, 5), ints(2, 1), ints(3, 2)),
        lambda x: x[:, :5:2, 1::3],
        single=True,
    ),
    "Slice, backwards": Case(
        "Slice", (("n", "m", 4), ints(-1), ints(-END), ints(1), ints(-1)), lambda x: x.flip(1), single=True
    ),
    "Split": Case("Split", (("n", 7), ints(2, 5)), lambda x: x[:, :2], {"axis": 1}, outputs=2),
    "Split, in equal parts": Case("Split", (("n", 6),), lambda x: x[:, :3], {"axis": -1, "num_outputs": 2}, outputs=2),
    "Slice, every axis": Case("Slice", ((3, 4), ints(1, 0), ints(END, 3)), lambda x: x[1:, :3]),
    "Concat": Case("Concat", (("n", 2, 4), ("n", 1, 4), ("n", 3, 4)), lambda *x: torch.cat(x, 1), {"axis": 1}),
    "Concat, of an open axis": Case("Concat", (("n", "m", 4), ("n", 2, 4)), lambda *x: torch.cat(x, 1), {"axis": 1}),
    "Concat, axis from the end": Case("Concat", (("n", 2), ("n", 3)), lambda *x: torch.cat(x, -1), {"axis": -1}),
    "ReduceMean": Case("ReduceMean", (("n", "m", 4), ints(1)), lambda x: x.mean(1, keepdim=True)),
    "ReduceMean, dropped": Case("ReduceMean", (("n", "m", 4), ints(1)), lambda x: x.mean(1), {"keepdims": 0}),
    "ReduceMean, two axes": Case("ReduceMean", (("n", "m", 4), ints(2, 0)), lambda x: x.mean((0, 2), keepdim=True)),
    "ReduceMean, two dropped": Case(
        "ReduceMean", (("n", "m", 4), ints(0, -1)), lambda x: x.mean((0, 2)), {"keepdims": 0}
    ),
    "ReduceMean, all": Case("ReduceMean", (("n", 4),), torch.mean, {"keepdims": 0}),
    "ReduceSum": Case("ReduceSum", (("n", "m", 4), ints(-1)), lambda x: x.sum(-1, keepdim=True)),
    "ReduceSum, dropped": Case("ReduceSum", (("n", "m", 4), ints(1)), lambda x: x.sum(1), {"keepdims": 0}),
    "ReduceSum, two axes": Case("ReduceSum", (("n", "m", 4), ints(1, 2)), lambda x: x.sum((1, 2), keepdim=True)),
    "ReduceSum, two dropped": Case("ReduceSum", (("n", "m", 4), ints(0, 2)), lambda x: x.sum((0, 2)), {"keepdims": 0}),
    "GatherElements": Case(
        "GatherElements",
        (("n", 4), PLACES),
        lambda x: x.gather(1, torch.from_numpy(PLACES % 4)),
        {"axis": 1},
        single=True,
    ),
    "GatherElements, first axis": Case(
        "GatherElements", ((4, 3), PLACES), lambda x: x.gather(0, torch.from_numpy(PLACES % 4)), single=True
    ),
    "Exp": Case("Exp", (("n", 4),), torch.exp),
    "Log": Case("Log", (("n", 4),), torch.log, positive=True),
    "Softplus": Case("Softplus", (("n", 4),), functional.softplus, single=True),
    "Sin": Case("Sin", (("n", 4),), torch.sin),
    "Cos": Case("Cos", (("n", 4),), torch.cos),
    "Sum": Case("Sum", (("n", 4), ("n", 1), (4,)), lambda x, y, z: x + y + z),
    "Max": Case("Max", (("n", 1), ("n", 4), ("m", 1, 4)), lambda x, y, z: x.maximum(y).maximum(z)),
    "Min": Case("Min", (("n", 4), ("n", 4)), torch.minimum),
    "Erf": Case("Erf", (("n", 4),), torch.erf, single=True),
    "Pow": Case("Pow", (("n", 4), np.array(3.0)), lambda x: x**3, single=True),
    "Pow, of a square": Case("Pow", (("n", 4), np.array(2.0)), torch.square, single=True),
    "Sqrt": Case("Sqrt", (("n", 4),), torch.sqrt, positive=True),
    "Neg": Case("Neg", (("n", 4),), torch.neg),
    "Reciprocal": Case("Reciprocal", (("n", 4),), torch.reciprocal, positive=True),
    "Expand": Case("Expand", (("n", 1, 4), ints(1, 3, 1)), lambda x: x.expand(-1, 3, -1)),
    "Expand, heads": Case("Expand", (("n", 2, 1, 4), ints(1, 1, 3, 4)), lambda x: x.expand(-1, -1, 3, -1)),
    "Clip": Case("Clip", (("n", 4), np.array(-0.6)), lambda x: x.clamp(min=-0.6), single=True),
    "ReduceMax": Case("ReduceMax", (("n", "m", 4), ints(1)), lambda x: x.amax(1, keepdim=True), single=True),
    "ReduceMax, dropped": Case(
        "ReduceMax", (("n", "m", 4), ints(-1)), lambda x: x.amax(-1), {"keepdims": 0}, single=True
    ),
    "ReduceL2": Case("ReduceL2", (("n", "m", 4), ints(-1)), lambda x: x.norm(dim=-1, keepdim=True), single=True),
    "ReduceL2, dropped": Case("ReduceL2", (("n", 4), ints(1)), lambda x: x.norm(dim=1), {"keepdims": 0}, single=True),
}


def graph(nodes, inputs, constants=None, opset=20, dtype=np.float64):
    """Return a model of nodes; `inputs` are shapes by name, `constants` arrays."""
    return model_of(nodes, inputs, {}, constants, opset, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def node(op, inputs, output="y", **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


def drawn(shape, seed, dtype=np.float64):
    """Draw numbers of either sign, none of them near zero."""
    rng = np.random.default_rng(seed)
    size = [SIZES.get(axis, axis) for axis in shape]
    return np.asarray(rng.choice((-1, 1), size) * (0.3 + np.abs(rng.normal(size=size))), dtype)


def differentiated(model, arrays, wanted, output="y"):
    """Return seed and gradients by name, computed by the runtime; the seed is drawn, of the output's shape and type."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    known = {value.name: value.type.tensor_type for value in (*inferred.value_info, *inferred.input)}

    def value(name, like):
        return helper.make_tensor_value_info(name, known[like].elem_type, [None] * len(known[like].shape.dim))

    model.graph.output.append(value(output, output))
    (answer,) = ort.InferenceSession(model.SerializeToString()).run(None, arrays)
    model.graph.input.append(value("seed", output))
    gradients = differentiate(model, output, "seed", wanted)
    for name in wanted:
        model.graph.node.append(helper.make_node("Identity", [gradients[name]], [f"gradient of {name}"]))
        model.graph.output.append(value(f"gradient of {name}", name))
    onnx.checker.check_model(model)
    seed = drawn(answer.shape, 99, answer.dtype)
    found = ort.InferenceSession(model.SerializeToString()).run(None, {**arrays, "seed": seed})
    return seed, dict(zip(wanted, found[1:], strict=True))


def by_autograd(function, arrays, wanted, seed):
    """Return the gradients of Σ seed ⊙ function(arrays), in float64."""
    given = {name: torch.from_numpy(array).double().requires_grad_() for name, array in arrays.items()}
    total = (function(*given.values()) * torch.from_numpy(seed)).sum()
    return torch.autograd.grad(total, [given[name] for name in wanted])


def assert_gradients(found, wanted, dtype):
    for (name, ours), theirs in zip(found.items(), wanted, strict=True):
        assert ours.shape == theirs.shape, name
        assert ours.dtype == dtype, name
        scale = max(1.0, theirs.abs().max().item())
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=0, atol=scale * TOLERANCE[np.dtype(dtype).name])
        assert theirs.abs().max() > 0.01, name


def compare(case, dtype, opset):
    """Hold the gradients of one node, in one precision, against autograd."""
    names = [f"x{index}" for index in range(len(case.inputs))]
    given = dict(zip(names, case.inputs, strict=True))
    shapes = {name: one for name, one in given.items() if isinstance(one, tuple)}
    constants = {name: one for name, one in given.items() if not isinstance(one, tuple)}
    constants = {name: one.astype(dtype) if one.dtype == np.float64 else one for name, one in constants.items()}
    arrays = {name: drawn(shape, seed, dtype) for seed, (name, shape) in enumerate(shapes.items())}
    arrays = {name: np.abs(array) if case.positive else array for name, array in arrays.items()}
    wanted = [list(shapes)[index] for index in case.wanted or range(len(shapes))]
    outputs = ["y", "mean", "inverse"][: case.outputs]
    model = graph([helper.make_node(case.op, names, outputs, **case.attributes)], shapes, constants, opset, dtype)
    seed, found = differentiated(model, arrays, wanted)
    assert_gradients(found, by_autograd(case.torch, arrays, wanted, seed), dtype)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_autograd_s(name, opset):
    case = CASES[name]
    if opset < case.opset:
        pytest.skip(f"{case.op} is there from opset {case.opset}")
    compare(case, np.float32 if case.single else np.float64, opset)


@pytest.mark.parametrize("name", CASES)
def test_half_floats_have_the_same_gradient(name):
    compare(CASES[name], np.float16, 20)


def test_every_rule_has_a_case():
    assert {case.op for case in CASES.values()} == RULES.keys()


def test_far_from_zero_the_slope_of_gelu_is_zero_or_one():
    """Where the bell has died out, and no NaN."""
    x = np.array([[-60.0, -9.0, -1.0, 0.0, 1.0, 9.0, 60.0]], np.float32)
    for name in ("none", "tanh"):
        nodes = [node("Gelu", "x", approximate=name)]
        seed, found = differentiated(graph(nodes, {"x": x.shape}, dtype=np.float32), {"x": x}, ["x"])
        exact = by_autograd(lambda x, name=name: functional.gelu(x, approximate=name), {"x": x}, ["x"], seed)
        assert_gradients(found, exact, np.float32)


def test_equally_large_entries_share_the_gradient_of_their_maximum():
    x = np.array([[1.0, 3.0, 3.0, -2.0]], np.float32)
    nodes = [node("ReduceMax", "x", axes=None, keepdims=1)]
    seed, found = differentiated(graph(nodes, {"x": x.shape}, dtype=np.float32), {"x": x}, ["x"])
    assert_gradients(found, by_autograd(lambda x: x.amax(), {"x": x}, ["x"], seed), np.float32)


def test_the_gradient_of_the_length_of_zeros_is_zero():
    x = np.array([[0, 0, 0, 0], [0, 3, 0, 4]], np.float32)
    model = graph([node("ReduceL2", "x axes")], {"x": x.shape}, {"axes": ints(1)}, dtype=np.float32)
    seed, found = differentiated(model, {"x": x}, ["x"])
    np.testing.assert_allclose(found["x"] / seed, [[0, 0, 0, 0], [0, 0.6, 0, 0.8]], atol=1e-6)


def test_gradients_of_a_tensor_used_twice_add_up():
    nodes = [
        node("Tanh", "x", "a"),
        node("Mul", "a a", "b"),
        node("MatMul", "b w", "c"),
        node("Add", "c x", "d"),
        node("Div", "d b", "e"),
        node("Sub", "e e", "nothing"),
        node("Add", "e nothing"),
    ]
    arrays = {"x": drawn(("n", 4), 0), "w": drawn((4, 4), 1)}

    def function(x, w):
        b = x.tanh() ** 2
        return (b @ w + x) / b

    seed, found = differentiated(graph(nodes, {"x": ("n", 4), "w": (4, 4)}), arrays, ["x"])
    assert_gradients(found, by_autograd(function, arrays, ["x"], seed), np.float64)


def layers(count):
    """Nodes of attention upon attention, each of the weights `a{layer}`, with a residual sum."""
    nodes = []
    for layer in range(count):
        before, after = (f"x{layer}", f"x{layer + 1}" if layer + 1 < count else "y")
        nodes += [
            helper.make_node("Transpose", [before], [f"t{layer}"], perm=[0, 2, 1]),
            helper.make_node("MatMul", [before, f"t{layer}"], [f"s{layer}"]),
            helper.make_node("Softmax", [f"s{layer}"], [f"a{layer}"], axis=-1),
            helper.make_node("MatMul", [f"a{layer}", before], [f"m{layer}"]),
            helper.make_node("Add", [before, f"m{layer}"], [after]),
        ]
    return nodes


def test_gradients_of_weights_go_through_the_layers_behind_them():
    x = drawn(("n", "m", 4), 0) * 0.5
    seed, found = differentiated(graph(layers(3), {"x0": ("n", "m", 4)}), {"x0": x}, ["a0", "a1", "a2"])
    state, weights = torch.from_numpy(x).requires_grad_(), []
    for _ in range(3):
        weights.append((state @ state.transpose(1, 2)).softmax(-1))
        state = state + weights[-1] @ state
    exact = torch.autograd.grad((state * torch.from_numpy(seed)).sum(), weights)
    assert_gradients(found, exact, np.float64)


def test_only_what_lies_between_is_computed():
    """The first layer's own inputs are nobody's gradient: its scores get none, and the nodes before none at all."""
    model = graph(layers(2), {"x0": ("n", "m", 4)})
    model.graph.input.append(helper.make_tensor_value_info("seed", TensorProto.DOUBLE, ["n", "m", 4]))
    before = len(model.graph.node)
    differentiate(model, "y", "seed", ["a1"])
    added = [node.op_type for node in model.graph.node[before:]]
    assert added == ["Transpose", "MatMul"]


def test_operators_without_a_rule_may_stand_where_nothing_is_differentiated():
    nodes = [
        node("Sin", "x", "aside"),
        node("Mul", "z aside"),
        node("Cos", "z", "after"),
    ]
    shapes = {"x": ("n", 4), "z": ("n", 4)}
    arrays = {name: drawn(shape, seed) for seed, (name, shape) in enumerate(shapes.items())}
    seed, found = differentiated(graph(nodes, shapes), arrays, ["z"])
    assert_gradients(found, by_autograd(lambda x, z: x.sin() * z, arrays, ["z"], seed), np.float64)


def test_a_place_in_a_constant_node_is_known_too():
    place = helper.make_node("Constant", [], ["place"], value=numpy_helper.from_array(np.array(2)))
    nodes = [place, node("Gather", "x place", axis=1)]
    x = drawn(("n", 4), 0)
    seed, found = differentiated(graph(nodes, {"x": ("n", 4)}), {"x": x}, ["x"])
    assert_gradients(found, by_autograd(lambda x: x[:, 2], {"x": x}, ["x"], seed), np.float64)


# Refusals


N4, NM4 = ("n", 4), ("n", "m", 4)
FIRST_FACTOR = "Gemm has a gradient here only of its first factor, as it is"
NORM = "LayerNormalization has a gradient here of its input, over the last axis"
REFUSED = [
    ([node("Floor", "x", "s"), node("Relu", "s")], {"x": N4}, "x", "Floor has no gradient here"),
    ([node("MatMul", "x z")], {"x": NM4, "z": (4,)}, "x", "MatMul has a gradient here of matrices"),
    (
        [
            helper.make_node("LayerNormalization", ["x", "w"], ["normal", "mean", "inverse"]),
            node("Mul", "normal inverse"),
        ],
        {"x": ("n", 8), "w": (8,)},
        "x",
        "output 2 of LayerNormalization has no gradient here",
    ),
    ([node("Relu", "x"), node("Tanh", "x", "other")], {"x": N4, "z": N4}, "x z other", "y does not depend on z, other"),
    ([node("Gemm", "x w b")], {"x": N4, "w": (4, 6), "b": (6,)}, "w", FIRST_FACTOR),
    ([node("Gemm", "x w b")], {"x": N4, "w": (4, 6), "b": (6,)}, "b", FIRST_FACTOR),
    ([node("Gemm", "x w", transA=1)], {"x": (4, "n"), "w": (4, 6)}, "x", FIRST_FACTOR),
    ([node("Gemm", "x w", alpha=0.5)], {"x": N4, "w": (4, 6)}, "x", FIRST_FACTOR),
    ([node("LayerNormalization", "x w b", axis=-1)], {"x": ("n", 8), "w": (8,), "b": (8,)}, "w", NORM),
    ([node("LayerNormalization", "x w b", axis=-1)], {"x": ("n", 8), "w": (8,), "b": (8,)}, "b", NORM),
    ([node("LayerNormalization", "x w", axis=1)], {"x": ("n", 2, 8), "w": (2, 8)}, "x", NORM),
    (
        [node("Cast", "z", "at", to=TensorProto.INT64), node("Slice", "x at at at")],
        {"x": N4, "z": (1,)},
        "x",
        "an axis or an exponent that is not constant has no gradient here",
    ),
]


def refused(nodes, inputs, wanted):
    shapes = {name: one for name, one in inputs.items() if isinstance(one, tuple)}
    constants = {name: one for name, one in inputs.items() if name not in shapes}
    model = graph(nodes, shapes, constants)
    with pytest.raises(ExportError) as refusal:
        differentiate(model, "y", "seed", wanted.split())
    return str(refusal.value)


@pytest.mark.parametrize(("nodes", "inputs", "wanted", "words"), REFUSED, ids=[row[-1] for row in REFUSED])
def test_what_no_rule_covers_is_refused(nodes, inputs, wanted, words):
    assert refused(nodes, inputs, wanted) == f"gradient: {words}"


# Graphs at random


def places(name, *values):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(ints(*values)))


STEPS = {
    "waves": ([node("Sin", "a", "s"), node("Cos", "b", "c"), node("Mul", "s c")], lambda a, b: a.sin() * b.cos()),
    "exponential": (
        [node("Tanh", "a", "t"), node("Exp", "t", "e"), node("Sub", "e b")],
        lambda a, b: a.tanh().exp() - b,
    ),
    "logarithm": ([node("Exp", "a", "e"), node("Add", "e e", "d"), node("Log", "d")], lambda a, b: a + np.log(2)),
    "larger": ([node("Max", "a b")], torch.maximum),
    "of two": ([node("Less", "a b", "l"), node("Where", "l b a")], torch.maximum),
    "parts change places": (
        [
            places("sizes", 1, 1, 2),
            helper.make_node("Split", ["a", "sizes"], ["p", "q", "r"], axis=-1),
            node("Concat", "r q p", axis=-1),
        ],
        lambda a, b: torch.cat((a[..., 2:], a[..., 1:2], a[..., :1]), -1),
    ),
    "the last part": (
        [
            places("sizes", 2, 2),
            helper.make_node("Split", ["a", "sizes"], ["p", "q"], axis=-1),
            node("Concat", "q q", axis=-1),
        ],
        lambda a, b: torch.cat((a[..., 2:], a[..., 2:]), -1),
    ),
    "columns": ([places("at", 3, 1, 1, -4), node("Gather", "a at", axis=2)], lambda a, b: a[..., [3, 1, 1, 0]]),
    "tokens turn": (
        [
            places("one", 1), places("none", 0), places("last", -1), places("end", END),
            node("Slice", "a last end one", "p"), node("Slice", "b none last one", "q"), node("Concat", "p q", axis=1),
        ],
        lambda a, b: torch.cat((a[:, -1:], b[:, :-1]), 1),
    ),
    "backwards": (
        [places("one", 1), places("last", -1), places("end", -END), node("Slice", "a last end one last")],
        lambda a, b: a.flip(1),
    ),
    "attention": (
        [
            node("Transpose", "b", "t", perm=[0, 2, 1]),
            node("MatMul", "a t", "s"),
            node("Softmax", "s", "w", axis=-1),
            node("MatMul", "w b"),
        ],
        lambda a, b: (a @ b.transpose(1, 2)).softmax(-1) @ b,
    ),
    "mean": (
        [places("axis", 1), node("ReduceMean", "a axis", "m"), node("Sub", "b m")],
        lambda a, b: b - a.mean(1, keepdim=True),
    ),
}  # fmt: skip
"""What a graph may do with two tensors (n, m, 4), to make one more, `y`."""


def renamed(nodes, names, step):
    """Copy a step's nodes with its inputs, and everything else under names of its own."""
    copies = [onnx.NodeProto.FromString(one.SerializeToString()) for one in nodes]
    for copy in copies:
        for held in (copy.input, copy.output):
            held[:] = [names.get(name, f"{name}{step}") for name in held]
    return copies


@pytest.mark.parametrize("seed", range(12))
def test_a_graph_of_steps_at_random_has_autograd_s_gradient(seed):
    rng, x = np.random.default_rng(seed), drawn(("n", "m", 4), seed, np.float32)
    leaf = torch.from_numpy(x).double().requires_grad_()
    nodes, values = [], {"x": leaf}
    for step, kind in enumerate(rng.permutation(list(STEPS))):
        made, function = STEPS[kind]
        first, second = (list(values)[-1 - rng.geometric(0.7) % len(values)] for _ in range(2))
        nodes += renamed(made, {"a": first, "b": second}, step)
        values[f"y{step}"] = function(values[first], values[second])
    nodes.append(helper.make_node("Sum", [name for name in values if name != "x"], ["y"]))
    model = graph(nodes, {"x": ("n", "m", 4)}, dtype=np.float32)
    weights, found = differentiated(model, {"x": x}, ["x"])
    total = sum(value for name, value in values.items() if name != "x")
    (exact,) = torch.autograd.grad((total * torch.from_numpy(weights)).sum(), leaf)
    np.testing.assert_allclose(found["x"], exact, rtol=0, atol=1e-5 * max(1, exact.abs().max().item()))
