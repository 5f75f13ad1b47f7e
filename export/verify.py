"""Compare what will be served with the definition in float64, at sizes other than the traced ones."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import torch
from torch import Tensor, nn

from contract.manifest import Generation, Port, Role
from export.optimize import ExportError
from export.plan import Plan, Sizes, Source, words
from export.precision import Precision

Array = npt.NDArray[np.generic]

Open = Callable[[Role], ort.InferenceSession]
"""Opens the session of a role, which is held only while it is compared: each holds the weights once more."""

TOLERANCE: Mapping[Precision, tuple[float, float]] = {"fp32": (1e-4, 1e-4), "fp16": (0.02, 0.02), "int8": (0.5, 0.3)}
"""Largest difference from float64: of attention weights; and of all else, times the largest value where that is over 1.

The second and third are bounds against breakage. What a model loses by its precision is recorded; whether it matters is
for its user to judge.
"""

SEEDS = (1, 2)
LEAST_SIZES = 3


@dataclass
class Ledger:
    """The worst difference of everything that was compared; a difference past its limit ends the export."""

    precision: Precision = "fp32"
    worst: dict[str, float] = field(default_factory=dict)

    def compare(self, what: str, got: Array, wanted: Array, where: str, *, maps: bool = False) -> None:
        """Record max |got - wanted|. Raises ExportError with what, how much, and where if it passes the limit."""
        if got.shape != wanted.shape:
            raise ExportError(f"{what}: must have shape {list(wanted.shape)}, given {list(got.shape)} at {where}")
        apart = got.astype(np.float64)  # in place from here on: logits over a vocabulary are large
        apart -= wanted.astype(np.float64, copy=False)
        difference = float(np.abs(apart, out=apart).max(initial=0.0))
        of_maps, of_others = TOLERANCE[self.precision]
        limit = (
            of_maps if maps else of_others * max(1.0, float(wanted.max(initial=0.0)), -float(wanted.min(initial=0.0)))
        )
        if not difference <= limit:  # also where it is NaN
            raise ExportError(f"{what}: must agree within {limit:g}, differs by {difference:.3g} at {where}")
        self.worst[what] = max(self.worst.get(what, 0.0), difference)


def verify(source: Source, open_session: Open, precision: Precision = "fp32") -> dict[str, float]:
    """Return the worst differences found, or raise ExportError. The sessions run the files that will be packed."""
    ledger = Ledger(precision)
    if len(source.tried) < LEAST_SIZES or source.tried[-1]["batch"] < 2:
        raise ExportError(f"verification needs {LEAST_SIZES} sizes, the last of a batch, given {len(source.tried)}")
    for roles in (("attention", "predict"), ("encode",), ("decode",)):
        plans = [plan for role in roles for plan in source.plans if plan.role == role]
        if plans:
            _verify(source, plans, open_session, ledger)
    if source.generation:
        _cached_as_uncached(source, source.generation, open_session, source.tried[-1], ledger)
    return ledger.worst


def _verify(source: Source, plans: list[Plan], open_session: Open, ledger: Ledger) -> None:
    """Compare the graphs of one definition, of which the first returns all that the others do, in that order."""
    exact = copy.deepcopy(nn.ModuleList([plan.module for plan in plans])).double()  # at once: they share their weights
    for plan, definition in zip(plans, exact, strict=True):
        if source.longest and plan.role == "predict":  # first, while no other session is open
            tensors = plan.example(source.longest, SEEDS[0])
            wanted = _exactly(definition, tensors)
            _compared(plan, open_session(plan.role), tensors, wanted, source.longest, ledger)
    sessions = {plan.role: open_session(plan.role) for plan in plans}
    for sizes in source.tried:
        if sizes == source.traced:
            raise ExportError(f"sizes to verify must differ from the traced ones, given {words(sizes)}")
        answers: dict[Role, list[list[Array]]] = {plan.role: [] for plan in plans}
        for seed in SEEDS:
            tensors = plans[0].example(sizes, seed)
            wanted = _exactly(exact[0], tensors)
            for plan in plans:
                got = _compared(plan, sessions[plan.role], tensors, wanted, sizes, ledger)
                answers[plan.role].append(got)
            first, *others = (answers[plan.role][-1][0] for plan in plans)
            for same in others:
                ledger.compare("predict = attention's prediction", first, same, words(sizes))
        for plan in plans:
            one, other = answers[plan.role]
            _different(plan, one, other, sizes)
    for plan in plans:
        _alone_as_in_a_batch(plan, sessions[plan.role], source.tried[-1], ledger)


def run(plan: Plan, session: ort.InferenceSession, inputs: list[Array]) -> list[Array]:
    """Run a role's session on arrays in the order of its plan, which become what the graph takes."""
    half = {given.name for given in session.get_inputs() if given.type == "tensor(float16)"}
    feed = {
        port.name: array.astype(np.float16) if port.name in half else array
        for port, array in zip(plan.inputs, inputs, strict=True)
    }
    outputs: list[Array] = session.run([port.name for port in plan.outputs], feed)
    return outputs


def _exactly(exact: torch.nn.Module, tensors: list[Tensor]) -> list[Array]:
    with torch.no_grad():
        found = exact(*(tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors))
    return [tensor.numpy() for tensor in (found if isinstance(found, tuple) else (found,))]


def _compared(
    plan: Plan,
    session: ort.InferenceSession,
    tensors: list[Tensor],
    wanted: list[Array],
    sizes: Sizes,
    ledger: Ledger,
) -> list[Array]:
    """Run a graph and compare it with the definition in float64, which may return more behind what the graph does."""
    got = run(plan, session, [tensor.numpy() for tensor in tensors])
    for port, ours, theirs in zip(plan.outputs, got, wanted, strict=False):
        maps = _is_map(port.name)
        ledger.compare(f"{plan.role}: {_label(port.name)}", ours, theirs, words(sizes), maps=maps)
        if maps:
            ledger.compare("row sums", ours.sum(-1), np.ones(ours.shape[:-1]), words(sizes), maps=True)
    return got


def _different(plan: Plan, one: list[Array], other: list[Array], sizes: Sizes) -> None:
    """Refuse outputs, or layers of maps, that are the same for two inputs."""
    for port, first, second in zip(plan.outputs, one, other, strict=True):
        layers = range(first.shape[1]) if _is_map(port.name) else [slice(None)]
        if first.shape[-1] > 1 and any(np.array_equal(first[:, layer], second[:, layer]) for layer in layers):
            # (one key leaves a softmax no choice)
            raise ExportError(f"{plan.role}: {port.name} is the same for two different inputs at {words(sizes)}")


def _alone_as_in_a_batch(plan: Plan, session: ort.InferenceSession, sizes: Sizes, ledger: Ledger) -> None:
    """Run every row alone, cut to its true length, and compare it with its place in the padded batch."""
    inputs = [tensor.numpy() for tensor in plan.example(sizes, SEEDS[0])]
    together = run(plan, session, inputs)
    masks = {str(port.axes[1]): array for port, array in zip(plan.inputs, inputs, strict=True) if port.dtype == "bool"}
    for row in range(sizes["batch"]):
        lengths = {axis: int(mask[row].sum()) for axis, mask in masks.items()}
        cut = [_cut(port, array, row, lengths) for port, array in zip(plan.inputs, inputs, strict=True)]
        alone = run(plan, session, cut)
        for port, one, many in zip(plan.outputs, alone, together, strict=True):
            where = f"row {row} of {words(sizes)}, of true length {words(lengths)}"
            what = f"{plan.role}: alone = in a padded batch"
            ledger.compare(what, one, _cut(port, many, row, lengths), where, maps=_is_map(port.name))


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
    (wanted,) = _exactly(copy.deepcopy(predict.module).double(), list(given.values()))
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
        state |= {"token": target[:, index], "position": np.full(sizes["batch"], index)}
        got = run(decode, session, [state[port.name] for port in decode.inputs])
        present = {port.name: array for port, array in zip(decode.outputs, got, strict=True)}
        state |= {cache.past: present[cache.present] for cache in generation.caches}
        ledger.compare("cached = uncached", present["logits"], wanted[:, index], f"step {index} of {words(sizes)}")


def _is_map(name: str) -> bool:
    return name in ("encoder", "decoder", "cross")


def _label(name: str) -> str:
    return name if _is_map(name) or name in ("logits", "embeddings") else "keys and values"
