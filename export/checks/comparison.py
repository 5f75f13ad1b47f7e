"""Compare what a graph returns with what it should: differences within a tolerance, rows alone and in a batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from torch import Tensor

from contract.generation import GENERATING, TOKENS
from contract.manifest import BOXES, LOGITS, POOL, Port, Role
from export.checks.reference import Controls
from export.checks.trials import Round, Trial
from export.errors import ExportError, MethodError
from export.plan import OMISSIBLE, Plan, Precision, Sizes, format_sizes

Array = npt.NDArray[np.generic]

OpenSession = Callable[[Role], ort.InferenceSession]
"""A function that opens the session of a role. It is held only while it is compared: each holds a copy of the
weights."""

TOLERANCE: Mapping[Precision, tuple[float, float]] = {
    "fp32": (1e-4, 1e-4),
    "fp16": (0.02, 0.02),
    "bf16": (0.1, 0.1),
    "int8": (0.5, 0.3),
    "int4": (1e-4, 1e-4),
}
"""The largest difference from float64: (of attention weights, of everything else).

The second is multiplied by the largest value if that is over 1. All but those of fp32, and of int4, which is compared
with a definition whose matrices are rounded, are bounds against breakage. The loss of a lower precision is recorded in
the manifest; whether it matters is for the user of the model to judge.
"""

MOST_TURNED = 0.8
"""In 8 bits, a sharp head may turn to another of the tokens that are drawn: a difference over its limit is taken while
the root mean square of all is at most this share of that of what is wanted. Of unrelated numbers it is 1.4 times that.
"""

DIAGNOSTICS = ".diagnostics"
"""The end of the name of an output that holds the diagnostics of a kind."""

COMPARED_AT_ONCE = 1 << 20
"""Numbers that are compared at a time, in float64."""

MAPS_RANK = 5
"""Maps are (batch, heads, layers, rows, key)."""

FEW_ROWS = 16
"""Two inputs may well lead to the same hard choices in fewer rows than this."""


def failure(what: str, message: str) -> ExportError:
    """Return the error of what was compared: a MethodError if its name holds what can be left out."""
    for method in OMISSIBLE:
        if method in what:
            return MethodError(method, message)
    return ExportError(message)


@dataclass
class Ledger:
    """The worst difference of everything that was compared. A difference over its limit ends the export."""

    precision: Precision = "fp32"
    factor: float = 1.0
    """What every limit is multiplied by: more than 1 for a definition that single floats compute less exactly."""
    share: float = 0.0
    """The largest difference, as a share of its limit without the factor."""
    worst: dict[str, float] = field(default_factory=dict)
    doing: Callable[[str], object] = str
    """A function that is told what is being compared, to show it to whoever waits."""

    def each(self, rounds: Sequence[Round]) -> Iterator[Round]:
        """Yield each of the rounds, and tell which of them is being compared."""
        for number, trials in enumerate(rounds, 1):
            self.doing(f"shape {number} of {len(rounds)}: {trials[-1].where}")
            yield trials

    def in_precision(self, precision: Precision) -> "Ledger":
        """Return the same ledger with the limits of a precision."""
        return replace(self, precision=precision)

    def compare(
        self, what: str, got: Array, wanted: Array, where: str, *, maps: bool = False, least: float = 1.0
    ) -> None:
        """Record max |got - wanted|. Raises ExportError with what, how much and where if it is over the limit.

        Except for maps, the limit grows with the largest value if that is over `least`.
        """
        if got.shape != wanted.shape:
            raise ExportError(f"{what}: must have shape {list(wanted.shape)}, given {list(got.shape)} at {where}")
        difference = _largest_difference(got, wanted)
        of_maps, of_others = TOLERANCE[self.precision]
        limit = (
            of_maps if maps else of_others * max(least, float(wanted.max(initial=0.0)), -float(wanted.min(initial=0.0)))
        )
        self.share = float(np.maximum(self.share, difference / limit))  # NaN if it is NaN
        limit *= self.factor
        if not difference <= limit and not (self.precision == "int8" and _turned(got, wanted) <= MOST_TURNED):  # or NaN
            raise failure(what, f"{what}: must agree within {limit:g}, differs by {difference:.3g} at {where}")
        self.worst[what] = max(self.worst.get(what, 0.0), difference)


def _largest_difference(got: Array, wanted: Array) -> float:
    """Return max |got - wanted| in float64; NaN if there is one. Part by part, since maps and logits are large."""
    flat = got.reshape(-1), wanted.reshape(-1)
    parts = ([one[start : start + COMPARED_AT_ONCE] for one in flat] for start in range(0, got.size, COMPARED_AT_ONCE))
    return float(np.max([np.abs(np.subtract(one, other, dtype=np.float64)).max() for one, other in parts], initial=0.0))


def _turned(got: Array, wanted: Array) -> float:
    """Return the root mean square of differences as a share of that of what is wanted; NaN where there is one."""
    difference = np.subtract(got, wanted, dtype=np.float64)
    return float(np.linalg.norm(difference) / max(np.linalg.norm(wanted.astype(np.float64)), np.finfo(float).tiny))


def run(plan: Plan, session: ort.InferenceSession, inputs: list[Array]) -> list[Array]:
    """Run a role's session on arrays in the order of its plan; floats are cast to the dtype that the graph takes."""
    half = {given.name for given in session.get_inputs() if given.type == "tensor(float16)"}
    feed = {
        port.name: array.astype(np.float16) if port.name in half else array
        for port, array in zip(plan.inputs, inputs, strict=True)
    }
    caches = {port.name: port.name.replace("present.", "past.", 1) for port in plan.outputs}
    caches = {present: past for present, past in caches.items() if past in feed}
    if caches:
        return _run_in_place(plan, session, feed, caches)
    outputs: list[Array] = session.run([port.name for port in plan.outputs], feed)
    return outputs


def _run_in_place(
    plan: Plan, session: ort.InferenceSession, feed: Mapping[str, Array], caches: Mapping[str, str]
) -> list[Array]:
    """Run a decode step as the service does: it writes each cache (output -> input) to the memory of the one before."""
    held = {past: np.array(feed[past], order="C") for past in caches.values()}
    binding = session.io_binding()
    for name, array in feed.items():
        if name not in held:
            binding.bind_cpu_input(name, np.ascontiguousarray(array))
    for present, past in caches.items():
        place = "cpu", 0, held[past].dtype, held[past].shape, held[past].ctypes.data
        binding.bind_input(past, *place)
        binding.bind_output(present, *place)
    others = [port.name for port in plan.outputs if port.name not in caches]
    for name in others:
        binding.bind_output(name)
    session.run_with_iobinding(binding)
    found = dict(zip(others, (value.numpy() for value in binding.get_outputs()[len(caches) :]), strict=True))
    return [held[caches[port.name]] if port.name in caches else found[port.name] for port in plan.outputs]


def compare_outputs(
    plan: Plan,
    session: ort.InferenceSession,
    tensors: list[Tensor],
    wanted: Sequence[Tensor],
    sizes: Sizes,
    ledger: Ledger,
    case: str = "",
) -> list[Array]:
    """Run a graph, compare all that it returns with what is wanted, and return it."""
    got = run(plan, session, [tensor.numpy() for tensor in tensors])
    compare_returned(plan, got, wanted, sizes, ledger, case)
    return got


def _are_maps(plan: Plan, port: Port) -> bool:
    """Return whether an output holds the maps of a kind, which come with its diagnostics."""
    return any(one.name == f"{port.name}{DIAGNOSTICS}" for one in plan.outputs)


def compare_returned(
    plan: Plan, got: Sequence[Array], wanted: Sequence[Tensor], sizes: Sizes, ledger: Ledger, case: str = ""
) -> None:
    """Compare all that a graph has returned with what is wanted."""
    for port, ours, theirs in zip(plan.outputs, got, wanted, strict=True):
        if not theirs.numel() and not ours.size:  # a kind that does not have the method
            continue
        maps = _are_maps(plan, port)
        what = case if maps else "diagnostics" if port.name.endswith(DIAGNOSTICS) else plan.role
        known = plan.role not in GENERATING or port.name in (LOGITS, BOXES)
        shown = port.name.removesuffix(DIAGNOSTICS) if known else "keys and values"
        weights = maps and case.startswith(("raw", "rollout"))
        ledger.compare(f"{what}: {shown}", ours, theirs.numpy(), format_sizes(sizes), maps=weights)


def require_difference(
    plan: Plan, one: list[Array], other: list[Array], sizes: Sizes, fixed: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Raise ExportError if an output, or a layer of maps, is the same for two inputs, in the rows that both have.

    `fixed` says of which kinds the maps of how many first layers are the same for all inputs.
    """
    for port, *both in zip(plan.outputs, one, other, strict=True):
        first, second = (array[: min(map(len, both))] for array in both)
        maps = first.ndim == MAPS_RANK
        varying = range(fixed.get(port.name, 0), first.shape[2]) if maps else ()
        layers = [np.s_[:, :, layer] for layer in varying] if maps else [np.s_[:]]
        if (
            first.shape[-1] > 1  # one key leaves a softmax no choice
            and port.name != f"{POOL}.query"  # which is learned
            and not port.name.endswith(".diagnostics")
            and not _are_few_choices(first)
            and any(np.array_equal(first[at], second[at]) and first[at].any() for at in layers)
        ):
            raise failure(
                plan.role, f"{plan.role}: {port.name} is the same for two different inputs at {format_sizes(sizes)}"
            )


def _are_few_choices(maps: Array) -> bool:
    """True if maps are hard choices in so few rows that two inputs may well lead to the same ones."""
    return bool(np.isin(maps, (0, 1)).all()) and maps.size // maps.shape[-1] < FEW_ROWS


def compare_alone_with_batch(
    plan: Plan,
    session: ort.InferenceSession,
    trial: Trial,
    ledger: Ledger,
    controls: Callable[[Sizes], Controls],
    together: Sequence[Array] | None = None,
) -> None:
    """Run every row alone, cut to its true length, and compare it with its place in the padded batch.

    `together` is what the graph has returned for that batch and its controls, where that is known.
    """
    sizes = trial.sizes
    inputs = [tensor.numpy() for tensor in plan.example(sizes, trial.seed, controls(sizes))]
    together = together or run(plan, session, inputs)
    masks = {
        str(port.axes[1]): array
        for port, array in zip(plan.inputs, inputs, strict=True)
        if port.name.endswith("_visible") and isinstance(port.axes[1], str)  # those of a fixed length are not cut
    }
    for row in range(sizes["batch"]):
        lengths = {axis: int(mask[row].sum()) for axis, mask in masks.items()}
        own = {name: tensor.numpy() for name, tensor in controls({**sizes, **lengths}).items()}
        cut = [
            _row_without_padding(port, array, row, lengths) if port.axes[:1] == ("batch",) else own[port.name]
            for port, array in zip(plan.inputs, inputs, strict=True)
        ]
        alone = run(plan, session, cut)
        for port, one, many in zip(plan.outputs, alone, together, strict=True):
            if port.name == TOKENS:  # indices, of which no difference is small
                continue
            where = f"row {row} of {format_sizes(sizes)}, of true length {format_sizes(lengths)}"
            same = many[(slice(row, row + 1), *(slice(length) for length in one.shape[1:]))]
            maps = _are_maps(plan, port)
            ledger.compare(f"{plan.role}: alone = in a padded batch", one, same, where, maps=maps)


def _row_without_padding(port: Port, array: Array, row: int, lengths: Mapping[str, int]) -> Array:
    """Return one row, cut on the axes whose true lengths are known."""
    return array[(slice(row, row + 1), *(slice(lengths.get(str(axis))) for axis in port.axes[1:]))]
