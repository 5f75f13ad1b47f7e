"""Images, texts, sounds and graphs: how a request's inputs are measured and decoded, and which options go with them."""

import functools
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from contract.input_rules import SoundRule, TextRule
from service.batching.fair_queue import Caller
from service.errors import TooLarge, Unacceptable, about_input
from service.inputs.chat_inputs import form_of
from service.inputs.graph_inputs import GraphInputs
from service.inputs.image_inputs import ImageInputs
from service.inputs.model_input import (
    Conversation,
    LanguageTokens,
    ModelInput,
    Pair,
    Pixels,
    Prompted,
    Text,
    Windows,
)
from service.inputs.sandbox.decoder_pool import FileRequest
from service.inputs.sound_inputs import SoundInputs
from service.inputs.text_inputs import MODEL_LANGUAGES, TextInputs
from service.options.base import RequestOptions
from service.options.predictions import (
    ClassifyOptions,
    CutOptions,
    DetectOptions,
    StoredTextOptions,
    TextOptions,
    ZeroShotOptions,
)
from service.repository.models.generator import Generator
from service.repository.models.served_model import ServedModel
from service.settings import Settings
from service.state import State
from service.store.stored_request import StoredRequest


@dataclass(frozen=True)
class PendingInput:
    """An input whose lengths are known, and which is decoded once its request was admitted."""

    given: bytes | Text
    lengths: Mapping[str, int]
    decode: Callable[[], Awaitable[ModelInput]]
    files: FileRequest | None = None
    """The images or sounds of its request, if it is one of them."""
    number: int = 0
    """Which input of its request it is, or a window of."""

    @property
    def text(self) -> Text:
        """What the spans of its tokens lie in; empty for an image or a sound."""
        return "" if isinstance(self.given, bytes) else self.given


class Files:
    """Images or sounds: their lengths are the same for all, and each is decoded in a confined process."""

    classify_options = ClassifyOptions
    accepted: tuple[type, ...] = (bytes,)
    options: type[RequestOptions] = RequestOptions

    def __init__(self, served: ServedModel, inputs: ImageInputs | SoundInputs) -> None:
        self._model, self._inputs = served.manifest.name, inputs

    def likely_lengths(self, given: Sequence[bytes | Text], windows: Windows | None = None) -> list[Mapping[str, int]]:
        """Return the lengths, which are the same for every file, or the most that there can be."""
        return [{**self._inputs.lengths, **self._inputs.longest}] * len(given)

    async def prepare(
        self,
        state: State,
        given: Sequence[bytes | Text],
        truncate: Sequence[bool] = (),
        languages: LanguageTokens = MODEL_LANGUAGES,
        count: int | None = None,
        windows: Windows | None = None,
        copies: int = 1,
    ) -> list[PendingInput]:
        """Return the inputs, none of which is decoded yet. Raises TooLarge by the header of a file.

        The first `count` are the request's own, by default all; the last may be compared with them.
        """
        files, rule = [one for one in given if isinstance(one, bytes)], self._inputs.rule
        request = state.decoders.request(files, count, rule if isinstance(rule, SoundRule) else None)
        lengths = map(self._inputs.lengths_of, request.announced)
        return [
            PendingInput(one, own, functools.partial(self._decode, state, request, number), request, number)
            for number, (one, own) in enumerate(zip(files, lengths, strict=True))
        ]

    async def _decode(self, state: State, files: FileRequest, number: int) -> ModelInput:
        with about_input(number, files.own):
            return self._inputs.input_of(await state.decode_file(self._model, files, number, self._inputs.rule))

    def stored_options(self, stored: StoredRequest, options: RequestOptions) -> RequestOptions:
        """Return the options with `dimensions` as the stored request had them."""
        return cut_as_stored(stored, options)


def cut_as_stored(stored: StoredRequest, options: RequestOptions) -> RequestOptions:
    """Return options with `dimensions` as a stored request had them."""
    if stored.dimensions is None:
        return options
    return CutOptions(priority=options.priority, dimensions=stored.dimensions)


class Images(Files):
    """Images."""

    def __init__(self, served: ServedModel, inputs: ImageInputs) -> None:
        super().__init__(served, inputs)
        if served.manifest.detection:
            self.options = DetectOptions

    def upright(self, state: State, given: bytes | Text, caller: Caller) -> AbstractAsyncContextManager[Pixels | None]:
        """Decode the whole image."""
        return state.decoders.upright(given, caller) if isinstance(given, bytes) else nullcontext()

    def limits(self, settings: Settings) -> dict[str, object]:
        """Return the limits of images."""
        return {
            "inputs": settings.max_images,
            "image_bytes": settings.max_image_bytes,
            "image_pixels": settings.max_image_pixels,
        }


class Sounds(Files):
    """Sounds."""

    def upright(self, state: State, given: bytes | Text, caller: Caller) -> AbstractAsyncContextManager[Pixels | None]:
        """Return a context that yields None."""
        return nullcontext()

    def limits(self, settings: Settings) -> dict[str, object]:
        """Return the limits of sounds."""
        return {
            "inputs": settings.max_sounds,
            "audio_bytes": settings.max_audio_bytes,
            "audio_seconds": settings.max_audio_seconds,
        }


class Strings:
    """What is sent as strings: lengths are known once these are read, which costs little."""

    def __init__(self, served: ServedModel, inputs: TextInputs | GraphInputs) -> None:
        self._served, self._axis = served, inputs.axis

    def read(self, text: Text, windows: Windows | None, languages: LanguageTokens, *, cut: bool) -> list[ModelInput]:
        """Return what a string becomes: one input, or its windows."""
        raise NotImplementedError

    async def prepare(
        self,
        state: State,
        given: Sequence[bytes | Text],
        truncate: Sequence[bool] = (),
        languages: LanguageTokens = MODEL_LANGUAGES,
        count: int | None = None,
        windows: Windows | None = None,
        copies: int = 1,
    ) -> list[PendingInput]:
        """Read all strings; cut off the end of the texts that `truncate` says, if they are too long.

        A refusal counts those that were sent, each of which became `copies` texts.

        With `windows` they are cut into these instead, each of which is an input with the number of its text.
        """

        total, most = 0, state.settings.max_text_bytes

        def decode(one: tuple[int, bytes | Text, bool]) -> list[PendingInput]:
            nonlocal total
            number, text, cut = one
            if isinstance(text, bytes):
                raise TypeError("input: must be a text, given bytes")
            with about_input(number // copies, (len(given) if count is None else count) // copies):
                check_pair(self._served, text)
                items = self.read(text, windows, languages, cut=cut)
                total += sum(item.lengths[self._axis] for item in items) if windows else 0
                if total > most:
                    raise TooLarge(f"input: at most {most} tokens in all windows; send fewer, or a smaller stride")
                whole = map(self._served.complete_input, items)
                return [
                    PendingInput(text, item.lengths, functools.partial(_given, item), number=number) for item in whole
                ]

        texts = list(zip(range(len(given)), given, truncate or [False] * len(given), strict=True))
        return list(itertools.chain(*await state.decode_texts(self._served.manifest.name, decode, texts)))

    def upright(self, state: State, given: bytes | Text, caller: Caller) -> AbstractAsyncContextManager[Pixels | None]:
        """Return a context that yields None."""
        return nullcontext()

    def limits(self, settings: Settings) -> dict[str, object]:
        """Return how many inputs a request may have; `description` already holds the largest number of tokens."""
        return {"inputs": settings.max_inputs}


class Texts(Strings):
    """Texts, which become tokens."""

    options, classify_options = TextOptions, ZeroShotOptions

    def __init__(self, served: ServedModel, inputs: TextInputs) -> None:
        super().__init__(served, inputs)
        self._inputs = inputs
        two = Pair if served.takes_pairs else Prompted
        chats = (Conversation,) if inputs.rule.chat else ()
        self.accepted: tuple[type, ...] = (str, two, *chats) if served.takes_single else (two,)

    def likely_lengths(self, given: Sequence[bytes | Text], windows: Windows | None = None) -> list[Mapping[str, int]]:
        """Return estimates by the number of characters; of a text in windows, that of all together."""
        prompt, estimate = self._inputs.rule.prompt, self._inputs.tokenizer.estimated_tokens
        return [
            self._inputs.lengths_of(estimate(one, prompt=prompt, any_length=windows is not None))
            for one in given
            if not isinstance(one, bytes)
        ]

    def read(self, text: Text, windows: Windows | None, languages: LanguageTokens, *, cut: bool) -> list[ModelInput]:
        """Return the tokens of a text, or of its windows."""
        if windows:
            return self._inputs.windows_of(text, windows)
        return [self._inputs.text_input(text, truncate=cut, languages=languages)]

    def stored_options(self, stored: StoredRequest, options: RequestOptions) -> RequestOptions:
        """Return the options with what was said of long texts and of vectors when the request was stored."""
        return StoredTextOptions(
            truncate=stored.truncate, overlap=stored.overlap, dimensions=stored.dimensions, priority=options.priority
        )


class Graphs(Strings):
    """Graphs in JSON."""

    classify_options = ClassifyOptions
    accepted: tuple[type, ...] = (str,)
    options: type[RequestOptions] = RequestOptions

    def __init__(self, served: ServedModel, inputs: GraphInputs) -> None:
        super().__init__(served, inputs)
        self._inputs = inputs

    def likely_lengths(self, given: Sequence[bytes | Text], windows: Windows | None = None) -> list[Mapping[str, int]]:
        """Return estimates by the number of characters."""
        return [self._inputs.estimated(str(one)) for one in given]

    def read(self, text: Text, windows: Windows | None, languages: LanguageTokens, *, cut: bool) -> list[ModelInput]:
        """Return the nodes and edges of a graph."""
        return [self._inputs.graph_input(str(text))]

    def stored_options(self, stored: StoredRequest, options: RequestOptions) -> RequestOptions:
        """Return the options with `dimensions` as the stored request had them."""
        return cut_as_stored(stored, options)


def check_pair(served: ServedModel, text: Text) -> None:
    """Raise Unacceptable for a pair of texts, or a single one, where the task takes none; for messages likewise."""
    if isinstance(text, Pair) and not served.takes_pairs:
        raise Unacceptable(f"text_pair: is for text-classification, this model's task is {served.manifest.task}")
    if isinstance(text, Conversation) and isinstance(rule := served.inputs.rule, TextRule):
        form_of(rule, text)  # refuses what it cannot take
    if not isinstance(text, Pair) and not served.takes_single:
        raise Unacceptable("text_pair: must be given, the context of each question")


def permit_decoding(pending: Sequence[PendingInput], caller: Caller) -> AbstractContextManager[None]:
    """Hold what decoding the files of a request costs; nothing for texts. Raises Busy if too many files wait."""
    files = pending[0].files
    return files.permit(caller) if files else nullcontext()


def could_answer(served: ServedModel, stored: StoredRequest) -> bool:
    """Return whether a stored request was answered by a model, as far as can be told.

    Whoever can write to Redis can store any other.
    """
    manifest = served.manifest
    if (stored.model, stored.version) != (manifest.name, manifest.version):
        return False
    accepted = modality_of(served).accepted
    if not stored.inputs or not all(isinstance(given, accepted) for given in stored.inputs):
        return False
    if not isinstance(served, Generator):
        return stored.targets is None
    return (
        stored.targets is not None
        and len(stored.targets) == len(stored.inputs)
        and all(map(served.can_generate, stored.targets))
    )


def ready(pending: PendingInput, item: ModelInput) -> PendingInput:
    """Return an input that is decoded already."""
    return replace(pending, decode=functools.partial(_given, item))


async def _given(item: ModelInput) -> ModelInput:
    return item


Modality: TypeAlias = Images | Texts | Sounds | Graphs
MODALITIES: dict[str, Callable[[ServedModel, Any], Modality]] = {
    "image": Images,
    "text": Texts,
    "sound": Sounds,
    "graph": Graphs,
}
"""By the modality of an input's rule."""


def modality_of(served: ServedModel) -> Modality:
    """Return the modality of a model's inputs."""
    return MODALITIES[served.inputs.modality](served, served.inputs)
