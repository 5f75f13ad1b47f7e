"""The balanced backward pass of each operator, against autograd on functions whose constants are detached by hand."""

import math

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from torch.nn import functional

from export.graphs.editing.builder import Builder
from export.graphs.gradients import libra
from export.graphs.gradients.balanced import balanced_gradients
from tests.samples.export_graphs import model_of, session

BATCH, TOKENS, WIDTH = 3, 5, 4
RNG = np.random.default_rng(5)
X = RNG.normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
X[0, 0, 0] = 0  # where f(x)/x has no value of its own
WEIGHTS = {
    "matrix": RNG.normal(size=(WIDTH, WIDTH)),
    "vector": RNG.normal(size=WIDTH),
    "scale": RNG.normal(size=WIDTH),
    "table": RNG.normal(size=(1, TOKENS, WIDTH)),
    "kernel": RNG.normal(size=(WIDTH, 1, 3)),
    "head": RNG.normal(size=(2, WIDTH)),
    "pair": RNG.normal(size=2),
    "means": RNG.normal(size=WIDTH),
    "variances": RNG.uniform(0.5, 2, WIDTH),
    "one": np.array(1.0),
    "half": np.array(0.5),
    "root": np.array(0.5**0.5),
    "cubic": np.array(0.044715),
    "three": np.array(3.0),
    "tanh": np.array((2 / math.pi) ** 0.5),
}
W = {name: torch.from_numpy(value.astype(np.float32)).double() for name, value in WEIGHTS.items()}


def layer_norm(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt().detach() * W["scale"] + W["vector"]


def batch_norm(x):
    return functional.batch_norm(x, W["means"], W["variances"], W["scale"], W["vector"])


def share(f, at_zero):
    """Return x -> x g(x), g a constant: f(x)/x."""

    def run(x):
        safe = torch.where(x == 0, 1, x)
        return x * torch.where(x == 0, at_zero, f(safe) / safe).detach()

    return run


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs.split(), [output], **attributes)


CASES = {
    "weights of a softmax": (
        [
            node("Transpose", "x", "t", perm=[0, 2, 1]),
            node("MatMul", "x t", "s"),
            node("Softmax", "s", "a", axis=-1),
            node("MatMul", "a x", "y"),
        ],
        lambda x: (x @ x.transpose(1, 2)).softmax(-1).detach() @ x,
    ),
    "norm": ([node("LayerNormalization", "x scale vector", "y", axis=-1)], layer_norm),
    "gelu": ([node("Gelu", "x", "y")], share(functional.gelu, 0.5)),
    "gelu by tanh": (
        [node("Gelu", "x", "y", approximate="tanh")],
        share(lambda x: functional.gelu(x, approximate="tanh"), 0.5),
    ),
    "gelu as older opsets write it": (
        [
            node("Mul", "x root", "u"),
            node("Erf", "u", "e"),
            node("Add", "e one", "g"),
            node("Mul", "x half", "h"),
            node("Mul", "h g", "y"),
        ],
        share(functional.gelu, 0.5),
    ),
    "gelu by tanh as older opsets write it": (
        [
            node("Pow", "x three", "p"),
            node("Mul", "p cubic", "q"),
            node("Add", "x q", "r"),
            node("Mul", "r tanh", "u"),
            node("Tanh", "u", "e"),
            node("Add", "e one", "g"),
            node("Mul", "x half", "h"),
            node("Mul", "h g", "y"),
        ],
        share(lambda x: functional.gelu(x, approximate="tanh"), 0.5),
    ),
    "tanh": ([node("Tanh", "x", "y")], share(torch.tanh, 1.0)),
    "log of what is above one": (
        [node("Relu", "x", "r"), node("Add", "one r", "a"), node("Log", "a", "y")],
        lambda x: share(torch.log1p, 1.0)(x.relu()),
    ),
    "log of such a log": (
        [
            node("Relu", "x", "r"),
            node("Add", "r one", "a"),
            node("Log", "a", "l"),
            node("Add", "l one", "b"),
            node("Log", "b", "y"),
        ],
        lambda x: share(torch.log1p, 1.0)(share(torch.log1p, 1.0)(x.relu())),
    ),
    "silu": ([node("Sigmoid", "x", "s"), node("Mul", "x s", "y")], lambda x: x * torch.sigmoid(x).detach()),
    "relu": ([node("Relu", "x", "y")], torch.relu),
    "product": (
        [node("MatMul", "x matrix", "a"), node("Add", "a vector", "b"), node("Mul", "x b", "y")],
        lambda x: (x * (x @ W["matrix"] + W["vector"]).detach() + x.detach() * (x @ W["matrix"] + W["vector"])) / 2,
    ),
    "length": (
        [node("ReduceL2", "x axis", "l", keepdims=1), node("Div", "x l", "y")],
        lambda x: x / x.norm(dim=-1, keepdim=True).detach(),
    ),
    "root of a mean square": (
        [
            node("Mul", "x x", "q"),
            node("ReduceMean", "q axis", "m", keepdims=1),
            node("Sqrt", "m", "r"),
            node("Reciprocal", "r", "i"),
            node("Mul", "x i", "y"),
        ],
        lambda x: x * x.square().mean(-1, keepdim=True).rsqrt().detach(),
    ),
    "maximum": ([node("ReduceMax", "x tokens", "y", keepdims=1)], lambda x: x.amax(1, keepdim=True)),
    "biases": (
        [
            node("MatMul", "x matrix", "a"),
            node("Add", "vector a", "b"),
            node("Sub", "b table", "c"),
            node("Transpose", "c", "d", perm=[0, 2, 1]),
            node("Conv", "d kernel vector", "e", group=WIDTH, pads=[1, 1]),
            node("Transpose", "e", "f", perm=[0, 2, 1]),
            node("Sub", "table f", "y"),
        ],
        lambda x: (
            W["table"]
            - functional.conv1d(
                (x @ W["matrix"] + W["vector"] - W["table"]).transpose(1, 2), W["kernel"], W["vector"], 1, 1, 1, WIDTH
            ).transpose(1, 2)
        ),
    ),
    "batch norm": (
        [
            node("Transpose", "x", "t", perm=[0, 2, 1]),
            node("BatchNormalization", "t scale vector means variances", "b"),
            node("Transpose", "b", "y", perm=[0, 2, 1]),
        ],
        lambda x: batch_norm(x.transpose(1, 2)).transpose(1, 2),
    ),
    "batch norm of vectors": (
        [
            node("ReduceMean", "x tokens", "m", keepdims=0),
            node("BatchNormalization", "m scale vector means variances", "y"),
        ],
        lambda x: batch_norm(x.mean(1)),
    ),
    "parts": (
        [
            helper.make_node("Split", ["x"], ["p", "q"], axis=-1, num_outputs=2),
            node("Concat", "q q", "y", axis=-1),
        ],
        lambda x: torch.cat((x[..., 2:], x[..., 2:]), -1),
    ),
    "head": (
        [node("ReduceMean", "x tokens", "m", keepdims=0), node("Gemm", "m head pair", "y", transB=1)],
        lambda x: functional.linear(x.mean(1), W["head"], W["pair"]),
    ),
}


def graph(nodes, outputs=(), seeded=()):
    """Return a model of nodes on x, WEIGHTS and two axes."""
    constants = {name: value.astype(np.float32) for name, value in WEIGHTS.items()}
    constants |= {"axis": np.array([-1]), "tokens": np.array([1])}
    return model_of(nodes, {"x": ["n", TOKENS, WIDTH]} | dict.fromkeys(seeded), dict.fromkeys(outputs), constants)


def run(model, feed):
    return session(model).run(None, feed)


@pytest.mark.parametrize("name", CASES)
def test_each_operator_is_balanced_and_nothing_of_the_score_is_lost(name):
    nodes, function = CASES[name]
    (answer,) = run(graph(nodes, ["y"]), {"x": X})
    seed = RNG.normal(size=answer.shape).astype(np.float32)
    model = graph(nodes, seeded=["seed"])
    gradients, biases = balanced_gradients(model, "y", "seed", ["x"])
    wanted = [gradients["x"], *biases[0]]
    model.graph.output.extend(helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in wanted)
    found, *added = run(model, {"x": X, "seed": seed})
    leaf = torch.from_numpy(X).double().requires_grad_()
    defined = function(leaf)
    np.testing.assert_allclose(answer, defined.detach(), rtol=0, atol=2e-5)
    (exact,) = torch.autograd.grad((defined * torch.from_numpy(seed)).sum(), leaf)
    np.testing.assert_allclose(found, exact, rtol=0, atol=2e-5 * max(1, exact.abs().max().item()))
    score = (answer * seed).reshape(BATCH, -1).sum(1)
    shares = (X * found).sum((1, 2)) + sum(added, np.zeros(BATCH))
    np.testing.assert_allclose(shares, score, rtol=0, atol=1e-4)


def test_a_log_of_anything_else_has_its_own_gradient():
    nodes = [node("Exp", "x", "e"), node("Add", "e half", "a"), node("Log", "a", "y")]
    model = graph(nodes, seeded=["seed"])
    gradients, biases = balanced_gradients(model, "y", "seed", ["x"])
    wanted = [gradients["x"], *biases[0]]
    model.graph.output.extend(helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in wanted)
    seed = RNG.normal(size=X.shape).astype(np.float32)
    found, *added = run(model, {"x": X, "seed": seed})
    np.testing.assert_allclose(found, seed * np.exp(X) / (np.exp(X) + 0.5), atol=1e-5)
    assert len(added) == 1  # what is not 1 has a share


def test_each_bias_counts_from_the_state_that_it_lies_behind():
    """A norm that makes a state lies before it, whatever stands between."""
    nodes = [
        node("Add", "x vector", "a"),
        node("LayerNormalization", "a scale vector", "state", axis=-1),
        node("MatMul", "state matrix", "b"),
        node("Add", "b vector", "y"),
    ]
    model = graph(nodes, seeded=["seed"])
    gradients, (first, second) = balanced_gradients(model, "y", "seed", ["x", "state"])
    assert (len(first), len(second)) == (2, 1)
    wanted = [gradients["x"], "state", gradients["state"], *first, *second, "y"]
    model.graph.output.extend(helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in wanted)
    seed = RNG.normal(size=X.shape).astype(np.float32)
    of_x, state, of_state, *added, answer = run(model, {"x": X, "seed": seed})
    score = (answer * seed).sum((1, 2))
    np.testing.assert_allclose((state * of_state).sum((1, 2)) + added[2], score, atol=1e-4)
    np.testing.assert_allclose((X * of_x).sum((1, 2)) + sum(added), score, atol=1e-4)


def test_of_a_model_without_biases_nothing_is_added_behind_any_layer():
    model = model_of([], {"score": ["n"]}, {"behind": ["n", 2]})
    b = Builder(model, "b.")
    b.adopt([helper.make_node("Identity", [libra._behind(b, [[], []], 2, 8.0, "score")], ["behind"])])
    (found,) = run(model, {"score": np.array([1.5, -2.0], np.float32)})
    assert found.tolist() == [[0, 0], [0, 0]]
