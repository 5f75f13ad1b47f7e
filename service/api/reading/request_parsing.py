"""Parsing of requests: inputs (the bytes of images or sounds, or texts) and options from a raw body, a form or JSON."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import orjson
from starlette.requests import Request

from service.api.reading.form_body import FormBody, malformed
from service.api.reading.json_body import JsonBody
from service.errors import Malformed, NotAcceptable, TooLarge, Unacceptable, Unsupported
from service.explanations.query import Form
from service.http.body_limits import check_announced
from service.http.header_parameters import parse_parameters, split_value
from service.inputs.encoded_files import FileSort, decode_files
from service.inputs.model_input import Pair, Text
from service.options.attention import AttentionOptions
from service.options.base import MOST_OPTION_CHARACTERS, MOST_OPTIONS, Options, parse
from service.settings import Settings

O = TypeVar("O", bound=Options)  # noqa: E741 # the letter of Options

MEDIA_TYPES: dict[Form, str] = {"json": "application/json", "npz": "application/x-npz", "png": "image/png"}
"""Of the forms of an attention answer."""
JSON = "application/json"
FORM = "multipart/form-data"
RAW = "application/octet-stream"
RAW_TEXT = "text/plain"  # assumed for a body without a Content-Type

TAKEN = {"inputs": "texts, a string or a list of strings", "graphs": "graphs, a list of objects"}
"""What a model takes, by the member of a document that holds it; files otherwise."""

QUALITY = re.compile(r";[ \t]*+q=([^; \t]*+)", re.IGNORECASE)
QUALITY_VALUE = re.compile(r"0?\.[0-9]{1,9}|[01](\.[0-9]{0,9})?")
"""Clients also send `q=.2`, and more digits than the three that RFC 9110 allows."""


@dataclass(frozen=True)
class ParsedRequest:
    """The inputs of a request, and its options as they were sent."""

    inputs: Sequence[bytes | Text]
    """Encoded images or sounds, or texts."""
    given: dict[str, object] = field(default_factory=dict)
    strings: bool = False
    """True if the options are strings of a query or form, False if they are JSON values."""

    def options(self, kind: type[O]) -> O:
        """Return the options of the endpoint, without those of attention."""
        if not self.given:
            return kind()
        attention = AttentionOptions.model_fields.keys() | {"attention"}
        rest = {name: value for name, value in self.given.items() if name not in attention}
        return parse(kind, rest, strings=self.strings, beside=attention if self.strings else {"attention"})

    def attention(self, *, required: bool) -> AttentionOptions | None:
        """Return the options of attention, or None if there are none and none are required.

        JSON nests them under `attention`. In a query or form, `attention` is the method, and the others are beside it.
        """
        if not self.given and not required:
            return None
        nested = self.given.get("attention")
        flat = {name: value for name, value in self.given.items() if name in AttentionOptions.model_fields}
        if isinstance(nested, dict):
            if flat:
                raise Unacceptable("attention: its options must be inside it or beside it, not both")
            return parse(AttentionOptions, nested, strings=False)
        if nested is not None:
            if "method" in flat:
                raise Unacceptable("attention: names the method; method must not be given too")
            flat["method"] = nested
        if flat and "method" not in flat and not required:
            raise Unacceptable(f"{sorted(flat)[0]}: is an option of attention; ask for attention too")
        return parse(AttentionOptions, flat, strings=self.strings) if flat or required else None


async def read_files(sort: FileSort, request: Request, settings: Settings) -> ParsedRequest:
    """Return the encoded files of a raw body, a form or a JSON document."""
    kind, parameters = content_type(request)
    if kind == JSON:
        document = await read_json(request, parameters, settings.max_body_bytes, settings)
        return ParsedRequest(await _decode_files(sort, _required(document, sort.plural), settings), document)
    if kind == FORM:
        return await read_form(sort, request, parameters, settings)
    if kind == RAW or kind.startswith(sort.media):
        return ParsedRequest([await read_file(sort, request, settings)], parse_query(request), strings=True)
    raise Unsupported(
        f"Content-Type: must be {sort.media}*, {RAW}, {FORM} or {JSON}; with curl: -H 'Content-Type: {sort.example}'"
    )


async def read_either(sort: FileSort, document: dict[str, object], settings: Settings) -> ParsedRequest:
    """Return the files of a document, or its texts, `inputs`. Raises Unacceptable for both, and for neither."""
    if "inputs" not in document:
        return ParsedRequest(await _decode_files(sort, _required(document, sort.plural), settings), document)
    if sort.plural in document:
        raise Unacceptable(f"inputs: must be texts, or {sort.plural} be given in place of them, given both")
    texts = parse_texts(document.pop("inputs"), settings)
    check_characters("inputs", texts, settings)
    return ParsedRequest(texts, document)


def check_characters(subject: str, texts: Sequence[Text], settings: Settings) -> None:
    """Raise TooLarge for texts of more characters than the body of texts alone may have bytes."""
    if (length := sum(len(text) for text in texts if isinstance(text, str))) > (most := settings.max_text_bytes):
        raise TooLarge(f"{subject}: at most {most} characters, given {length}")


async def read_file(sort: FileSort, request: Request, settings: Settings) -> bytes:
    """Return the encoded file that a body is. Raises Malformed for none, and TooLarge."""
    body = bytearray()
    await read_body(request, getattr(settings, sort.most_bytes), body.extend)
    sort.check(len(body), settings)
    return bytes(body)


async def read_texts(request: Request, settings: Settings) -> ParsedRequest:
    """Return the texts or pairs of texts of a JSON document."""
    return texts_of(await read_document(request, settings.max_text_bytes, settings), settings)


def texts_of(document: dict[str, object], settings: Settings) -> ParsedRequest:
    """Return the texts or pairs of texts of a document. Raises Unacceptable if it has none."""
    return ParsedRequest(parse_texts(_required(document, "inputs"), settings), document)


async def read_graphs(request: Request, settings: Settings) -> ParsedRequest:
    """Return the graphs of a JSON document."""
    document = await read_document(request, settings.max_text_bytes, settings)
    return ParsedRequest(parse_graphs("graphs", _required(document, "graphs"), settings), document)


def parse_graphs(name: str, given: object, settings: Settings) -> list[Text]:
    """Return the graphs of a JSON value, each as JSON. Raises Unacceptable for what is no list of objects."""
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise Unacceptable(f'{name}: must be graphs, such as [{{"nodes": [0, 1], "edges": [[0, 1]]}}]')
    check_count(name, len(given), settings.max_inputs)
    return [orjson.dumps(one).decode() for one in given]


def _required(document: dict[str, object], name: str) -> object:
    """Take what a document must have out of it. Raises Unacceptable if it is missing."""
    if name not in document:
        takes = TAKEN.get(name, f"{name}, a list of base64 strings")
        raise Unacceptable(f"{name}: must be in the document; this model takes {takes}")
    return document.pop(name)


def parse_texts(inputs: object, settings: Settings) -> list[Text]:
    """Return the texts or pairs of texts of a JSON value: one, or a list of them. Raises Unacceptable for others."""
    given = inputs if isinstance(inputs, list) else [inputs]
    check_count("inputs", len(given), settings.max_inputs)
    return [_text(one) for one in given]


async def read_questions(request: Request, settings: Settings) -> ParsedRequest:
    """Return the questions of a JSON document, each with its context."""
    document = await read_document(request, settings.max_text_bytes, settings)
    return ParsedRequest(parse_questions(document.pop("inputs", None), settings), document)


def parse_questions(inputs: object, settings: Settings) -> list[Text]:
    """Return the questions and contexts of a JSON value: one of both, or a list. Raises Unacceptable for others."""
    given = inputs if isinstance(inputs, list) else [inputs]
    check_count("inputs", len(given), settings.max_inputs)
    return [_question(one) for one in given]


def _question(given: object) -> Text:
    if isinstance(given, dict):
        for names in (("question", "context"), ("text", "text_pair")):  # the second as all pairs, and as examples are
            question, context = map(given.get, names)
            if given.keys() == set(names) and isinstance(question, str) and isinstance(context, str):
                return Pair(question, context)
    raise Unacceptable('inputs: must be {"question": ..., "context": ...}, both strings, or a list of them')


def _text(given: object) -> Text:
    if isinstance(given, str):
        return given
    if (
        isinstance(given, dict)
        and given.keys() == {"text", "text_pair"}
        and all(isinstance(one, str) for one in given.values())
    ):
        return Pair(**given)
    raise Unacceptable('inputs: must be a string or a list of strings, or of pairs {"text": ..., "text_pair": ...}')


def check_encoding(request: Request) -> None:
    """Raise Unsupported for a compressed body."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        refusal = Unsupported("Content-Encoding: must be identity, compressed bodies are not read")
        refusal.headers["Accept-Encoding"] = "identity"  # RFC 9110, section 15.5.16
        raise refusal


async def read_document(request: Request, limit: int, settings: Settings) -> dict[str, object]:
    """Return the JSON document of a body of at most `limit` bytes. Raises Unsupported for a body of another type."""
    kind, parameters = content_type(request)
    if kind != JSON:
        raise Unsupported(f"Content-Type: must be {JSON}; with curl: -H 'Content-Type: {JSON}'")
    return await read_json(request, parameters, limit, settings)


def content_type(request: Request) -> tuple[str, str]:
    """Return the media type of the body, and its parameters as they were sent. No image has parameters that matter."""
    check_encoding(request)
    return split_value(request.headers.get("content-type", RAW_TEXT))


def _utf8_parameters(text: str, subject: str) -> dict[str, str]:
    """Return the parameters of a Content-Type. Raises Unsupported for another charset than UTF-8.

    A charset in parts (RFC 2231) is refused, since RFC 7578, section 4.2, and RFC 8259, section 11, know none.
    """
    try:
        parameters = parse_parameters(text)
    except ValueError as error:
        raise Unsupported("Content-Type: must have parameters that can be read") from error
    if any("*" in name for name in parameters):
        raise Unsupported("Content-Type: must have parameters that can be read")
    if parameters.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise Unsupported(f"Content-Type: {subject} must be UTF-8")
    return parameters


async def read_body(request: Request, limit: int, add: Callable[[bytes], object]) -> None:
    """Read a body of at most `limit` bytes. A larger body is refused by its Content-Length, before it is read.

    Each piece is passed to `add`, so that what it refuses is refused before the rest arrives.
    """
    check_announced(request.headers, limit)
    length = 0
    async for piece in request.stream():
        length += len(piece)
        if length > limit:
            raise TooLarge(f"body: at most {limit} bytes, given more")
        add(piece)


async def read_json(request: Request, parameters: str, limit: int, settings: Settings) -> dict[str, object]:
    """Return a JSON document of at most `limit` bytes, whose Content-Type has these parameters.

    Raises Unsupported for another charset, Malformed, TooLarge and Unacceptable.
    """
    if parameters:
        _utf8_parameters(parameters, "JSON")
    if request.query_params:
        raise Unacceptable("query: options of a JSON request belong in its document, given both")
    body = JsonBody(settings.max_text_bytes)
    await read_body(request, limit, body.add)
    return body.parse()


async def read_form(sort: FileSort, request: Request, parameters: str, settings: Settings) -> ParsedRequest:
    """Return the files and fields of a form. Files that are too many are counted, so that they are refused as such.

    A field whose name ends in [] may come several times: its values are joined by commas, as in a query.
    """
    boundary = _utf8_parameters(parameters, "a form").get("boundary", "")
    most = getattr(settings, sort.most)
    body = FormBody(boundary, most + 1 + MOST_OPTIONS)
    given = parse_query(request)
    await read_body(request, settings.max_body_bytes, body.add)
    files: list[memoryview] = []
    fields = 0
    for part in body.parts():
        if part.is_file or part.name == sort.name:  # a file may come without a name (RFC 7578, section 4.2)
            if part.name != sort.name:
                raise Unacceptable(f"form: files must be in the field {sort.name}, given another")
            files.append(part.content)
            continue
        fields += 1
        if fields > MOST_OPTIONS or len(part.content) > MOST_OPTION_CHARACTERS:
            raise malformed()
        name = part.name.removesuffix("[]")
        if name == part.name in given:
            raise Unacceptable("options: each may be given once, given one twice")
        try:
            value = str(part.content, "utf-8")
        except UnicodeDecodeError as error:
            raise Malformed("form: its fields must be UTF-8") from error
        given[name] = f"{given[name]},{value}" if name in given else value
    check_count(sort.plural, len(files), most)
    for file in files:
        sort.check(len(file), settings)
    return ParsedRequest([bytes(file) for file in files], given, strings=True)


def parse_query(request: Request) -> dict[str, object]:
    """Return the options of a query string. Raises Unacceptable if one is given twice."""
    items = request.query_params.multi_items()
    given: Mapping[str, object] = dict(items)
    if len(given) < len(items):
        raise Unacceptable("options: each may be given once, given one twice")
    return dict(given)


async def _decode_files(sort: FileSort, given: object, settings: Settings) -> list[bytes]:
    """Return the files of a JSON document. Their number and sizes are checked before any is decoded."""
    if not isinstance(given, list) or not all(isinstance(file, str) for file in given):
        raise Unacceptable(f"{sort.plural}: must be a list of base64 strings")
    check_count(sort.plural, len(given), getattr(settings, sort.most))
    return await decode_files(sort, f"{sort.plural}: each", given, settings)


def check_count(subject: str, count: int, most: int) -> None:
    """Raise Unacceptable for a number of inputs that one request cannot have."""
    if not 1 <= count <= most:
        raise Unacceptable(f"{subject}: must be 1 to {most}, given {count}")


def negotiate(accept: Sequence[str]) -> Form:
    """Return the format of attention that the Accept headers prefer, JSON if there are none.

    Raises NotAcceptable if no offered format is accepted (RFC 9110, section 12.5.1).
    """
    ranges = [_media_range(part) for header in accept for part in header.split(",") if part.strip()]
    if not ranges:
        return "json"
    weights = {form: _weight(media, ranges) for form, media in MEDIA_TYPES.items()}
    best = max(weights, key=lambda form: weights[form])  # the first of equals
    if weights[best][0] <= 0:
        raise NotAcceptable(f"Accept: must admit one of {', '.join(MEDIA_TYPES.values())}, given others")
    return best


def _media_range(accepted: str) -> tuple[str, float]:
    """Return a media range and its quality value, 0 if that is malformed."""
    name, parameters = split_value(accepted)
    found = QUALITY.search(parameters)
    if found is None:
        return name, 1.0
    return name, float(found[1]) if QUALITY_VALUE.fullmatch(found[1]) else 0.0


def _weight(media: str, ranges: Sequence[tuple[str, float]]) -> tuple[float, int]:
    """Return the quality value of the range that matches a type best, and how specific it is: 0 (no match) to 3."""
    close = {media: 3, f"{media.partition('/')[0]}/*": 2, "*/*": 1}
    matching = [(close[name], weight) for name, weight in ranges if name in close]
    specificity, weight = max(matching, default=(0, 0.0))
    return weight, specificity
