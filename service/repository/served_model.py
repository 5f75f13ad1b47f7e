"""A loaded artifact at work: its sessions, its lanes, and what its task answers."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import structlog

from contract.artifact import MANIFEST, Artifact, ArtifactError
from contract.manifest import Manifest, Role
from service.arrays import Array, crop, padded
from service.batching.admission import Budget
from service.batching.batcher import Lane, bucket_of, together
from service.errors import NOT_FINITE, Broken, Refusal
from service.explanations.query import AttentionQuery, GraphControls, Map, Target, patches
from service.generation.decode_loop import DecodeLoop
from service.inputs.model_input import ModelInput, Picture
from service.runtime.device import Device
from service.runtime.session import open_sessions
from service.settings import Settings
from service.telemetry.metrics import Metrics

Prediction: TypeAlias = npt.NDArray[np.float32]
"""What a head says of one input: logits (classes), an embedding (width), or logits (masks, vocabulary)."""
RawMaps: TypeAlias = tuple[Prediction, dict[str, Array]]
"""The prediction of one input, and what was computed of its attention."""

MOST_FAILURES = 3
"""Of runs in a row, before a model is warmed up again to see whether it can run at all."""

log = structlog.get_logger()


@dataclass(frozen=True)
class AttentionJob:
    """An item of an attention lane, and what its graph is asked for."""

    item: ModelInput
    reading: GraphControls


@dataclass(frozen=True)
class RelevanceJob:
    """An item of a relevance lane, what is explained, and through which layers."""

    item: ModelInput
    explained: Target
    layers: tuple[int, ...]


@dataclass(frozen=True)
class AttentionResult:
    """What was seen of one input."""

    prediction: Prediction
    maps: list[Map]
    diagnostics: list[dict[str, object]] | None = None


class ServedModel:
    """What every task has: an artifact, its sessions, and an attention lane of its own with its own budget."""

    endpoints: tuple[str, ...]
    roles: ClassVar[tuple[Role, ...]]

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        self.artifact = artifact
        self.settings = settings
        missing = [role for role in self.roles if role not in artifact.manifest.graphs]
        if missing or not artifact.manifest.attention:
            what = f"graphs for {', '.join(missing)}" if missing else "kinds of attention"
            raise ArtifactError(artifact.path(MANIFEST), f"this task needs {what}, given none")
        returned = {port.name for port in artifact.manifest.graphs["attention"].outputs}
        for kind in artifact.manifest.attention:
            if not {kind.kind, f"{kind.kind}.diagnostics"} <= returned:
                raise ArtifactError(artifact.path(MANIFEST), f"the attention graph must return maps of {kind.kind}")
            if "relevance" in kind.methods and "relevance" not in artifact.manifest.graphs:
                raise ArtifactError(artifact.path(MANIFEST), f"relevance of {kind.kind} needs a graph, given none")
        explains: tuple[Role, ...] = ("relevance",) if "relevance" in artifact.manifest.graphs else ()
        self.sessions = open_sessions(artifact, (*self.roles, *explains), device, settings)
        self.ready = False
        self.unused = asyncio.Event()
        """Set while no request is being answered."""
        self.unused.set()
        self._users = 0
        self._lanes: list[Lane[Any, Any] | DecodeLoop] = []
        self._device = device
        self.predicting = Budget("queue of predictions", settings.queue_tokens)
        self.looking = Budget("queue of attention", settings.queue_map_bytes)

    @property
    def manifest(self) -> Manifest:
        """What the artifact says of itself."""
        return self.artifact.manifest

    @property
    def provider(self) -> str:
        """Which execution provider runs it."""
        return next(iter(self.sessions.values())).provider

    @property
    def budgets(self) -> dict[str, Budget]:
        """The bounds of its queues by name."""
        name = self.manifest.name
        return {f"{name}/predictions": self.predicting, f"{name}/attention": self.looking}

    @property
    def failing(self) -> bool:
        """Have the last few runs of any lane all failed."""
        return any(lane.failures >= MOST_FAILURES for lane in self._lanes)

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

    def loops(self, device: Device, metrics: Metrics) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Make the lanes; return the coroutine functions that serve them."""
        limit, name = self.settings.batch_map_bytes, self.manifest.name
        stop = self.sessions["attention"].stop
        self._look: Lane[AttentionJob, RawMaps] = Lane(
            f"{name}/attention", device, self._look_at, limit, self.looking, metrics, stop
        )
        self._lanes = [self._look]
        if "relevance" in self.sessions:
            stop = self.sessions["relevance"].stop
            self._explain: Lane[RelevanceJob, RawMaps] = Lane(
                f"{name}/relevance", device, self._explain_all, limit, self.looking, metrics, stop
            )
            self._lanes.append(self._explain)
        return [lane.work for lane in self._lanes]

    async def warm_up(self, device: Device) -> None:
        """Run every session on every shape that is like no other. Raises SessionError for one that cannot run."""
        for session in self.sessions.values():
            for lengths in self._shapes():
                async with device.turn() as run:
                    await run(session.warm_up, lengths)
        for lane in self._lanes:
            lane.failures = 0
        self.ready = True

    def _shapes(self) -> list[dict[str, int]]:
        """Return lengths of the axes that vary: the buckets, or on a CPU, which treats all alike, the least and most.

        Attention that is too large to be batched is left out.
        """
        most = self.longest()
        top = bucket_of(max(most.values(), default=1))
        buckets = [1 << power for power in range(top.bit_length())] if self._device != "cpu" else [1, top]
        shapes = [{axis: min(bucket, limit) for axis, limit in most.items()} for bucket in buckets]
        return [one for one in shapes if max(one.values(), default=1) == 1 or self._fits(one)]

    def _fits(self, lengths: Mapping[str, int]) -> bool:
        axes = {kind.query: 1 for kind in self.manifest.attention} | {kind.key: 1 for kind in self.manifest.attention}
        fixed = self.image_lengths if self.manifest.image else {}
        return self.map_bytes({**axes, **fixed, **lengths}) <= self.settings.batch_map_bytes

    def longest(self) -> dict[str, int]:
        """Return the most tokens along each axis of an input that varies."""
        return {}

    @property
    def image_lengths(self) -> dict[str, int]:
        """Return the length of an image's axis, which is the same for all."""
        kind = patches(self.manifest.attention)
        rows, columns = kind.grid or (0, 0)
        return {"image": kind.prefix + rows * columns}

    def image_item(self, pixels: Array, picture: Picture) -> ModelInput:
        """Return pixels as an input."""
        special = np.arange(self.image_lengths["image"]) < patches(self.manifest.attention).prefix
        return ModelInput({"pixels": pixels}, self.image_lengths, picture, {"image": special})

    def map_bytes(self, lengths: Mapping[str, int]) -> int:
        """Return the bytes of all maps that the attention graph computes for one input."""
        return sum(
            4 * len(kind.maps) * kind.heads * lengths[kind.query] * lengths[kind.key]
            for kind in self.manifest.attention
        )

    async def look(self, item: ModelInput, ask: AttentionQuery) -> AttentionResult:
        """Return the prediction of one input, and what was read off its attention.

        Raises Unacceptable for rows that it does not have.
        """
        reading = ask.reading(item.lengths)
        size, longest = self.map_bytes(item.lengths), max(item.lengths.values())
        # of a text, the smallest weights are counted without padding: it runs alone
        alone = object() if ask.options.discard and self.manifest.text else None
        prediction, stacks = await self._look.submit(
            AttentionJob(item, reading), size, (bucket_of(longest), reading, alone)
        )
        maps = [] if ask.method == "relevance" else ask.read(reading, item.lengths, stacks)
        return AttentionResult(prediction, maps, ask.diagnostics(stacks) if ask.options.diagnostics else None)

    async def explain(
        self, item: ModelInput, ask: AttentionQuery, explained: Sequence[Target]
    ) -> tuple[Prediction, dict[str, list[Array]]]:
        """Return the prediction of one input, and for each kind the relevance (rows, keys) of every target."""
        layers = ask.wanted[0].layers
        size, longest = self.map_bytes(item.lengths), max(item.lengths.values())
        found = await together(
            self._explain.submit(RelevanceJob(item, one, layers), size, (bucket_of(longest), len(one.rows), layers))
            for one in explained
        )
        kinds = [one.kind.kind for one in ask.wanted]
        return found[0][0], {kind: [maps[kind] for _, maps in found] for kind in kinds}

    def _look_at(self, looks: Sequence[AttentionJob]) -> list[RawMaps | Refusal]:
        items, reading = [look.item for look in looks], looks[0].reading
        special = {name: padded([item.special[name] for item in items]) for name in items[0].special}
        longest = {name: max(item.lengths[name] for item in items) for name in items[0].lengths}
        out = self._run("attention", items, reading.feed(longest, special))
        return [checked(self._read(item, row, reading, out)) for row, item in enumerate(items)]

    def _read(self, item: ModelInput, row: int, reading: GraphControls, out: Mapping[str, Array]) -> RawMaps:
        """Return one input's prediction, and its maps without the padding that its neighbours brought."""
        answer = self.manifest.graphs["attention"].outputs[0]
        stacks = {}
        for part in reading.parts:
            name, queries, keys = part.kind.kind, item.lengths[part.kind.query], item.lengths[part.kind.fed]
            rows = queries if part.rows is None else None
            stacks[str(name)] = out[name][row, :, :, :rows, :keys]
            if reading.diagnose:
                stacks[f"{name}.diagnostics"] = out[f"{name}.diagnostics"][row, :, :, :queries]
        return crop(out[answer.name][row], answer, item.lengths), stacks

    def _explain_all(self, asked: Sequence[RelevanceJob]) -> list[RawMaps | Refusal]:
        items = [one.item for one in asked]
        controls: dict[str, Array] = {
            "explained": np.array([one.explained.token for one in asked]),
            "position": np.array([one.explained.position for one in asked]),
            "rows": np.array([one.explained.rows for one in asked]),
            **{f"{kind.kind}.layers": np.array(asked[0].layers) for kind in self.manifest.attention},
        }
        out = self._run("relevance", items, controls)
        answer, *maps = self.manifest.graphs["relevance"].outputs
        return [
            checked(
                (
                    crop(out[answer.name][row], answer, item.lengths),
                    {port.name: crop(out[port.name][row], port, item.lengths) for port in maps},
                )
            )
            for row, item in enumerate(items)
        ]

    def _run(
        self, role: Role, items: Sequence[ModelInput], controls: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Run a graph on inputs padded to one length, and the controls of it that there are."""
        controls = controls or {}
        names = [port.name for port in self.manifest.graphs[role].inputs]
        return self.sessions[role].run(
            {
                name: controls[name] if name in controls else padded([item.inputs[name] for item in items])
                for name in names
            }
        )


def checked(seen: RawMaps) -> RawMaps | Refusal:
    """Return the same, or the refusal of what is not finite."""
    prediction, maps = seen
    finite = all(np.isfinite(array).all() for array in (prediction, *maps.values()))
    return seen if finite else Broken(NOT_FINITE)
