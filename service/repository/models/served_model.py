"""A loaded artifact: its sessions, and the lanes in which the graphs of attention and of gradient methods run."""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from contract.artifact import MANIFEST, Artifact
from contract.manifest import GRADIENT_METHODS, IMAGE_VISIBLE, GradientMethod, Manifest, Role, Task
from service.arrays import Array, crop, padded
from service.batching.admission import Backlog, Budget, Priority
from service.batching.batcher import Lane, bucket_of
from service.concurrency import together
from service.errors import NOT_FINITE, Broken, Refusal, TooLarge, Unacceptable
from service.explanations.answer import AttentionMap
from service.explanations.comparison import is_comparison
from service.explanations.query import AttentionQuery, resolve
from service.generation.decode_loop import DecodeLoop
from service.inputs.artifact_inputs import open_inputs
from service.inputs.model_input import ModelInput, Pair, Text
from service.options.attention import AttentionOptions
from service.repository.models.cross_check import check_graphs, check_manifest
from service.repository.models.gradient_jobs import Found, GradientJob, split, stacked
from service.repository.models.graph_controls import GraphControls, controls_of, read_diagnostics, read_maps
from service.runtime.device import Device, run_beside
from service.runtime.runtime_errors import SessionError
from service.runtime.session import open_sessions
from service.settings import Settings
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Tracer

Prediction: TypeAlias = npt.NDArray[np.float32]
"""What a head returns for one input: logits (classes), an embedding (width), logits (masks, vocabulary), or what
`Detector` makes of a detector's two answers."""
ModelState: TypeAlias = Literal["warming up", "ready", "failed"]
"""A failed one could not run when it was tried last; it is tried again every few seconds."""
RawMaps: TypeAlias = tuple[Prediction, dict[str, Array]]
"""The prediction of one input, and what a graph computed of its attention."""

GRADIENT_DIVISOR = 8
"""A batch of a gradient method computes an eighth of the maps of another at most: it holds the activations of all
layers, and their gradients, which take 10 to 17 times the bytes of the maps in the bundled models."""
STATE_BYTES = 5
"""For each token, layer and number of its state, a run of a gradient method counts as so many bytes of maps, if it has
fewer: of short texts the states are larger than the maps. They take about 60 bytes each (`minilm`, 8 to 128 tokens)."""
PART_STATE_BYTES = 768 << 10
"""Items of a batch run together on a CPU as long as their states (tokens x width) take at most so many bytes for each
thread; at least one does. In larger parts, what a layer writes for the next has left the processor's caches; in smaller
ones, the weights are read too often. Measured on Zen 4, which has 1 MiB of cache a core: benchmarks/RESULTS.md."""
BESIDE = 2
"""So many inputs run beside one another where each must run alone, since its 8-bit scales are of the whole input: while
one run computes on a single thread, the other uses the second core. Measured on two cores: benchmarks/RESULTS.md."""
RUN_BYTES = {False: (1.5, 32), True: (1.5, 128)}
"""The bytes that a run for one input takes at most: so many times those of all maps, and so many for each token, layer
and number of its state. Of a gradient method (True) and of other attention. benchmarks/RESULTS.md has the measures."""
FLOAT_BYTES = 4
MOST_FAILURES = 3
"""Failed runs in a row, after which a model is warmed up again to see whether it can run at all."""


@dataclass(frozen=True)
class AttentionJob:
    """An item of an attention lane: an input, and what its graph is asked for."""

    item: ModelInput
    controls: GraphControls


@dataclass(frozen=True)
class AttentionResult:
    """The prediction of one input, its maps, and the figures of every head if they were asked for."""

    prediction: Prediction
    maps: Sequence[AttentionMap]
    diagnostics: list[dict[str, object]] | None = None


def written_at(artifact: Artifact) -> int:
    """Return when a manifest was written, or its copy if the folder is gone. Raises OSError if the copy is gone too."""
    with contextlib.suppress(OSError):
        return int(artifact.path(MANIFEST).stat().st_mtime)
    return int(artifact.to_load(MANIFEST).stat().st_mtime)


class ServedModel:
    """What every task has: an artifact, its sessions, its inputs, and lanes for attention with a budget of their own.

    It is loaded when it is made, and serves once `start` has made its lanes and somebody runs its `loops`.
    """

    tasks: ClassVar[tuple[Task, ...]]
    endpoints: ClassVar[tuple[str, ...]]
    """The ends of the paths that serve it."""
    example_text = "The cat sat on the mat."
    """A text to try it on."""
    roles: ClassVar[tuple[Role, ...]]
    attention_lane: Lane[AttentionJob, RawMaps]
    gradient_lanes: Mapping[GradientMethod, Lane[GradientJob, Found]]

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        self.artifact = artifact
        self.created = written_at(artifact)
        self.settings = settings
        check_graphs(artifact, self.roles)
        self.gradient_methods = [method for method in GRADIENT_METHODS if method in artifact.manifest.graphs]
        self.sessions = open_sessions(artifact, (*self.roles, *self.gradient_methods), device, settings)
        check_manifest(artifact, self.sessions)
        self.inputs = open_inputs(artifact)
        self.takes_pairs = self.manifest.task == "text-classification"
        images = [example.image for example in self.manifest.examples if example.image]
        self.pictures = {image: artifact.to_load(image).read_bytes() for image in images}
        """The examples' pictures by file; they are kept in memory, since the checked copy is removed."""
        self.refused: Mapping[Path, str] = {}
        """The newer versions that could not be served at the start, with the reasons that clients are told."""
        self.state: ModelState = "warming up"
        self.unused = asyncio.Event()
        """Set while no request is being answered."""
        self.unused.set()
        self.prediction_budget = Budget("queue of predictions", settings.queue_tokens, at_once=settings.batch_tokens)
        self.attention_budget = Budget("queue of attention", settings.queue_map_bytes, at_once=settings.batch_map_bytes)
        self.lanes: list[Lane[Any, Any] | DecodeLoop] = []
        self._users = 0
        self.device = device
        """What the sessions were opened for: `cpu`, `cuda`, `openvino` or `tensorrt`."""

    @property
    def manifest(self) -> Manifest:
        """What the artifact says of itself."""
        return self.artifact.manifest

    @property
    def provider(self) -> str:
        """The execution provider that runs it."""
        return next(iter(self.sessions.values())).provider

    @property
    def on_cpu(self) -> bool:
        """True if every session runs on cores of the CPU."""
        return self.device in ("cpu", "openvino")

    @property
    def budgets(self) -> dict[str, Budget]:
        """The bounds of its queues by name."""
        name = self.manifest.name
        return {f"{name}/predictions": self.prediction_budget, f"{name}/attention": self.attention_budget}

    @property
    def ready(self) -> bool:
        """True if it can run, as far as is known."""
        return self.state == "ready"

    @property
    def failing(self) -> bool:
        """True if the last few runs of some lane all failed."""
        return any(lane.failures >= MOST_FAILURES for lane in self.lanes)

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Count a request that is being answered."""
        self._users += 1
        self.unused.clear()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self.unused.set()

    def start(self, device: Device, backlog: Backlog, metrics: Metrics, tracer: Tracer) -> None:
        """Make the lanes, on a device, whose backlog the queues are a part of."""
        for budget in self.budgets.values():
            budget.backlog = backlog
        limit, name = self.settings.batch_map_bytes, self.manifest.name
        gradient_limit = max(limit // GRADIENT_DIVISOR, 1)
        self.attention_lane = Lane(
            f"{name}/attention", device, self._run_attention, limit, self.attention_budget, metrics,
            self.sessions["attention"].cores, tracer,
        )  # fmt: skip
        self.gradient_lanes = {
            method: Lane(
                f"{name}/{method}", device, functools.partial(self.run_gradient, method), gradient_limit,
                self.attention_budget, metrics, self.sessions[method].cores, tracer,
            )
            for method in self.gradient_methods
        }  # fmt: skip
        self.lanes = [self.attention_lane, *self.gradient_lanes.values()]

    def loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Return the coroutine functions that work until they are cancelled: those of decode loops."""
        return [lane.work for lane in self.lanes if isinstance(lane, DecodeLoop)]

    async def warm_up(self, device: Device) -> None:
        """Run every session on every shape that is treated differently. Raises SessionError for one that cannot run."""
        for session in self.sessions.values():
            for lengths in self._shapes():
                async with device.turn() as run:
                    try:
                        await run(session.warm_up, lengths)
                    except SessionError:
                        raise
                    except Exception as error:  # of any kind, such as too little memory for its inputs
                        raise SessionError(f"{session.name}: cannot run: {type(error).__name__}") from error
        for lane in self.lanes:
            lane.failures = 0
        self.state = "ready"

    def _shapes(self) -> list[dict[str, int]]:
        """Return lengths of the axes that vary: every bucket; on a CPU, which treats all alike, the least and most.

        Lengths at which attention is too large for a batch are left out.
        """
        most = self.longest()
        top = bucket_of(max(most.values(), default=1))
        buckets = [1 << power for power in range(top.bit_length())] if self.device != "cpu" else [1, top]
        shapes = [{axis: min(bucket, limit) for axis, limit in most.items()} for bucket in buckets]
        return [one for one in shapes if max(one.values(), default=1) == 1 or self._fits(one)]

    def _fits(self, lengths: Mapping[str, int]) -> bool:
        axes = {kind.query: 1 for kind in self.manifest.attention} | {kind.key: 1 for kind in self.manifest.attention}
        return self.map_bytes({**axes, **self.inputs.lengths, **lengths}) <= self.settings.batch_map_bytes

    def longest(self) -> dict[str, int]:
        """Return the most tokens along each axis that varies."""
        return dict(self.inputs.longest)

    def check_text(self, text: Text) -> None:
        """Raise Unacceptable for a pair of texts where the task takes single ones."""
        if isinstance(text, Pair) and not self.takes_pairs:
            raise Unacceptable(f"text_pair: is for text-classification, this model's task is {self.manifest.task}")

    def complete_input(self, item: ModelInput) -> ModelInput:
        """Return the tokens of a text with what else the task takes. Raises Unacceptable for what it cannot take."""
        return item

    def query(self, options: AttentionOptions) -> AttentionQuery:
        """Return the attention that options ask for. Raises Unacceptable for what the model cannot serve."""
        return resolve(options, self.manifest, self.token_of)

    def token_of(self, text: str) -> int | None:
        """Return the token of its answers that a text is, or None."""
        return None

    def map_bytes(self, lengths: Mapping[str, int]) -> int:
        """Return the bytes of all maps that the attention graph computes for one input."""
        return sum(
            4 * len(kind.maps) * kind.heads * kind.weights(lengths[kind.query], lengths[kind.key])
            for kind in self.manifest.attention
        )

    def gradient_bytes(self, lengths: Mapping[str, int]) -> int:
        """Return what a run of a gradient method for one input counts in the queue of attention, in bytes of maps."""
        return max(self.map_bytes(lengths), STATE_BYTES * self._state_numbers(lengths))

    def _state_numbers(self, lengths: Mapping[str, int]) -> int:
        """Return how many numbers the states of one input are in all layers; 0 for states without a known width."""
        tokens = sum(len(kind.maps) * lengths[kind.query] for kind in self.manifest.attention)
        return tokens * (self.manifest.width or 0)

    def run_bytes(self, lengths: Mapping[str, int], *, by_gradient: bool) -> int:
        """Return the most bytes that a run for one input takes, beside the weights and the maps that it returns."""
        maps, states = RUN_BYTES[by_gradient]
        return int(maps * self.map_bytes(lengths) + states * self._state_numbers(lengths))

    def check_run(self, query: AttentionQuery, lengths: Sequence[Mapping[str, int]]) -> None:
        """Raise TooLarge for attention of inputs with these axis lengths if a run for one would take too much memory.

        Inputs are never split, and a request that waits alone is admitted whatever it costs.
        """
        by_gradient = query.by_gradient or (is_comparison(query) and bool(self.gradient_methods))
        limit, size = self.settings.run_bytes, max(self.run_bytes(one, by_gradient=by_gradient) for one in lengths)
        if size > limit:
            raise TooLarge(
                f"attention: at most {limit} bytes of memory for one input, this one may take {size}; "
                "ask for a shorter input" + (", or for rollout" if by_gradient else "")
            )

    async def attend(self, item: ModelInput, query: AttentionQuery, priority: Priority) -> AttentionResult:
        """Return the prediction of one input, and the maps and figures that a query asks for.

        Raises Unacceptable for rows that it does not have.
        """
        controls = controls_of(query, item.lengths)
        size, longest = self.map_bytes(item.lengths), max(item.lengths.values())
        # padding would be counted among the smallest weights of an input, so it runs alone
        alone = object() if query.options.discard and self.inputs.padded else None
        prediction, stacks = await self.attention_lane.submit(
            AttentionJob(item, controls), size, (bucket_of(longest), controls, alone), priority
        )
        maps = [] if query.by_gradient else read_maps(query, controls, item.lengths, stacks)
        visible, diagnosed = item.arrays.get(IMAGE_VISIBLE), query.options.diagnostics
        return AttentionResult(prediction, maps, read_diagnostics(query, stacks, visible) if diagnosed else None)

    async def explain_scores(
        self, method: GradientMethod, jobs: Sequence[GradientJob], priority: Priority
    ) -> list[Found]:
        """Return what the graph of a method finds for each job."""
        lane = self.gradient_lanes[method]
        return await together(
            lane.submit(job, self.gradient_bytes(job.item.lengths), job.bucket, priority) for job in jobs
        )

    def _run_attention(self, jobs: Sequence[AttentionJob]) -> list[RawMaps | Refusal]:
        items, controls = [job.item for job in jobs], jobs[0].controls
        special = {name: padded([item.special[name] for item in items]) for name in items[0].special}
        longest = {name: max(item.lengths[name] for item in items) for name in items[0].lengths}
        out = self.run("attention", items, controls.feed(longest, special))
        return [_finite(self._unpadded(item, row, controls, out)) for row, item in enumerate(items)]

    def _unpadded(
        self, item: ModelInput, row: int, controls: GraphControls, out: Mapping[str, Sequence[Array]]
    ) -> RawMaps:
        """Return one input's prediction and maps without the padding of its batch."""
        stacks = {}
        for one in controls.kinds:
            name, queries = one.kind.name, item.lengths[one.kind.query]
            keys = None if one.kind.grid else item.lengths[one.kind.fed]  # those of an image are never padded
            if not len(out[name]):  # no map is asked for, and the graph only predicts
                continue
            rows = queries if one.rows is None else None
            own = out[name][row][:, :, :rows, :keys]
            stacks[str(name)] = own.copy() if len(out[name]) > 1 else own  # a view would keep the whole batch in memory
            if controls.diagnose:
                stacks[f"{name}.diagnostics"] = out[f"{name}.diagnostics"][row][:, :, :queries]
        return self.prediction_of(out, row, item), stacks

    def prediction_of(self, out: Mapping[str, Sequence[Array]], row: int, item: ModelInput) -> Prediction:
        """Return the prediction of one input from the outputs of a graph, without the padding of its batch."""
        answer = self.manifest.answers[0]
        return crop(out[answer.name][row], answer, item.lengths)

    def run_gradient(self, method: GradientMethod, jobs: Sequence[GradientJob]) -> list[Found | Refusal]:
        """Run the graph of a method on a batch."""
        graph = self.manifest.graphs[method]
        out = self.run(method, [job.item for job in jobs], stacked(jobs, graph))
        return [one if is_finite(one.values()) else Broken(NOT_FINITE) for one in split(jobs, graph, out)]

    def run(
        self, role: Role, items: Sequence[ModelInput], controls: Mapping[str, Array] | None = None
    ) -> dict[str, list[Array]]:
        """Run a graph on inputs padded to one length, and on those of the controls that it takes.

        Returns an array for each input by output, none for an output without rows. A batch may run in parts
        (`_items_at_once`), to each of which go inputs without an axis for the batch.
        """
        controls, graph = controls or {}, self.manifest.graphs[role]
        feed = {
            port.name: controls[port.name]
            if port.name in controls
            else padded([item.arrays[port.name] for item in items])
            for port in graph.inputs
        }
        divided = {port.name for port in graph.inputs if port.axes[:1] == ("batch",)}
        at_once = self._items_at_once(role, items)

        def run_part(part: slice) -> dict[str, Array]:
            given = {name: array[part] if name in divided else array for name, array in feed.items()}
            return self.sessions[role].run(given)

        parts = [slice(first, first + at_once) for first in range(0, len(items), at_once)]
        found: dict[str, list[Array]] = {port.name: [] for port in graph.outputs}
        for out in run_beside(run_part, parts, self._parts_beside(role)):
            for name, rows in out.items():
                found[name].extend(rows)
        return found

    def _runs_alone(self, role: Role) -> bool:
        """Return whether scales of 8 bits are of a whole input: another would change them. Gradients are of floats."""
        return self.manifest.scales == "input" and role not in GRADIENT_METHODS

    def _parts_beside(self, role: Role) -> int:
        """Return how many parts of a batch run beside one another, on all threads of a session on a CPU together."""
        several = self.device == "cpu" and self._runs_alone(role) and self.sessions[role].cores > 1
        return BESIDE if several else 1

    def _items_at_once(self, role: Role, items: Sequence[ModelInput]) -> int:
        """Return how many items of a batch run together: all, or on a CPU as many as its caches serve well."""
        if self._runs_alone(role):
            return 1
        if self.device != "cpu" or self.manifest.width is None:
            return len(items)
        tokens = max(sum(item.lengths.get(axis, 0) for axis in ("image", "source", "target")) for item in items)
        return max(1, self.tokens_at_once(role) // tokens)

    def tokens_at_once(self, role: Role) -> int:
        """Return how many tokens of a batch run together: on a CPU, as many as its caches serve well."""
        if self.device != "cpu" or self.manifest.width is None:
            return self.settings.batch_tokens
        return max(1, PART_STATE_BYTES * self.sessions[role].cores // (FLOAT_BYTES * self.manifest.width))


def _finite(maps: RawMaps) -> RawMaps | Refusal:
    """Return the same, or a refusal if some number is not finite."""
    prediction, stacks = maps
    return maps if is_finite((prediction, *stacks.values())) else Broken(NOT_FINITE)


def is_finite(arrays: Iterable[Array]) -> bool:
    """Return whether all numbers are finite."""
    return all(np.isfinite(array).all() for array in arrays)
