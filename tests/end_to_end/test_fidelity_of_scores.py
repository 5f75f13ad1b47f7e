"""Libra and integrated gradients of the artifacts themselves, against autograd on what they must be equal to.

Checkpoints are explained in the reference library, whose own code is balanced here from outside: softmax, norms and
products by a mode of torch, activations by hooks. The states that enter the blocks are caught by hooks, too.
"""

import re

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from export.bundled import SOURCES
from export.tasks.ports import EMBEDDED
from tests.samples.checkpoints import CASES
from tests.samples.fidelity import BUNDLED, FAMILIES, close, of_families, open_model, score, targets

BATCH = 3
TOLERANCE = 1e-5
"""The largest difference, as a share of the largest value."""
PATH = 3e-5
"""The tolerance of integrated gradients. All but one model are within 1e-5; on the sharpest, a Marian, it is 1.6e-5."""
BLOCKS = r"(?:(encoder|decoder)\.(?:blocks?|layers?)|(?:^|(?<!block\.\d)\.)(layers?|h|albert_layers))\.\d+$"
"""Where a model keeps its blocks: a stack, or none where it has one alone. Layers may share a block; T5's layers are
parts of a block."""
SMOOTH = {
    "GELU", "GELUActivation", "GELUTanh", "NewGELUActivation", "QuickGELU", "QuickGELUActivation", "SiLU",
    "SiLUActivation", "Tanh", "FastGELUActivation", "PytorchGELUTanh",
}  # fmt: skip


class Balanced(TorchFunctionMode):
    """Constants are detached, products halved: written here apart from the definitions."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if name in ("softmax", "norm", "linalg_vector_norm", "sigmoid", "rsqrt"):
            return func(*args, **kwargs).detach()
        if name == "layer_norm":
            x, rest = args[0], (*args[2:], *(kwargs[one] for one in ("weight", "bias", "eps")[len(args) - 2 :]))
            weight, bias, epsilon = rest
            deviation = (x.var(-1, keepdim=True, unbiased=False) + epsilon).sqrt().detach()
            return (x - x.mean(-1, keepdim=True)) / deviation * weight + (0 if bias is None else bias)
        if name == "tanh":
            return through_value(None, args, func(*args))
        if name == "gelu":
            return through_value(None, args, func(*args, **kwargs))
        if name == "log1p":  # at 0 it is the derivative
            (x,) = args
            return x * torch.where(x == 0, 1, func(x) / torch.where(x == 0, 1, x)).detach()
        if name == "silu":
            return args[0] * args[0].sigmoid().detach()
        if name in ("mul", "__mul__", "__rmul__") and all(getattr(one, "requires_grad", False) for one in args[:2]):
            one, other = args
            return 0.5 * one * other.detach() + 0.5 * one.detach() * other
        return func(*args, **kwargs)


def through_value(module, given, found):
    x = given[0]
    return x * (found.detach() / x.detach()) if x.requires_grad else found


class Watched:
    """A model whose blocks' states are caught or replaced, and whose activations are balanced where that is asked."""

    def __init__(self, model, name):
        self.module = SOURCES[name]().traced.double() if name in BUNDLED else model.see.model
        self.see = None
        self.states, self.given, self.hooks = {}, {}, []
        if name in BUNDLED:
            traced = self.module
            self.see = lambda feed: traced.observe(*(torch.from_numpy(array) for array in feed.values())).answer
        else:
            self.see = lambda feed: model.see(feed).answer
        for parameter in self.module.parameters():
            parameter.requires_grad_(False)
        for path, part in self.module.named_modules():
            found = re.search(BLOCKS, path)
            if found:
                stack = found[1] or next(iter(kind.kind for kind in model.manifest.attention))
                stack = "decoder" if path.startswith("decoder.") else stack  # of a GPT-2 behind an encoder
                self.hooks.append(part.register_forward_pre_hook(self.catch(stack), with_kwargs=True))
        self.smooth = [part for part in self.module.modules() if type(part).__name__ in SMOOTH]

    def catch(self, stack):
        def hook(module, args, kwargs):
            layer = sum(of == stack for of, _ in self.states)
            x = args[0] if args else kwargs["hidden_states"]
            if layer == 0:
                x = self.given.get(stack, x).detach().requires_grad_()
            self.states[stack, layer] = x
            return ((x, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": x})

        return hook

    def answer(self, feed, given=None, *, balanced=False):
        self.states, self.given = {}, given or {}
        hooks = [part.register_forward_hook(through_value) for part in self.smooth] if balanced else []
        try:
            if not balanced:
                return self.see(feed)
            with Balanced():
                return self.see(feed)
        finally:
            for hook in hooks:
                hook.remove()

    def close(self):
        for hook in self.hooks:
            hook.remove()


OTHERS = [name for name in FAMILIES if CASES[name].task != "object-detection"]
"""Scores of objects are held against definitions in test_detection_over_http.py."""


@pytest.fixture(scope="module", params=[*BUNDLED, *of_families(OTHERS)])
def model(request):
    return open_model(request.param, request)


@pytest.fixture
def watched(request, model):
    found = Watched(model, request.node.callspec.params["model"])
    yield found
    found.close()


def named(model, seen):
    """Return targets, each by its number."""
    asked = targets(model, seen)
    if "explained" in asked:
        asked["explained"] = np.where(asked["explained"] < 0, 0, asked["explained"])
    return asked


def stack_of(kind):
    return "encoder" if kind.kind == "cross" else kind.kind


def explained(model, method):
    return [kind for kind in model.manifest.attention if method in kind.methods]


def relative(ours, theirs, what, tolerance=TOLERANCE):
    assert ours.shape == theirs.shape, what
    assert np.abs(theirs).max() > 1e-3, what
    assert np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max(), what


def test_libra_is_that_of_the_states_of_every_layer_and_adds_up(model, watched):
    seen = model.seen(BATCH)
    asked = named(model, seen)
    answer = watched.answer(seen.feed, balanced=True)
    with Balanced():  # the lengths of a cosine
        wanted = score(answer, asked)
    states = list(watched.states.items())
    gradients = torch.autograd.grad(wanted.sum(), [x for _, x in states])
    shares = {
        place: (x * gradient).sum(-1).detach().numpy() for (place, x), gradient in zip(states, gradients, strict=True)
    }
    got = model.run("libra", {**seen.feed, **asked})
    close(got["score"], wanted.detach().numpy(), "score")
    total = got["biases"]
    for kind in explained(model, "libra"):
        layers = got[kind.kind].shape[1]
        theirs = np.stack([shares[stack_of(kind), layer] for layer in range(layers)], 1)
        relative(got[kind.kind], theirs, kind.kind)
        total = total + got[kind.kind].sum(-1)
    assert np.abs(total - got["score"][:, None]).max() <= 1e-4 * max(1, np.abs(got["biases"]).max())


def test_integrated_gradients_are_those_of_a_point_of_the_path(model, watched):
    seen, rng = model.seen(BATCH), np.random.default_rng(7)
    asked = named(model, seen)
    blank = {name: np.roll(array, 1, 0) for name, array in seen.feed.items() if name in EMBEDDED}
    share, point = np.array([1, 1, 0], np.float32), rng.random(BATCH).astype(np.float32)
    with torch.no_grad():
        watched.answer(seen.feed)
        given = {stack: x.detach() for (stack, layer), x in watched.states.items() if not layer}
        watched.answer({**seen.feed, **blank})
        start = {stack: x.detach() for (stack, layer), x in watched.states.items() if not layer}
    column = {name: torch.from_numpy(one).double()[:, None, None] for name, one in (("share", share), ("point", point))}
    start = {stack: column["share"] * x for stack, x in start.items()}
    apart = {stack: x - start[stack] for stack, x in given.items()}
    between = {stack: start[stack] + column["point"] * apart[stack] for stack in given}
    wanted = score(watched.answer(seen.feed, between), asked)
    gradients = torch.autograd.grad(wanted.sum(), [watched.states[stack, 0] for stack in given])
    gradients = dict(zip(given, gradients, strict=True))
    baseline = {f"baseline.{name}": array for name, array in blank.items()}
    got = model.run("integrated", {**seen.feed, **asked, **baseline, "blank": share, "point": point})
    close(got["score"], wanted.detach().numpy(), "score")
    for kind in explained(model, "integrated"):
        stack = stack_of(kind)
        relative(got[kind.kind], (apart[stack] * gradients[stack]).sum(-1).detach().numpy(), kind.kind, PATH)
    for end in (0, 1):
        point = np.full(BATCH, end, np.float32)
        ends = model.run("integrated", {**seen.feed, **asked, **baseline, "blank": share, "point": point})
        assert not any(ends[kind.kind].any() for kind in explained(model, "integrated")), "only the score is computed"
        with torch.no_grad():
            states = {stack: start[stack] + end * apart[stack] for stack in given}
            close(ends["score"], score(watched.answer(seen.feed, states), asked).numpy(), f"score at {end}")
