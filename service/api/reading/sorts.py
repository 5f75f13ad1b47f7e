"""How each sort of input is read, whatever the protocol: from bodies, strings of JSON, and bytes of tensors."""

import base64
from collections.abc import Sequence
from typing import TypeAlias

from starlette.requests import Request

from contract.manifest import Task
from service.api.reading.request_parsing import (
    JSON,
    RAW,
    check_count,
    parse_questions,
    parse_texts,
    read_image,
    read_images,
    read_questions,
    read_texts,
)
from service.errors import Malformed, Unacceptable, Unsupported
from service.inputs.encoded_images import check_image, decode_images
from service.inputs.model_input import Text
from service.repository.models.served_model import ServedModel
from service.settings import Settings


class Images:
    """Encoded images; in JSON as base64."""

    name = "image"
    """Of the tensor that must be given."""
    read = staticmethod(read_images)

    def most_bytes(self, settings: Settings) -> int:
        """Return the limit of bodies."""
        return settings.max_body_bytes

    def most(self, settings: Settings) -> int:
        """Return how many a request may have."""
        return settings.max_images

    async def read_raw(self, request: Request, kind: str, settings: Settings) -> bytes | None:
        """Return the image that a body is. One without a type is taken for one, since InferenceClient sends none."""
        if kind == JSON:
            return None
        if "content-type" in request.headers and kind != RAW and not kind.startswith("image/"):
            raise Unsupported(
                f"Content-Type: must be image/*, {RAW} or {JSON}; with curl: -H 'Content-Type: image/png'"
            )
        if request.query_params:
            raise Unacceptable("query: parameters of an image belong in a JSON document beside it, given in the query")
        return await read_image(request, settings)

    async def read_inputs(self, inputs: object, settings: Settings, task: str) -> Sequence[bytes | Text]:
        """Return images from base64."""
        images = inputs if isinstance(inputs, list) else [inputs]
        if not all(isinstance(image, str) for image in images):
            raise Unacceptable(f"inputs: must be an image in base64, or a list of them; the task is {task}")
        check_count("inputs", len(images), settings.max_images)
        return await decode_images("inputs: each", list(map(str, images)), settings)

    async def of_strings(
        self, name: str, content: str | None, texts: list[str], settings: Settings
    ) -> Sequence[bytes | Text]:
        """Return images from base64, whatever `content` says."""
        return await decode_images(f"{name}: each", texts, settings)

    def of_bytes(self, name: str, elements: list[bytes], settings: Settings) -> Sequence[bytes | Text]:
        """Return the images as they came."""
        for element in elements:
            check_image(len(element), settings)
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


def _of_base64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Malformed(f"{name}: must be base64, as its content_type says") from error


Sort: TypeAlias = Images | Texts
SORTS: dict[str, Sort] = {"image": Images(), "text": Texts()}
"""By the modality of an input's rule."""
SORTS_OF_TASKS: dict[Task, Sort] = {"question-answering": Questions()}
"""Of tasks whose inputs have a form of their own."""


def sort_of(served: ServedModel) -> Sort:
    """Return the sort of a model's inputs."""
    return SORTS_OF_TASKS.get(served.manifest.task) or SORTS[served.inputs.modality]
