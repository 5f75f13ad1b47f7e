"""An inference request: its JSON, what follows it in binary, and the outputs that it names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from starlette.requests import Request

from service.api.open_inference.tensors import elements_of_shape, split_binary, strings_of
from service.api.reading.json_body import JsonBody
from service.api.reading.request_parsing import ParsedRequest, check_count, check_encoding, read_body
from service.api.reading.sorts import sort_of
from service.errors import Malformed, TooLarge, Unacceptable
from service.inputs.model_input import Pair, Text
from service.options.base import MOST_OPTIONS, RequestOptions
from service.repository.models.served_model import ServedModel
from service.settings import Settings

JSON_LENGTH = "Inference-Header-Content-Length"
"""The header that says how many bytes of JSON are before the binary data."""
MOST_ID_BYTES = 256
MOST_OUTPUTS = 16
MEMBERS = frozenset({"id", "inputs", "model_name", "model_version", "outputs", "parameters"})
"""Of a request. The model's name and version are those of the path."""
INPUT_MEMBERS = frozenset({"data", "datatype", "name", "parameters", "shape"})
PRIORITIES: tuple[str, ...] = get_args(RequestOptions.model_fields["priority"].annotation)
CONTENT_TYPES = ("str", "base64")
"""What MLServer's clients say that the strings of an input hold. Those of images are base64 by either name."""
WITHOUT_EFFECT = frozenset({"headers", "sequence_end", "sequence_id", "sequence_start"})
"""Parameters that Triton reserves, and that mean nothing here."""
RESERVED = WITHOUT_EFFECT | {"binary_data_output", "content_type", "priority", "timeout"}


@dataclass(frozen=True)
class WantedOutput:
    """An output that a request names."""

    name: str
    binary: bool
    classes: int = 0
    """How many of the likeliest classes are answered in place of all (classification extension); 0 for all."""


@dataclass(frozen=True)
class InferRequest:
    """What a request asks for."""

    parsed: ParsedRequest
    wanted: tuple[WantedOutput, ...] = ()
    """The outputs that are named; none for all of the prediction."""
    id: str | None = None
    binary: bool = False
    """True if outputs are answered in binary where nothing else is said of them."""
    seconds: float | None = None
    """A deadline of the client's own."""

    def with_option(self, name: str, value: str) -> "InferRequest":
        """Return the request with an option that it may have given."""
        return replace(self, parsed=replace(self.parsed, given={name: value, **self.parsed.given}))


async def read_infer_request(request: Request, served: ServedModel, settings: Settings) -> InferRequest:
    """Read a request, whatever its Content-Type says: clients name several, or none.

    Raises Malformed, TooLarge, Unsupported and Unacceptable.
    """
    check_encoding(request)
    if request.query_params:
        raise Unacceptable("query: options belong in the parameters of the request")
    reader = _BodyReader(_json_length(request), settings)
    await read_body(request, sort_of(served).most_bytes(settings), reader.add)
    document, binary = reader.finish()
    inputs = _Inputs(served, settings)
    if document is None:
        return InferRequest(ParsedRequest(inputs.of_bytes(inputs.name, [bytes(binary)]), strings=True), binary=True)
    _check_members("body", document, MEMBERS)
    parameters = _parameters("parameters", document.get("parameters"))
    parameters = {name: value for name, value in parameters.items() if value is not None}
    given = {name: _as_string(value) for name, value in parameters.items() if not _is_reserved(name)}
    if len(given) > MOST_OPTIONS:
        raise Unacceptable(f"parameters: at most {MOST_OPTIONS}, given {len(given)}")
    if (priority := parameters.get("priority")) is not None:
        given["priority"] = _priority(priority)
    content = _content_type("parameters", parameters)
    whole = _is_true("binary_data_output", parameters.get("binary_data_output", False))
    return InferRequest(
        ParsedRequest(await inputs.read(document.get("inputs"), binary, content), dict(given), strings=True),
        _wanted(document.get("outputs"), binary=whole),
        _id(document.get("id")),
        whole,
        _seconds(parameters.get("timeout")),
    )


class _BodyReader:
    """Splits a body, as it arrives, into its JSON and the binary data behind it."""

    def __init__(self, length: int | None, settings: Settings) -> None:
        self._length, self._left = length, length
        self._json = JsonBody(settings.max_text_bytes)
        self._binary = bytearray()

    def add(self, piece: bytes) -> None:
        """Take the next piece. Raises TooLarge for too many values in JSON."""
        if self._left is None:
            self._json.add(piece)
            return
        if self._left:
            self._json.add(piece[: self._left])
        self._binary += piece[self._left :]
        self._left = max(0, self._left - len(piece))

    def finish(self) -> tuple[dict[str, object] | None, memoryview]:
        """Return the document, None where the whole body is one element, and the binary data. Raises Malformed."""
        if self._left:
            raise Malformed(f"{JSON_LENGTH}: at most the bytes of the body, given {self._length}")
        return (self._json.parse() if self._length != 0 else None), memoryview(self._binary)


class _Inputs:
    """Reads the inputs of a model: images, or texts, maybe in pairs."""

    def __init__(self, served: ServedModel, settings: Settings) -> None:
        self._sort = sort_of(served)
        self._settings = settings
        self._known = input_names(served)

    async def read(self, given: object, binary: memoryview, content_type: str | None) -> Sequence[bytes | Text]:
        """Return the inputs of a request, of which some may be in its binary data.

        `content_type` is that of inputs that name none.
        """
        tensors = self._tensors(given)
        found: dict[str, Sequence[bytes | Text]] = {}
        place = 0
        for name, tensor in tensors.items():
            count = elements_of_shape(name, tensor.get("shape"))
            check_count(name, count, self._sort.most(self._settings))
            parameters = _parameters(name, tensor.get("parameters"))
            _check_members(f"{name}: parameters", parameters, frozenset({"binary_data_size", "content_type"}))
            if tensor.get("datatype") != "BYTES":
                raise Unacceptable(f"{name}: datatype must be BYTES, given another")
            size = parameters.get("binary_data_size")
            if (size is None) == ("data" not in tensor):
                raise Malformed(f"{name}: must have either data or binary_data_size")
            content = _content_type(name, parameters) or content_type
            if size is None:
                strings = strings_of(name, tensor["data"], count)
                found[name] = await self._sort.of_strings(name, content, strings, self._settings)
                continue
            if type(size) is not int or not 0 <= size <= len(binary) - place:
                raise Malformed(
                    f"{name}: binary_data_size must be at most what the body has left, {len(binary) - place}"
                )
            found[name] = self.of_bytes(name, split_binary(name, binary[place : place + size], count))
            place += size
        if place != len(binary):
            raise Malformed(f"body: must end with the last input, given {len(binary) - place} bytes more")
        return self._paired(found)

    def _tensors(self, given: object) -> dict[str, dict[str, Any]]:
        """Return the tensors by name. Raises Malformed and Unacceptable."""
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise Malformed("inputs: must be a list of tensors")
        tensors: dict[str, dict[str, Any]] = {}
        for tensor in given:
            _check_members("inputs", tensor, INPUT_MEMBERS)
            name = tensor.get("name")
            if name not in self._known:
                raise Unacceptable(f"inputs: must be named {' or '.join(self._known)}, given another")
            if name in tensors:
                raise Unacceptable(f"{name}: may be given once, given twice")
            tensors[name] = tensor
        if self._known[0] not in tensors:
            raise Unacceptable(f"{self._known[0]}: must be given")
        return tensors

    @property
    def name(self) -> str:
        """The name of the input that must be given."""
        return self._known[0]

    def of_bytes(self, name: str, elements: list[bytes]) -> Sequence[bytes | Text]:
        """Return inputs of elements that came in binary. Raises Malformed and TooLarge."""
        return self._sort.of_bytes(name, elements, self._settings)

    def _paired(self, found: dict[str, Sequence[bytes | Text]]) -> Sequence[bytes | Text]:
        first, *others = (found[name] for name in self._known if name in found)
        if not others:
            return first
        if len(first) != len(others[0]):
            raise Unacceptable(f"{self._known[1]}: must have {len(first)} elements, given {len(others[0])}")
        return [Pair(str(text), str(pair)) for text, pair in zip(first, others[0], strict=True)]


def input_names(served: ServedModel) -> tuple[str, ...]:
    """Return the names of a model's inputs; only the first must be given."""
    name = sort_of(served).name
    return (name, "text_pair") if served.takes_pairs else (name,)


def _json_length(request: Request) -> int | None:
    given = request.headers.getlist(JSON_LENGTH)
    if not given:
        return None
    if len(given) > 1 or not re.fullmatch("[0-9]{1,10}", given[0]):
        raise Malformed(f"{JSON_LENGTH}: must be a number of bytes, given once")
    return int(given[0])


def _check_members(subject: str, given: Mapping[str, object], known: frozenset[str]) -> None:
    if given.keys() - known:
        raise Unacceptable(f"{subject}: unknown member; known are {', '.join(sorted(known))}")


def _parameters(subject: str, given: object) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise Malformed(f"{subject}: must be an object")
    return given


def _is_reserved(name: str) -> bool:
    """Return whether a parameter is the protocol's own, and no option of ours."""
    return name in RESERVED or name.startswith("triton_")


def _content_type(subject: str, parameters: Mapping[str, Any]) -> str | None:
    content: str | None = parameters.get("content_type")
    if content not in (None, *CONTENT_TYPES):
        raise Unacceptable(f"{subject}: content_type must be {' or '.join(CONTENT_TYPES)}, given another")
    return content


def _as_string(value: object) -> str:
    """Return an option as a query string has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise Unacceptable("parameters: must be strings, numbers or booleans")


def _priority(value: object) -> str:
    """Return our word for a priority: of Triton's numbers, 1 is the highest and 0 the default."""
    if type(value) is int and 0 <= value < 2**32:
        return "interactive" if value <= 1 else "batch"
    if value in PRIORITIES:
        return str(value)
    raise Unacceptable(f"priority: must be 0 to {2**32 - 1}, or {' or '.join(PRIORITIES)}")


def _is_true(subject: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise Unacceptable(f"{subject}: must be true or false")
    return value


def _seconds(microseconds: object) -> float | None:
    if microseconds is None or microseconds == 0:
        return None
    if type(microseconds) is not int or microseconds < 0:
        raise Unacceptable("timeout: must be a number of microseconds")
    return microseconds / 1e6


def _id(given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str):
        raise Unacceptable("id: must be a string")
    if len(given.encode("utf-8", "surrogatepass")) > MOST_ID_BYTES:
        raise TooLarge(f"id: at most {MOST_ID_BYTES} bytes, given more")
    return given


def _wanted(given: object, *, binary: bool) -> tuple[WantedOutput, ...]:
    """Return the outputs that a request names. Raises Malformed and Unacceptable."""
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise Malformed("outputs: must be a list of outputs")
    if len(given) > MOST_OUTPUTS:
        raise Unacceptable(f"outputs: at most {MOST_OUTPUTS}, given {len(given)}")
    wanted = []
    for output in given:
        _check_members("outputs", output, frozenset({"name", "parameters"}))
        asked = _parameters("outputs: parameters", output.get("parameters"))
        _check_members("outputs: parameters", asked, frozenset({"binary_data", "classification"}))
        parameters = {key: value for key, value in asked.items() if value is not None}
        classes = parameters.get("classification", 0)
        if type(classes) is not int or classes < 0:
            raise Unacceptable("classification: must be a number of classes")
        name = output.get("name")
        if not isinstance(name, str):
            raise Malformed("outputs: each must have a name")
        wanted.append(WantedOutput(name, _is_true("binary_data", parameters.get("binary_data", binary)), classes))
    if len({one.name for one in wanted}) < len(wanted):
        raise Unacceptable("outputs: each may be named once, given one twice")
    return tuple(wanted)
