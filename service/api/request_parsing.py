"""Parsing of requests: inputs (the bytes of images, or texts) and options from a raw body, a form or JSON."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from typing import TypeVar

import orjson
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from service.errors import Malformed, NotAcceptable, TooLarge, Unacceptable, Unsupported
from service.explanations.query import Form
from service.http.body_limits import check_announced
from service.inputs.model_input import Pair, Text
from service.options import AttentionOptions, Options, parse
from service.settings import Settings

O = TypeVar("O", bound=Options)  # noqa: E741 # the letter of Options

MEDIA_TYPES: dict[Form, str] = {"json": "application/json", "npz": "application/x-npz", "png": "image/png"}
"""Of the forms of an attention answer."""
JSON = "application/json"
FORM = "multipart/form-data"
RAW = "application/octet-stream"
RAW_TEXT = "text/plain"  # assumed for a body without a Content-Type
MOST_OPTION_FIELDS = 32


@dataclass(frozen=True)
class ParsedRequest:
    """The inputs of a request, and its options as they were sent."""

    inputs: Sequence[bytes | Text]
    """Encoded images, or texts."""
    given: dict[str, object] = field(default_factory=dict)
    strings: bool = False
    """True if the options are strings of a query or form, False if they are JSON values."""

    def options(self, kind: type[O]) -> O:
        """Return the options of the endpoint, without those of attention."""
        attention = AttentionOptions.model_fields.keys() | {"attention"}
        rest = {name: value for name, value in self.given.items() if name not in attention}
        return parse(kind, rest, strings=self.strings, beside=attention if self.strings else {"attention"})

    def attention(self, *, required: bool) -> AttentionOptions | None:
        """Return the options of attention, or None if there are none and none are required.

        JSON nests them under `attention`. In a query or form, `attention` is the method, and the others are beside it.
        """
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


async def read_images(request: Request, settings: Settings) -> ParsedRequest:
    """Return the encoded images of a raw body, a form or a JSON document."""
    kind = _content_type(request)
    if kind == JSON:
        document = await _read_json(request, settings.max_body_bytes)
        images = document.pop("images", None)
        if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
            raise Unacceptable("images: must be a list of base64 strings")
        sent = ParsedRequest([_base64(image) for image in images], document)
    elif kind == FORM:
        sent = await _read_form(request, settings)
    elif kind == RAW or kind.startswith("image/"):
        sent = ParsedRequest([await _read_body(request, settings.max_image_bytes)], parse_query(request), strings=True)
    else:
        raise Unsupported(
            f"Content-Type: must be image/*, {RAW}, {FORM} or {JSON}; with curl: -H 'Content-Type: image/png'"
        )
    _check_count("images", len(sent.inputs), settings)
    for image in sent.inputs:
        assert isinstance(image, bytes)  # noqa: S101 # for the type checker
        if not image:
            raise Malformed("image: must hold at least one byte, given none")
        if len(image) > settings.max_image_bytes:
            raise TooLarge(f"image: at most {settings.max_image_bytes} bytes, given {len(image)}")
    return sent


async def read_texts(request: Request, settings: Settings) -> ParsedRequest:
    """Return the texts or pairs of texts of a JSON document."""
    if _content_type(request) != JSON:
        raise Unsupported(f"Content-Type: must be {JSON}; with curl: -H 'Content-Type: {JSON}'")
    document = await _read_json(request, settings.max_text_bytes)
    inputs = document.pop("inputs", None)
    given = inputs if isinstance(inputs, list) else [inputs]
    _check_count("inputs", len(given), settings)
    return ParsedRequest([_text(one) for one in given], document)


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


def _content_type(request: Request) -> str:
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Unsupported("Content-Encoding: must be identity, compressed bodies are not read")
    header = Message()
    header["content-type"] = request.headers.get("content-type", RAW_TEXT)
    kind = header.get_content_type()
    try:
        charset = header.get_content_charset("utf-8")
    except (TypeError, ValueError, LookupError):  # from a malformed continuation of a parameter (RFC 2231)
        raise Unsupported("Content-Type: must have parameters that can be read") from None
    if kind == JSON and charset not in ("utf-8", "utf8"):
        raise Unsupported("Content-Type: JSON must be UTF-8")
    return kind


async def _read_body(request: Request, limit: int) -> bytes:
    """Read a body of at most `limit` bytes. A larger body is refused by its Content-Length, before it is read."""
    check_announced(request.headers, limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"body: at most {limit} bytes, given more")
    return bytes(body)


async def _read_json(request: Request, limit: int) -> dict[str, object]:
    if request.query_params:
        raise Unacceptable("query: options of a JSON request belong in its document, given both")
    body = await _read_body(request, limit)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # the message holds only a position, and nothing of the document
        raise Malformed(f"body: must be JSON, {error.msg} at character {error.pos}") from error
    if not isinstance(document, dict):
        raise Unacceptable("body: must be a JSON object")
    return document


async def _read_form(request: Request, settings: Settings) -> ParsedRequest:
    check_announced(request.headers, settings.max_body_bytes)
    given = parse_query(request)
    images: list[bytes] = []
    try:
        parser = MultiPartParser(
            request.headers,
            request.stream(),
            max_files=settings.max_inputs + 1,  # one more than the limit, so that our own check refuses it
            max_fields=MOST_OPTION_FIELDS,
            max_part_size=1 << 16,
        )
        # in memory, where the budget of bodies counts it, never on disk
        parser.spool_max_size = settings.max_body_bytes
        fields = await parser.parse()
        for name, value in fields.multi_items():
            if isinstance(value, UploadFile):
                if name != "image":
                    raise Unacceptable("form: files must be in the field image, given another")
                images.append(await value.read())
            elif name in given:
                raise Unacceptable("options: each may be given once, given one twice")
            else:
                given[name] = value
    except (MultiPartException, KeyError) as error:
        raise Malformed(
            "form: must be well-formed multipart/form-data with a few short fields beside the images"
        ) from error
    return ParsedRequest(images, given, strings=True)


def parse_query(request: Request) -> dict[str, object]:
    """Return the options of a query string. Raises Unacceptable if one is given twice."""
    items = request.query_params.multi_items()
    given: Mapping[str, object] = dict(items)
    if len(given) < len(items):
        raise Unacceptable("options: each may be given once, given one twice")
    return dict(given)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Malformed("images: each must be base64 without spaces or a data: prefix") from error


def _check_count(subject: str, count: int, settings: Settings) -> None:
    if not 1 <= count <= settings.max_inputs:
        raise Unacceptable(f"{subject}: must be 1 to {settings.max_inputs}, given {count}")


def negotiate(accept: Sequence[str]) -> Form:
    """Return the format of attention that the Accept headers prefer, JSON if there are none.

    Raises NotAcceptable if no offered format is accepted (RFC 9110, section 12.5.1).
    """
    ranges = [part for header in accept for part in header.split(",") if part.strip()]
    if not ranges:
        return "json"
    closest = {form: max(_preference(media, one) for one in ranges) for form, media in MEDIA_TYPES.items()}
    weights = {form: (weight, close) for form, (close, weight) in closest.items()}
    best = max(weights, key=lambda form: weights[form])  # the first of equals
    if weights[best][0] <= 0:
        raise NotAcceptable(f"Accept: must admit one of {', '.join(MEDIA_TYPES.values())}, given others")
    return best


def _preference(media: str, accepted: str) -> tuple[int, float]:
    """Return how specifically a media range matches a type, 0 (not at all) to 3 (exactly), and its quality value."""
    name, *parameters = (part.strip().lower() for part in accepted.split(";"))
    quality = next((part[2:] for part in parameters if part.startswith("q=")), "1")
    try:
        weight = float(quality)
    except ValueError:
        weight = 0.0
    close = (media, f"{media.partition('/')[0]}/*", "*/*")
    return (3 - close.index(name), weight) if name in close else (0, 0.0)
