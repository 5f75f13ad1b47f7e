"""A loaded artifact: its sessions, and the lanes in which the graphs of attention and of gradient methods run."""

import contextlib
import functools
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from contract.artifact import MANIFEST, Artifact
from contract.manifest import GRADIENT_METHODS, IMAGE_VISIBLE, SALIENCY, Manifest, Role, Task
from service.arrays import Array, crop, padded
from service.batching.admission import Backlog, Budget
from service.batching.batcher import Lane, bucket_of
from service.batching.fair_queue import Caller
from service.concurrency import together
from service.errors import NOT_FINITE, Broken, Refusal, TooLarge
from service.explanations.answer import AttentionMap
from service.explanations.comparison import is_comparison
from service.explanations.query import AttentionQuery, resolve
from service.generation.decode_loop import DecodeLoop
from service.inputs.artifact_inputs import open_inputs
from service.inputs.model_input import ModelInput, cost_of
from service.options.attention import AttentionOptions
from service.repository.models.batches import Batches
from service.repository.models.cross_check import check_graphs, check_manifest
from service.repository.models.footprint import GRADIENT_DIVISOR, Footprint
from service.repository.models.gradient_jobs import Found, GradientJob, split, stacked
from service.repository.models.graph_controls import (
    GraphControls,
    controls_of,
    read_diagnostics,
    read_maps,
    read_stacks,
)
from service.repository.models.pairs import Paired
from service.repository.models.reach import Reach
from service.repository.models.uses import Uses
from service.runtime.device import Device
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
    states: Mapping[str, Array] = field(default_factory=dict)
    """For each kind whose states are compared, those after the layers asked for, in order: (layer, token, width)."""


def written_at(artifact: Artifact) -> int:
    """Return when a manifest was written, or its copy if the folder is gone. Raises OSError if the copy is gone too."""
    with contextlib.suppress(OSError):
        return int(artifact.path(MANIFEST).stat().st_mtime)
    return int(artifact.to_load(MANIFEST).stat().st_mtime)


class ServedModel(Paired):
    """What every task has: an artifact, its sessions, its inputs, and lanes for attention with a budget of their own.

    It is loaded when it is made, and serves once `start` has made its lanes and somebody runs its `loops`.
    """

    tasks: ClassVar[tuple[Task, ...]]
    endpoints: tuple[str, ...]
    """The ends of the paths that serve it; the first is its task's."""
    example_text = "The cat sat on the mat."
    """A text to try it on."""
    takes_single, takes_pairs = True, False
    """Whether an input may be one text or picture, and a pair of texts."""
    roles: ClassVar[tuple[Role, ...]]
    attention_lane: Lane[AttentionJob, RawMaps]
    gradient_lanes: Mapping[Role, Lane[GradientJob, Found]]

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        self.artifact = artifact
        self.created = written_at(artifact)
        self.settings = settings
        check_graphs(artifact, self.roles)
        self.gradient_methods = [method for method in GRADIENT_METHODS if method in artifact.manifest.graphs]
        beside: tuple[Role, ...] = ("inside", SALIENCY)
        apart = (role for role in beside if role in artifact.manifest.graphs)
        self.explaining: list[Role] = [*self.gradient_methods, *apart]
        """The graphs of their own that it has, beside that of attention, each of which has a lane."""
        self.sessions = open_sessions(artifact, (*self.roles, *self.explaining), device, settings)
        check_manifest(artifact, self.sessions)
        self.inputs = open_inputs(artifact)
        files = [example.file for example in self.manifest.examples if example.file]
        self.example_files = {file: artifact.to_load(file).read_bytes() for file in files}
        """The examples' pictures and sounds by file; they are kept in memory, since the checked copy is removed."""
        self.refused: Mapping[Path, str] = {}
        """The newer versions that could not be served at the start, with the reasons that clients are told."""
        self.state: ModelState = "warming up"
        self.uses = Uses()
        even = not self.inputs.longest  # inputs of one length
        self.prediction_budget = Budget(
            "queue of predictions", settings.queue_tokens, at_once=settings.batch_tokens,
            less="send fewer inputs", even=even,
        )  # fmt: skip
        self.attention_budget = Budget(
            "queue of attention", settings.queue_map_bytes, at_once=settings.batch_map_bytes,
            less="ask for fewer inputs, targets or steps", even=even,
        )  # fmt: skip
        self.lanes: list[Lane[Any, Any] | DecodeLoop] = []
        self.device = device
        """What the sessions were opened for: `cpu`, `cuda`, `openvino` or `tensorrt`."""
        self.on_cpu = device in ("cpu", "openvino")
        self.footprint = Footprint(artifact.manifest)
        self.reach = Reach(self.footprint, settings.run_bytes, settings.request_seconds)
        self.batches = Batches(artifact.manifest, self.sessions, device, settings)

    @property
    def manifest(self) -> Manifest:
        """What the artifact says of itself."""
        return self.artifact.manifest

    @property
    def provider(self) -> str:
        """The execution provider that runs it."""
        return next(iter(self.sessions.values())).provider

    @property
    def ready(self) -> bool:
        """True if it can run, and its partner too, as far as is known."""
        return all(one.state == "ready" for one in self.together)

    @property
    def failing(self) -> bool:
        """True if the last few runs of some lane all failed."""
        return any(lane.failures >= MOST_FAILURES for lane in self.lanes)

    def start(self, device: Device, backlog: Backlog, metrics: Metrics, tracer: Tracer) -> None:
        """Make the lanes, on a device, whose backlog the queues are a part of."""
        for budget in (self.prediction_budget, self.attention_budget):
            budget.backlog = backlog
        limit, name = self.settings.batch_map_bytes, self.manifest.name
        gradient_limit = max(limit // GRADIENT_DIVISOR, 1)
        self.attention_lane = Lane(
            f"{name}/attention", device, self._run_attention, limit, self.attention_budget, metrics,
            self.sessions["attention"].cores, tracer,
        )  # fmt: skip
        self.gradient_lanes = {
            role: Lane(
                f"{name}/{role}", device, functools.partial(self.run_gradient, role), gradient_limit,
                self.attention_budget, metrics, self.sessions[role].cores, tracer,
            )
            for role in self.explaining
        }  # fmt: skip
        self.lanes = [self.attention_lane, *self.gradient_lanes.values()]

    def loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Return the coroutine functions that work until they are cancelled: those of decode loops."""
        return [lane.work for lane in self.lanes if isinstance(lane, DecodeLoop)]

    async def warm_up(self, device: Device) -> None:
        """Run every session on every shape that is treated differently. Raises SessionError for one that cannot run."""
        for role, session in self.sessions.items():
            for lengths in self._lengths_to_try(role):
                async with device.turn() as run:
                    try:
                        seconds = await run(session.warm_up, lengths)
                    except SessionError:
                        raise
                    except Exception as error:  # of any kind, such as too little memory for its inputs
                        raise SessionError(f"{session.name}: cannot run: {type(error).__name__}") from error
                whole, share = {**self.inputs.lengths, **lengths}, min(session.cores / device.cores, 1.0)
                if role in self.gradient_methods:
                    self.reach.tried(role, whole, seconds, share)
            queue, cost = _cost_of_run(self, role, whole)
            queue.tried(cost, seconds * share)  # what of longer inputs takes least
        for lane in self.lanes:
            lane.failures = 0
        self.state = "ready"

    def _lengths_to_try(self, role: Role) -> list[dict[str, int]]:
        """Return lengths of the axes that vary, rising: every bucket; on a CPU, which treats all alike, least and most.

        Lengths at which attention is too large for a batch are left out; of what explains a written token, the longest
        of the others is then tried, so that it is known how long it takes.
        """
        most = self.longest()
        top = bucket_of(max(most.values(), default=1))
        least = self.inputs.shortest
        every = [
            {axis: max(min(1 << power, limit), least.get(axis, 1)) for axis, limit in most.items()}
            for power in range(top.bit_length())
        ]
        fits = self.settings.batch_map_bytes
        tried = [
            lengths
            for lengths in every
            if max(lengths.values(), default=1) == 1 or self.footprint.maps({**self.inputs.lengths, **lengths}) <= fits
        ]
        if self.device != "cpu":
            return tried
        explains = self.manifest.generation and role in self.gradient_methods
        ends = (every[0], every[-1], *(tried[-1:] if explains else ()))
        return [lengths for lengths in tried if lengths in ends]

    def longest(self) -> dict[str, int]:
        """Return the most tokens along each axis that varies."""
        return dict(self.inputs.longest)

    def complete_input(self, item: ModelInput) -> ModelInput:
        """Return the tokens of a text with what else the task takes. Raises Unacceptable for what it cannot take."""
        return item

    def query(self, options: AttentionOptions) -> AttentionQuery:
        """Return the attention that options ask for. Raises Unacceptable for what the model cannot serve."""
        return resolve(options, self.manifest, self.token_of)

    def token_of(self, text: str) -> int | None:
        """Return the token of its answers that a text is, or None."""
        return None

    def check_run(self, query: AttentionQuery | None, lengths: Sequence[Mapping[str, int]]) -> None:
        """Raise TooLarge for attention of inputs with these axis lengths if a run for one would take too much memory.

        Without a query it is one step inside. Inputs are never split, and a request that waits alone is admitted
        whatever it costs.
        """
        by_gradient = query is not None and (
            query.by_gradient or (is_comparison(query) and bool(self.gradient_methods))
        )
        limit, size = self.settings.run_bytes, max(self.footprint.run(one, by_gradient=by_gradient) for one in lengths)
        if size > limit:
            raise TooLarge(
                f"attention: at most {limit} bytes of memory for one input, this one may take {size}; "
                "ask for a shorter input" + (", or for rollout" if by_gradient else "")
            )

    async def attend(self, item: ModelInput, query: AttentionQuery, caller: Caller) -> AttentionResult:
        """Return the prediction of one input, and the maps and figures that a query asks for.

        Raises Unacceptable for rows that it does not have.
        """
        controls = controls_of(query, item.lengths)
        size = self.footprint.maps(item.lengths)
        longest = max(item.lengths.values())
        # padding would be counted among the smallest weights of an input, so that input shares a run with no other
        own_run = id(item) if query.options.discard and self.inputs.padded else None
        prediction, stacks = await self.attention_lane.submit(
            AttentionJob(item, controls), size, (bucket_of(longest), controls, own_run), caller
        )
        maps = read_maps(query, controls, item.lengths, stacks) if query.rules.of_weights else []
        states = {kind.kind.name: stacks[f"{kind.kind.name}.states"] for kind in controls.kinds if kind.after}
        visible, diagnosed = item.arrays.get(IMAGE_VISIBLE), query.options.diagnostics
        figures = read_diagnostics(query, stacks, visible) if diagnosed else None
        return AttentionResult(prediction, maps, figures, states)

    async def explain_scores(self, role: Role, jobs: Sequence[GradientJob], caller: Caller) -> list[Found]:
        """Return what the graph of a gradient method, or of what is inside, finds for each job."""
        lane = self.gradient_lanes[role]
        return await together(
            lane.submit(job, self.footprint.gradient(job.item.lengths), job.bucket, caller) for job in jobs
        )

    def _run_attention(self, jobs: Sequence[AttentionJob]) -> list[RawMaps | Refusal]:
        items, controls = [job.item for job in jobs], jobs[0].controls
        special = {name: padded([item.special[name] for item in items]) for name in items[0].special}
        longest = {name: max(item.lengths[name] for item in items) for name in items[0].lengths}
        out = self.batches.run("attention", items, controls.feed(longest, special))
        return [
            _finite((self.prediction_of(out, row, item), read_stacks(item, row, controls, out)))
            for row, item in enumerate(items)
        ]

    def prediction_of(self, out: Mapping[str, Sequence[Array]], row: int, item: ModelInput) -> Prediction:
        """Return the prediction of one input from the outputs of a graph, without the padding of its batch."""
        answer = self.manifest.answers[0]
        return crop(out[answer.name][row], answer, item.lengths)

    def run_gradient(self, role: Role, jobs: Sequence[GradientJob]) -> list[Found | Refusal]:
        """Run the graph of a gradient method, or of what is inside, on a batch."""
        graph, begun = self.manifest.graphs[role], time.monotonic()
        out = self.batches.run(role, [job.item for job in jobs], stacked(jobs, graph))
        if len(jobs) == 1 and not jobs[0].at_end:
            self.reach.tried(role, jobs[0].item.lengths, time.monotonic() - begun)
        return [one if is_finite(one.values()) else Broken(NOT_FINITE) for one in split(jobs, graph, out)]


def _finite(maps: RawMaps) -> RawMaps | Refusal:
    """Return the same, or a refusal if some number is not finite."""
    prediction, stacks = maps
    return maps if is_finite((prediction, *stacks.values())) else Broken(NOT_FINITE)


def is_finite(arrays: Iterable[Array]) -> bool:
    """Return whether all numbers are finite."""
    return all(np.isfinite(array).all() for array in arrays)


def _cost_of_run(served: ServedModel, role: Role, lengths: Mapping[str, int]) -> tuple[Budget, int]:
    """Return the queue that runs of a graph are charged to, and what one costs there; 0 where that is not known."""
    if role == "attention":
        return served.attention_budget, served.footprint.maps(lengths)
    if role in served.explaining:
        return served.attention_budget, served.footprint.gradient(lengths)
    return served.prediction_budget, cost_of(lengths) if role == "predict" else 0
