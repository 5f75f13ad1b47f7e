"""How each sort of input is read, whatever the protocol: from bodies, strings of JSON, and bytes of tensors."""

import base64
import functools
from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from starlette.requests import Request

from contract.manifest import Task
from service.answering.call import narrowed
from service.api.reading.messages import read_prompts
from service.api.reading.request_parsing import (
    JSON,
    RAW,
    ParsedRequest,
    check_count,
    content_type,
    parse_graphs,
    parse_questions,
    parse_texts,
    read_either,
    read_file,
    read_files,
    read_graphs,
    read_json,
    read_questions,
    read_texts,
)
from service.errors import Malformed, Unacceptable, Unsupported
from service.inputs.encoded_files import IMAGE, SOUND, FileSort, decode_files
from service.inputs.model_input import Text
from service.repository.models.served_model import ServedModel
from service.settings import Settings

S = TypeVar("S", bound=ServedModel)


class Files:
    """Encoded images or sounds; in JSON as base64."""

    def __init__(self, sort: FileSort) -> None:
        self._sort = sort
        self.name = sort.name
        """Of the tensor that must be given."""
        self.read = functools.partial(read_files, sort)

    def most_bytes(self, settings: Settings) -> int:
        """Return the limit of bodies."""
        return settings.max_body_bytes

    def most(self, settings: Settings) -> int:
        """Return how many a request may have."""
        most: int = getattr(settings, self._sort.most)
        return most

    async def read_raw(self, request: Request, kind: str, settings: Settings) -> bytes | None:
        """Return the file that a body is. One without a type is taken for one, since InferenceClient sends none."""
        if kind == JSON:
            return None
        media, one = self._sort.media, self._sort.one
        if "content-type" in request.headers and kind != RAW and not kind.startswith(media):
            raise Unsupported(
                f"Content-Type: must be {media}*, {RAW} or {JSON}; with curl: -H 'Content-Type: {self._sort.example}'"
            )
        if request.query_params:
            raise Unacceptable(f"query: parameters of {one} belong in a JSON document beside it, given in the query")
        return await read_file(self._sort, request, settings)

    async def read_inputs(self, inputs: object, settings: Settings, task: str) -> Sequence[bytes | Text]:
        """Return files from base64."""
        files = inputs if isinstance(inputs, list) else [inputs]
        if not all(isinstance(file, str) for file in files):
            raise Unacceptable(f"inputs: must be {self._sort.one} in base64, or a list of them; the task is {task}")
        check_count("inputs", len(files), self.most(settings))
        return await decode_files(self._sort, "inputs: each", list(map(str, files)), settings)

    async def of_strings(
        self, name: str, content: str | None, texts: list[str], settings: Settings
    ) -> Sequence[bytes | Text]:
        """Return files from base64, whatever `content` says."""
        return await decode_files(self._sort, f"{name}: each", texts, settings)

    def of_bytes(self, name: str, elements: list[bytes], settings: Settings) -> Sequence[bytes | Text]:
        """Return the files as they came."""
        for element in elements:
            self._sort.check(len(element), settings)
        return elements


class Texts:
    """Texts, and pairs of texts."""

    name = "text"
    read = staticmethod(read_texts)

    def most_bytes(self, settings: Settings) -> int:
        """Return the limit of texts."""
        return settings.max_text_bytes

    def most(self, settings: Settings) -> int:
        """Return how many a request may have."""
        return settings.max_inputs

    async def read_raw(self, request: Request, kind: str, settings: Settings) -> bytes | None:
        """Return None: texts come in documents."""
        return None

    async def read_inputs(self, inputs: object, settings: Settings, task: str) -> Sequence[bytes | Text]:
        """Return texts or pairs."""
        return parse_texts(inputs, settings)

    async def of_strings(
        self, name: str, content: str | None, texts: list[str], settings: Settings
    ) -> Sequence[bytes | Text]:
        """Return the strings, or what they hold in base64."""
        if content != "base64":
            return texts
        return self.of_bytes(name, [_of_base64(name, text) for text in texts], settings)

    def of_bytes(self, name: str, elements: list[bytes], settings: Settings) -> Sequence[bytes | Text]:
        """Return texts from UTF-8."""
        try:
            return [str(element, "utf-8") for element in elements]
        except UnicodeDecodeError as error:
            raise Malformed(f"{name}: must be UTF-8") from error


class Questions(Texts):
    """Questions, each with the text that may answer it."""

    read = staticmethod(read_questions)

    async def read_inputs(self, inputs: object, settings: Settings, task: str) -> Sequence[bytes | Text]:
        """Return questions with their contexts."""
        return parse_questions(inputs, settings)


class Prompts(Texts):
    """Texts that are continued or turned into others, or the messages of a chat."""

    read = staticmethod(read_prompts)


class Graphs(Texts):
    """Graphs, which are objects in JSON; in strings they are JSON."""

    name = "graph"
    read = staticmethod(read_graphs)

    async def read_inputs(self, inputs: object, settings: Settings, task: str) -> Sequence[bytes | Text]:
        """Return one graph, or a list of them."""
        return parse_graphs("inputs", inputs if isinstance(inputs, list) else [inputs], settings)


def _of_base64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Malformed(f"{name}: must be base64, as its content_type says") from error


Sort: TypeAlias = Files | Texts
SORTS: dict[str, Sort] = {"image": Files(IMAGE), "text": Texts(), "sound": Files(SOUND), "graph": Graphs()}
"""By the modality of an input's rule."""
SORTS_OF_TASKS: dict[Task, Sort] = {
    "question-answering": Questions(),
    "text-generation": Prompts(),
    "text2text-generation": Prompts(),
}
"""Of tasks whose inputs have a form of their own."""


def sort_of(served: ServedModel) -> Sort:
    """Return the sort of a model's inputs."""
    return SORTS_OF_TASKS.get(served.manifest.task) or SORTS[served.inputs.modality]


async def read_own(request: Request, settings: Settings, served: S) -> tuple[S, ParsedRequest]:
    """Read a request of our own protocol; return the model that takes its inputs, and these.

    Of two that are compared, whichever is asked takes both: pictures go to the one, and texts to the other.
    """
    if served.partner is None:
        return served, await sort_of(served).read(request, settings)
    kind, parameters = content_type(request)
    if kind != JSON:
        parsed = await read_files(IMAGE, request, settings)
    else:
        parsed = await read_either(
            IMAGE, await read_json(request, parameters, settings.max_body_bytes, settings), settings
        )
    return narrowed(served.taking(parsed.inputs), type(served)), parsed
