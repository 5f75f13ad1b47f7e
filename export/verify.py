"""Compare what will be served with the definition in float64, at sizes other than the traced ones."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import torch

from contract.manifest import Port, Role
from export.optimize import ExportError
from export.plan import Plan, Sizes, Source, words

Array = npt.NDArray[np.generic]

TOLERANCE = {"maps": 1e-5, "other": 1e-4}
"""Largest absolute difference from float64: of attention weights, and of logits, keys and values."""

SEEDS = (1, 2)
LEAST_SIZES = 3


@dataclass
class Ledger:
    """The worst difference of everything that was compared; a difference past its limit ends the export."""

    worst: dict[str, float] = field(default_factory=dict)

    def compare(self, what: str, got: Array, wanted: Array, limit: float, where: str) -> None:
        """Record max |got - wanted|. Raises ExportError with what, how much, and where if it passes the limit."""
        if got.shape != wanted.shape:
            raise ExportError(f"{what}: must have shape {list(wanted.shape)}, given {list(got.shape)} at {where}")
        difference = float(np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max(initial=0.0))
        if not difference <= limit:  # also where it is NaN
            raise ExportError(f"{what}: must agree within {limit:g}, differs by {difference:.3g} at {where}")
        self.worst[what] = max(self.worst.get(what, 0.0), difference)


def verify(source: Source, sessions: Mapping[Role, ort.InferenceSession]) -> dict[str, float]:
    """Return the worst differences found, or raise ExportError. `sessions` run the files that will be packed."""
    ledger = Ledger()
    if len(source.tried) < LEAST_SIZES or source.tried[-1]["batch"] < 2:
        raise ExportError(f"verification needs {LEAST_SIZES} sizes, the last of a batch, given {len(source.tried)}")
    for plan in source.plans:
        for sizes in source.tried:
            if sizes == source.traced:
                raise ExportError(
                    f"{plan.role}: sizes to verify must differ from the traced ones, given {words(sizes)}"
                )
            _against_float64(plan, sessions[plan.role], sizes, ledger)
    sizes = source.tried[-1]
    _attention_predicts_the_same(source, sessions, sizes, ledger)
    for plan in source.plans:
        _alone_as_in_a_batch(plan, sessions[plan.role], sizes, ledger)
    if source.generation:
        _cached_as_uncached(source, sessions, sizes, ledger)
    return ledger.worst


def run(plan: Plan, session: ort.InferenceSession, inputs: list[Array]) -> list[Array]:
    """Run a role's session on arrays in the order of its plan."""
    feed = {port.name: array for port, array in zip(plan.inputs, inputs, strict=True)}
    outputs: list[Array] = session.run([port.name for port in plan.outputs], feed)
    return outputs


def _against_float64(plan: Plan, session: ort.InferenceSession, sizes: Sizes, ledger: Ledger) -> None:
    exact = copy.deepcopy(plan.module).double()
    answers = []
    for seed in SEEDS:
        tensors = plan.example(sizes, seed)
        with torch.no_grad():
            wanted = exact(*(tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors))
            wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        got = run(plan, session, [tensor.numpy() for tensor in tensors])
        for port, ours, theirs in zip(plan.outputs, got, wanted, strict=True):
            limit = TOLERANCE["maps" if _is_map(port.name) else "other"]
            ledger.compare(f"{plan.role}: {_label(port.name)}", ours, theirs.numpy(), limit, words(sizes))
            if _is_map(port.name):
                ledger.compare("row sums", ours.sum(-1), np.ones(ours.shape[:-1]), TOLERANCE["maps"], words(sizes))
        answers.append(got)
    for port, one, other in zip(plan.outputs, *answers, strict=True):
        layers = range(one.shape[1]) if _is_map(port.name) else [slice(None)]
        if one.shape[-1] > 1 and any(np.array_equal(one[:, layer], other[:, layer]) for layer in layers):
            # (one key leaves a softmax no choice)
            raise ExportError(f"{plan.role}: {port.name} is the same for two different inputs at {words(sizes)}")


def _attention_predicts_the_same(
    source: Source, sessions: Mapping[Role, ort.InferenceSession], sizes: Sizes, ledger: Ledger
) -> None:
    inputs = [tensor.numpy() for tensor in source.plan("predict").example(sizes, SEEDS[0])]
    plain = run(source.plan("predict"), sessions["predict"], inputs)[0]
    looking = run(source.plan("attention"), sessions["attention"], inputs)[0]
    ledger.compare("predict = attention's logits", looking, plain, TOLERANCE["other"], words(sizes))


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
            limit = TOLERANCE["maps" if _is_map(port.name) else "other"]
            where = f"row {row} of {words(sizes)}, of true length {words(lengths)}"
            ledger.compare(f"{plan.role}: alone = in a padded batch", one, _cut(port, many, row, lengths), limit, where)


def _cut(port: Port, array: Array, row: int, lengths: Mapping[str, int]) -> Array:
    """Return one row, without the padding on the axes whose true lengths are known."""
    return array[(slice(row, row + 1), *(slice(lengths.get(str(axis))) for axis in port.axes[1:]))]


def _cached_as_uncached(
    source: Source, sessions: Mapping[Role, ort.InferenceSession], sizes: Sizes, ledger: Ledger
) -> None:
    """Feed a target token by token through encode and decode, and compare with one pass of the definition."""
    generation = source.generation
    assert generation is not None  # noqa: S101 # the caller looked
    encode, decode = source.plan("encode"), source.plan("decode")
    tokens, visible, target = source.plan("predict").example(sizes, SEEDS[0])
    with torch.no_grad():
        wanted = copy.deepcopy(source.plan("predict").module).double()(tokens, visible, target).numpy()
    memory = run(encode, sessions["encode"], [tokens.numpy(), visible.numpy()])
    state: dict[str, Array] = dict(zip(generation.memory, memory, strict=True))
    shape = {port.name: port.axes for port in decode.inputs}
    for cache in generation.caches:
        state[cache.past] = np.zeros(
            [sizes[axis] if isinstance(axis, str) else axis for axis in shape[cache.past]], np.float32
        )
    for index in range(sizes["target"]):
        state |= {
            "token": target[:, index].numpy(),
            "position": np.full(sizes["batch"], index),
            "source_visible": visible.numpy(),
        }
        got = run(decode, sessions["decode"], [state[port.name] for port in decode.inputs])
        present = {port.name: array for port, array in zip(decode.outputs, got, strict=True)}
        state |= {cache.past: present[cache.present] for cache in generation.caches}
        ledger.compare(
            "cached = uncached",
            present["logits"],
            wanted[:, index],
            TOLERANCE["other"],
            f"step {index} of {words(sizes)}",
        )


def _is_map(name: str) -> bool:
    return name in ("encoder", "decoder", "cross")


def _label(name: str) -> str:
    return name if _is_map(name) or name == "logits" else "keys and values"
