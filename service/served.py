"""A loaded artifact at work: its sessions, its lanes, and what its task answers."""

import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import structlog

from contract.artifact import MANIFEST, Artifact, ArtifactError, find_artifacts, read_artifact
from contract.manifest import Manifest, Role
from service.attention import Ask
from service.batch import Budget, Device, Lane, bucket_of
from service.errors import Refusal, Unacceptable
from service.generate import Decoding
from service.images import Picture
from service.metrics import Metrics
from service.options import GenerateOptions
from service.run import Array, ProviderError, Session, choose_device
from service.search import Beams, Hypothesis, Sampler, Search, Walk, greedy
from service.settings import Settings
from service.texts import Texts, Token

ReadMaps: TypeAlias = list[dict[str, object]]
Logits: TypeAlias = npt.NDArray[np.float32]


log = structlog.get_logger()


@dataclass(frozen=True)
class Look:
    """An item of an attention lane: the arrays of one input, by port, and what is wanted of its maps."""

    inputs: dict[str, Array]
    ask: Ask


class Served:
    """What every task has: an artifact, its sessions, and an attention lane of its own with its own budget."""

    endpoints: ClassVar[tuple[str, ...]]
    roles: ClassVar[tuple[Role, ...]]

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        self.artifact = artifact
        self.settings = settings
        missing = [role for role in self.roles if role not in artifact.manifest.graphs]
        if missing or not artifact.manifest.attention:
            what = f"graphs for {', '.join(missing)}" if missing else "kinds of attention"
            raise ArtifactError(artifact.path(MANIFEST), f"this task needs {what}, given none")
        for kind in artifact.manifest.attention:
            wanted = (len(kind.maps), kind.heads)
            if not any(
                port.name == kind.kind and port.axes[1:3] == wanted
                for port in artifact.manifest.graphs["attention"].outputs
            ):
                raise ArtifactError(
                    artifact.path(MANIFEST), f"the attention graph must return {kind.kind} of {wanted} layers and heads"
                )
        self.sessions = {role: Session(artifact, role, device, settings) for role in self.roles}
        self.ready = False
        self.predicting = Budget("queue of predictions", settings.queue_tokens)
        self.looking = Budget("queue of attention", settings.queue_map_bytes)

    @property
    def manifest(self) -> Manifest:
        """What the artifact says of itself."""
        return self.artifact.manifest

    def workers(self, device: Device, metrics: Metrics) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Make the lanes; return the coroutine functions that serve them."""
        self._look: Lane[Look, tuple[Logits, ReadMaps]] = Lane(
            f"{self.manifest.name}/attention",
            device,
            self._look_at,
            self.settings.batch_map_bytes,
            self.looking,
            metrics,
        )
        return [self._look.work]

    async def warm_up(self, device: Device) -> None:
        """Run every session once."""
        for session in self.sessions.values():
            async with device.turn() as run:
                await run(session.warm_up)
        self.ready = True

    def map_bytes(self, lengths: Mapping[str, int]) -> int:
        """Return the bytes of all maps that the attention graph computes for one input."""
        return sum(
            4 * len(kind.maps) * kind.heads * lengths[kind.query] * lengths[kind.key]
            for kind in self.manifest.attention
        )

    async def look(self, look: Look, lengths: Mapping[str, int]) -> tuple[Logits, ReadMaps]:
        """Return the logits of one input and the maps that were asked for."""
        return await self._look.submit(look, self.map_bytes(lengths), bucket_of(max(lengths.values())))

    def _look_at(self, looks: Sequence[Look]) -> list[tuple[Logits, ReadMaps] | Refusal]:
        names = [port.name for port in self.manifest.graphs["attention"].inputs]
        out = self.sessions["attention"].run({name: padded([look.inputs[name] for look in looks]) for name in names})
        return [self._cropped(look, row, out) for row, look in enumerate(looks)]

    def _cropped(self, look: Look, row: int, out: Mapping[str, Array]) -> tuple[Logits, ReadMaps] | Refusal:
        """Read one input's maps off the batch's, without the padding that its neighbours brought."""
        lengths = {name: len(array) for name, array in look.inputs.items()}
        lengths["target_input"] = lengths.get("target", 0)
        stacks = {
            str(kind.kind): out[kind.kind][row, :, :, : lengths.get(kind.query), : lengths.get(kind.key)]
            for kind in self.manifest.attention
        }
        try:
            return out["logits"][row], look.ask.read(stacks)
        except Refusal as refusal:  # a row that only a longer target would have had
            return refusal


class ImageClassifier(Served):
    """Task `image-classification`."""

    endpoints = ("classify", "attention")
    roles = ("predict", "attention")

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        if not artifact.manifest.image:
            raise ArtifactError(artifact.path(MANIFEST), "an image-classification model needs an image rule")

    @property
    def tokens(self) -> int:
        """How many tokens an image becomes."""
        kind = self.manifest.attention[0]
        rows, columns = kind.grid or (0, 0)
        return kind.prefix + rows * columns

    @property
    def lengths(self) -> dict[str, int]:
        """Return the length of an image's axis."""
        return {"image": self.tokens}

    def workers(self, device: Device, metrics: Metrics) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Make the lanes of predictions and of attention."""
        self._predict: Lane[Picture, Logits] = Lane(
            f"{self.manifest.name}/predict",
            device,
            self._predict_all,
            self.settings.batch_tokens,
            self.predicting,
            metrics,
        )
        return [self._predict.work, *super().workers(device, metrics)]

    async def classify(self, picture: Picture) -> Logits:
        """Return the logits of an image."""
        return await self._predict.submit(picture, self.tokens)

    def _predict_all(self, pictures: Sequence[Picture]) -> list[Logits]:
        return list(
            self.sessions["predict"].run({"pixels": np.stack([picture.pixels for picture in pictures])})["logits"]
        )


class TextGenerator(Served):
    """Task `text2text-generation`."""

    endpoints = ("generate", "attention")
    roles = ("encode", "decode", "attention")

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        if not self.manifest.text or not self.manifest.generation:
            raise ArtifactError(artifact.path(MANIFEST), "a text2text-generation model needs text and generation")
        self.generation = self.manifest.generation
        self.texts = Texts(artifact, self.manifest.text)

    def workers(self, device: Device, metrics: Metrics) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Make the decode loop and the attention lane."""
        self._decoding = Decoding(
            self.sessions["encode"],
            self.sessions["decode"],
            self.generation,
            device,
            self.settings.batch_rows,
            self.predicting,
            metrics,
        )
        return [self._decoding.work, *super().workers(device, metrics)]

    def limit(self, options: GenerateOptions) -> int:
        """Return how many tokens may be generated. Raises Unacceptable for more than the model's limit."""
        most = self.generation.max_new_tokens
        if options.max_new_tokens is not None and options.max_new_tokens > most:
            raise Unacceptable(f"max_new_tokens: at most {most}, given {options.max_new_tokens}")
        return options.max_new_tokens or most

    def search(self, options: GenerateOptions) -> Search:
        """Return a fresh search. Raises Unacceptable for options that exclude each other."""
        limit, end = self.limit(options), self.generation.end
        beams = options.num_beams or self.generation.num_beams
        if beams > self.settings.max_beams:
            raise Unacceptable(f"num_beams: at most {self.settings.max_beams}, given {beams}")
        if options.samples:
            if beams > 1:
                raise Unacceptable("num_beams: must be 1 when temperature, top_k or top_p are given")
            temperature = 1.0 if options.temperature is None else options.temperature
            return Walk(end, limit, Sampler(temperature, options.top_k, options.top_p or 1.0, options.seed))
        if beams > 1:
            if options.stream:
                raise Unacceptable("stream: needs num_beams 1, since a beam search knows its first token last")
            return Beams(beams, end, limit, self.penalty(options))
        return Walk(end, limit, greedy)

    def penalty(self, options: GenerateOptions) -> float:
        """Return the power of the length by which scores are divided."""
        return self.generation.length_penalty if options.length_penalty is None else options.length_penalty

    @contextlib.contextmanager
    def permit(self, sources: Sequence[Sequence[Token]], options: GenerateOptions, *, looking: bool) -> Iterator[None]:
        """Hold what the sources may cost at most: tokens to generate, and maps to compute if they are looked at.

        Raises Busy before any work is spent if either queue is full.
        """
        limit = self.limit(options)
        rows = options.num_beams or self.generation.num_beams
        tokens = sum(len(source) + limit * rows for source in sources)
        maps = sum(self.map_bytes(self.lengths(len(source), limit)) for source in sources)
        with self.predicting.permit(tokens), self.looking.permit(maps) if looking else contextlib.nullcontext():
            yield

    async def generate(
        self, source: Sequence[Token], options: GenerateOptions, grew: Callable[[Hypothesis], None] = lambda _: None
    ) -> Hypothesis:
        """Return the target of a source."""
        indices = [token.index for token in source]
        return await self._decoding.generate(indices, self.search(options), self.limit(options), grew)

    async def look_at_text(self, source: Sequence[Token], target: Sequence[int], ask: Ask) -> ReadMaps:
        """Return maps of a finished target from one teacher-forced pass; row i emits token i, having been fed i - 1."""
        inputs: dict[str, Array] = {
            "source": np.array([token.index for token in source]),
            "source_visible": np.ones(len(source), np.bool_),
            "target": np.array([self.generation.start, *target[:-1]]),
        }
        return (await self.look(Look(inputs, ask), self.lengths(len(source), len(target))))[1]

    @staticmethod
    def lengths(source: int, target: int) -> dict[str, int]:
        """Return the lengths of the axes."""
        return {"source": source, "target": target, "target_input": target}


TASKS: dict[str, type[Served]] = {"image-classification": ImageClassifier, "text2text-generation": TextGenerator}


def load(settings: Settings) -> dict[str, Served]:
    """Check and load the newest version of every artifact, by name.

    Raises ArtifactError, ProviderError or SessionError for the first that cannot be served.
    """
    device = choose_device(settings.device)
    artifacts = [read_artifact(folder) for folder in find_artifacts(settings.artifacts)]
    for artifact in artifacts:
        if artifact.manifest.task not in TASKS:
            reason = f"task {artifact.manifest.task} is not served, only {', '.join(TASKS)}"
            raise ArtifactError(artifact.path(MANIFEST), reason)

    def serve(device: str) -> dict[str, Served]:
        return {one.manifest.name: TASKS[one.manifest.task](one, device, settings) for one in artifacts}

    try:
        return serve(device)
    except ProviderError as error:
        if settings.device != "auto":
            raise
        log.warning("no GPU after all, serving on the CPU", reason=str(error))
        return serve("cpu")


def padded(rows: Sequence[Array]) -> Array:
    """Stack arrays that differ in the length of their first axis, zeros (or False) after the shorter ones."""
    longest = max(len(row) for row in rows)
    stack = np.zeros((len(rows), longest, *rows[0].shape[1:]), rows[0].dtype)
    for index, row in enumerate(rows):
        stack[index, : len(row)] = row
    return stack
