"""Compare what will be served with the definition in float64, at sizes other than the traced ones."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import torch
from torch import Tensor

from contract.manifest import COUNT, LIKELIEST, TOKENS, Generation, KindName, Port, Role
from export.checks.reference import CASES, Case, Controls, identities, read, relevance, targets
from export.errors import ExportError
from export.plan import Plan, Precision, Sizes, Source, words
from export.tasks.traced import Look

Array = npt.NDArray[np.generic]

Open = Callable[[Role], ort.InferenceSession]
"""Opens the session of a role, which is held only while it is compared: each holds the weights once more."""

TOLERANCE: Mapping[Precision, tuple[float, float]] = {
    "fp32": (1e-4, 1e-4),
    "fp16": (0.02, 0.02),
    "bf16": (0.1, 0.1),
    "int8": (0.5, 0.3),
}
"""Largest difference from float64: of attention weights; and of all else, times the largest value where that is over 1.

All but the first are bounds against breakage. What a model loses by its precision is recorded; whether it matters is
for its user to judge.
"""

SEEDS = (1, 2)
LOOKED_AT = 3
"""Tokens of a step."""
LEAST_SIZES = 3
MAPS_RANK = 5
FEW = 16
"""Rows."""


@dataclass
class Ledger:
    """The worst difference of everything that was compared; a difference past its limit ends the export."""

    precision: Precision = "fp32"
    worst: dict[str, float] = field(default_factory=dict)

    def compare(
        self, what: str, got: Array, wanted: Array, where: str, *, maps: bool = False, least: float = 1.0
    ) -> None:
        """Record max |got - wanted|. Raises ExportError with what, how much, and where if it passes the limit.

        The limit of all but maps grows with the largest value where that is over `least`.
        """
        if got.shape != wanted.shape:
            raise ExportError(f"{what}: must have shape {list(wanted.shape)}, given {list(got.shape)} at {where}")
        apart = got.astype(np.float64)  # in place from here on: logits over a vocabulary are large
        apart -= wanted.astype(np.float64, copy=False)
        difference = float(np.abs(apart, out=apart).max(initial=0.0))
        of_maps, of_others = TOLERANCE[self.precision]
        limit = (
            of_maps if maps else of_others * max(least, float(wanted.max(initial=0.0)), -float(wanted.min(initial=0.0)))
        )
        if not difference <= limit:  # also where it is NaN
            raise ExportError(f"{what}: must agree within {limit:g}, differs by {difference:.3g} at {where}")
        self.worst[what] = max(self.worst.get(what, 0.0), difference)


def verify(source: Source, open_session: Open, precision: Precision = "fp32") -> dict[str, float]:
    """Return the worst differences found, or raise ExportError. The sessions run the files that will be packed."""
    ledger = Ledger(precision)
    if len(source.tried) < LEAST_SIZES or source.tried[-1]["batch"] < 2:
        raise ExportError(f"verification needs {LEAST_SIZES} sizes, the last of a batch, given {len(source.tried)}")
    _looks(source, open_session, ledger)
    for role in ("encode", "decode"):
        for plan in source.plans:
            if plan.role == role:
                _traced(source, plan, open_session(plan.role), ledger)
    if source.generation:
        _cached_as_uncached(source, source.generation, open_session, source.tried[-1], ledger)
    return ledger.worst


def _looks(source: Source, open_session: Open, ledger: Ledger) -> None:
    """Compare predictions, everything that is read off attention, and relevance with one definition in float64."""
    exact = copy.deepcopy(source.base.module).double()
    assert isinstance(exact, Look)  # noqa: S101 # for the type checker
    plans: dict[Role, Plan] = {plan.role: plan for plan in source.plans if plan.module is source.base.module}
    if source.longest:  # first, while no other session is open
        tensors = plans["predict"].example(source.longest, SEEDS[0])
        with torch.no_grad():
            wanted = exact.see(*tensors).answer
        _compared(plans["predict"], open_session("predict"), tensors, [wanted], source.longest, ledger)
    sessions = {role: open_session(role) for role in plans}
    for sizes in source.tried:
        if sizes == source.traced:
            raise ExportError(f"sizes to verify must differ from the traced ones, given {words(sizes)}")
        one, other = (
            _looked(source, exact, plans, sessions, sizes, seed, cases, ledger)
            for seed, cases in zip(SEEDS, (CASES, CASES[:1]), strict=True)
        )
        _different(plans["attention"], one[0], other[0], sizes)
        if "relevance" in plans:
            _different(plans["relevance"], one[1], other[1], sizes)
    sizes = source.tried[-1]
    controls: dict[Role, Callable[[Sizes], Controls]] = {
        "predict": lambda _: {},
        "attention": lambda sizes: CASES[0].controls(exact.kinds, axes(source, sizes), SEEDS[0]),
    }
    if "relevance" in plans:
        with torch.no_grad():
            answer = exact.see(*plans["predict"].example(sizes, SEEDS[0])).answer
        asked = targets(exact.kinds, answer, axes(source, sizes), SEEDS[0])
        controls["relevance"] = lambda _: asked
    for role, plan in plans.items():
        _alone_as_in_a_batch(plan, sessions[role], sizes, ledger, controls[role])


def _looked(
    source: Source,
    exact: Look,
    plans: Mapping[Role, Plan],
    sessions: Mapping[Role, ort.InferenceSession],
    sizes: Sizes,
    seed: int,
    cases: Sequence[Case],
    ledger: Ledger,
) -> tuple[list[Array], list[Array]]:
    """Compare every graph on one input, in each of the cases.

    Return what the attention graph made of the first, and what relevance there is but for the identity.
    """
    given = plans["predict"].example(sizes, seed)
    with torch.no_grad():
        seen = exact.see(*given)
    (answer,) = _compared(plans["predict"], sessions["predict"], given, [seen.answer], sizes, ledger)
    first: list[Array] = []
    for case in cases:
        controls = case.controls(exact.kinds, axes(source, sizes), seed)
        # which entries are the smallest is decided in the graph's precision: that case starts from the graph's own maps
        weighed = seen._replace(weights=_weights(first[1::2])) if case.share else seen
        with torch.no_grad():
            wanted = [seen.answer, *read(exact, weighed, controls, source.image)]
        plan = plans["attention"]
        tensors = plan.example(sizes, seed, controls)
        got = _compared(plan, sessions["attention"], tensors, wanted, sizes, ledger, case.name)
        ledger.compare("predict = attention's prediction", answer, got[0], words(sizes))
        first = first or got
    idle = run(plans["attention"], sessions["attention"], _asked_nothing(plans["attention"], plans["predict"], given))
    ledger.compare("predict = attention's, asked nothing", answer, idle[0], words(sizes))
    rest: list[Array] = []
    if "relevance" in plans:
        controls = targets(exact.kinds, seen.answer, axes(source, sizes), SEEDS[0])
        plan = plans["relevance"]
        arrays = [tensor.numpy() for tensor in plan.example(sizes, seed, controls)]
        logits, *found = run(plan, sessions["relevance"], arrays)
        ledger.compare("relevance: logits", logits, seen.answer.numpy(), words(sizes))
        ledger.compare("predict = relevance's prediction", answer, logits, words(sizes))
        theirs = relevance(exact, given, controls)
        for port, own, ours, defined in zip(
            plan.outputs[1:], identities(exact.kinds, controls), found, theirs, strict=True
        ):
            # beside the ones of the identity nothing small would be seen
            rest.append(_without(ours, own))
            exactly = _without(defined.numpy(), own)
            ledger.compare(f"relevance: {port.name}", rest[-1], exactly, words(sizes), least=0.01)
    for kind, maps in zip(exact.kinds, first[1::2], strict=True):
        if kind.normalized:
            ledger.compare("row sums", maps.sum(-1), np.ones(maps.shape[:-1]), words(sizes), maps=True)
    return first, [answer, *rest]


def _asked_nothing(plan: Plan, predict: Plan, given: Sequence[Tensor]) -> list[Array]:
    """Return the inputs of a prediction, and every other one 0 or empty."""
    others = [
        np.zeros([axis if isinstance(axis, int) else 0 for axis in port.axes], port.dtype) for port in plan.inputs
    ]
    return [*(tensor.numpy() for tensor in given), *others[len(predict.inputs) :]]


def _without(relevance: Array, own: Tensor | None) -> Array:
    """Return relevance (batch, row, key) less the identity that it starts from, whose keys `own` (batch, row) are."""
    if own is None:
        return relevance
    found = relevance.copy()
    at = np.take_along_axis(found, own.numpy()[..., None], axis=2) - 1
    np.put_along_axis(found, own.numpy()[..., None], at, axis=2)
    return found


def _weights(stacks: Sequence[Array]) -> list[list[Tensor]]:
    """Return the weights of each kind, layer by layer, of what the graph made of the first case."""
    return [[layer.double() for layer in torch.from_numpy(stack).unbind(2)] for stack in stacks]


def axes(source: Source, sizes: Sizes) -> Sizes:
    """Return the sizes with that of an image's axis, which never varies."""
    kind = source.attention[0]
    rows, columns = kind.grid or (0, 0)
    return {**sizes, "image": kind.prefix + rows * columns}


def _traced(source: Source, plan: Plan, session: ort.InferenceSession, ledger: Ledger) -> None:
    """Compare a graph with the module that it was traced from."""
    exact = copy.deepcopy(plan.module).double()
    asked: Controls = {COUNT: torch.tensor([LOOKED_AT])} if plan.role == "decode" else {}
    traced = plan.cut((), {LIKELIEST, TOKENS})  # which are made of the logits, and held against them
    for sizes in source.tried:
        answers = []
        for seed in SEEDS:
            tensors = plan.example(sizes, seed, asked)
            taken = tensors[: len(tensors) - len(asked)]
            with torch.no_grad():
                found = exact(*(tensor.double() if tensor.is_floating_point() else tensor for tensor in taken))
            answers.append(_compared(traced, session, tensors, list(found), sizes, ledger))
            if asked:
                got = run(plan, session, [tensor.numpy() for tensor in tensors])
                _likeliest(source, plan, got, words(sizes), ledger)
        _different(traced, answers[0], answers[1], sizes)
    _alone_as_in_a_batch(plan, session, source.tried[-1], ledger, lambda _: asked)


def _likeliest(source: Source, plan: Plan, got: list[Array], where: str, ledger: Ledger) -> None:
    """Compare the likeliest tokens of a step with its own logits, in float64."""
    out = {port.name: array for port, array in zip(plan.outputs, got, strict=True)}
    logits = out["logits"].astype(np.float64)
    logs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    if source.generation:
        logs[:, [token for token in source.generation.suppressed if 0 <= token < logs.shape[1]]] = -np.inf
    best = -np.sort(-logs, axis=-1)[:, : out[LIKELIEST].shape[1]]
    named = np.take_along_axis(logs, out[TOKENS].astype(np.int64), axis=1)
    for what, found in ((LIKELIEST, out[LIKELIEST]), (TOKENS, named)):
        hidden = np.isinf(best) & np.isinf(found)
        ledger.compare(f"decode: {what}", np.where(hidden, 0, found), np.where(hidden, 0, best), where)


def run(plan: Plan, session: ort.InferenceSession, inputs: list[Array]) -> list[Array]:
    """Run a role's session on arrays in the order of its plan, which become what the graph takes."""
    half = {given.name for given in session.get_inputs() if given.type == "tensor(float16)"}
    feed = {
        port.name: array.astype(np.float16) if port.name in half else array
        for port, array in zip(plan.inputs, inputs, strict=True)
    }
    outputs: list[Array] = session.run([port.name for port in plan.outputs], feed)
    return outputs


def _compared(
    plan: Plan,
    session: ort.InferenceSession,
    tensors: list[Tensor],
    wanted: Sequence[Tensor],
    sizes: Sizes,
    ledger: Ledger,
    case: str = "",
) -> list[Array]:
    """Run a graph and compare all that it returns."""
    got = run(plan, session, [tensor.numpy() for tensor in tensors])
    for port, ours, theirs in zip(plan.outputs, got, wanted, strict=True):
        if not theirs.numel() and not ours.size:  # a kind that does not have the method
            continue
        maps = port.name in get_args(KindName)
        what = case if maps else "diagnostics" if port.name.endswith(".diagnostics") else plan.role
        name = port.name.removesuffix(".diagnostics")
        shown = name if name in ("logits", "embeddings", *get_args(KindName)) else "keys and values"
        weights = maps and case.startswith(("raw", "rollout"))
        ledger.compare(f"{what}: {shown}", ours, theirs.numpy(), words(sizes), maps=weights)
    return got


def _different(plan: Plan, one: list[Array], other: list[Array], sizes: Sizes) -> None:
    """Refuse outputs, or layers of maps, that are the same for two inputs."""
    for port, first, second in zip(plan.outputs, one, other, strict=True):
        maps = first.ndim == MAPS_RANK  # (batch, heads, layers, rows, key)
        layers = [np.s_[:, :, layer] for layer in range(first.shape[2])] if maps else [np.s_[:]]
        if (
            first.shape[-1] > 1
            and not port.name.endswith(".diagnostics")
            and not _chosen(first)
            and any(np.array_equal(first[at], second[at]) and first[at].any() for at in layers)
        ):
            # (one key leaves a softmax no choice)
            raise ExportError(f"{plan.role}: {port.name} is the same for two different inputs at {words(sizes)}")


def _chosen(maps: Array) -> bool:
    """Say whether maps are choices, and so few that two inputs may well choose the same."""
    return bool(np.isin(maps, (0, 1)).all()) and maps.size // maps.shape[-1] < FEW


def _alone_as_in_a_batch(
    plan: Plan, session: ort.InferenceSession, sizes: Sizes, ledger: Ledger, controls: Callable[[Sizes], Controls]
) -> None:
    """Run every row alone, cut to its true length, and compare it with its place in the padded batch."""
    asked = controls(sizes)
    inputs = [tensor.numpy() for tensor in plan.example(sizes, SEEDS[0], asked)]
    together = run(plan, session, inputs)
    masks = {
        str(port.axes[1]): array
        for port, array in zip(plan.inputs, inputs, strict=True)
        if port.name.endswith("_visible")
    }
    for row in range(sizes["batch"]):
        lengths = {axis: int(mask[row].sum()) for axis, mask in masks.items()}
        own = {name: tensor.numpy() for name, tensor in controls({**sizes, **lengths}).items()}
        cut = [
            _cut(port, array, row, lengths) if port.axes[:1] == ("batch",) else own[port.name]
            for port, array in zip(plan.inputs, inputs, strict=True)
        ]
        alone = run(plan, session, cut)
        for port, one, many in zip(plan.outputs, alone, together, strict=True):
            if port.name == TOKENS:  # a name, of which no difference is small
                continue
            where = f"row {row} of {words(sizes)}, of true length {words(lengths)}"
            same = many[(slice(row, row + 1), *(slice(length) for length in one.shape[1:]))]
            maps = plan.role == "attention" and port.name in get_args(KindName)
            ledger.compare(f"{plan.role}: alone = in a padded batch", one, same, where, maps=maps)


def _cut(port: Port, array: Array, row: int, lengths: Mapping[str, int]) -> Array:
    """Return one row, without the padding on the axes whose true lengths are known."""
    return array[(slice(row, row + 1), *(slice(lengths.get(str(axis))) for axis in port.axes[1:]))]


def _cached_as_uncached(
    source: Source, generation: Generation, open_session: Open, sizes: Sizes, ledger: Ledger
) -> None:
    """Feed a target token by token through encode and decode, and compare with one pass of the definition.

    Where targets continue their source, the first half of the target is the source, and its last token is fed again.
    """
    encode, decode, predict = (source.plan(role) for role in ("encode", "decode", "predict"))
    given = dict(zip((port.name for port in predict.inputs), predict.example(sizes, SEEDS[0]), strict=True))
    look = copy.deepcopy(predict.module).double()
    assert isinstance(look, Look)  # noqa: S101 # for the type checker
    with torch.no_grad():
        wanted = look.see(*given.values()).answer.numpy()
    target = given["target"].numpy()
    first = target.shape[1] // 2 if generation.start is None else 0
    fed = {"source": target[:, :first]} if first else {name: tensor.numpy() for name, tensor in given.items()}
    session = open_session("encode")
    known = run(encode, session, [fed[port.name] for port in encode.inputs])
    state = {**fed, **dict(zip((port.name for port in encode.outputs), known, strict=True))}
    shape = {port.name: port.axes for port in decode.inputs}
    for cache in generation.caches:
        room = np.zeros([sizes[axis] if isinstance(axis, str) else axis for axis in shape[cache.past]], np.float32)
        room[:, :, :first] = state.get(cache.past, room[:, :, :0])
        state[cache.past] = room
    session = open_session("decode")
    for index in range(max(first - 1, 0), target.shape[1]):
        state |= {"token": target[:, index], "position": np.full(sizes["batch"], index), COUNT: np.array([1])}
        got = run(decode, session, [state[port.name] for port in decode.inputs])
        present = {port.name: array for port, array in zip(decode.outputs, got, strict=True)}
        state |= {cache.past: present[cache.present] for cache in generation.caches}
        ledger.compare("cached = uncached", present["logits"], wanted[:, index], f"step {index} of {words(sizes)}")
