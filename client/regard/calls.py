"""Requests of a regard service, and how their answers are read: nothing here opens a connection."""

import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from regard.attention import Attention
from regard.errors import BadInput, Problem, Refused, RegardError, StreamBroken, noted, refused
from regard.inputs import Encoded, body_of, encode, is_one, names_file
from regard.maps import Json
from regard.models import Description, Models, read_description
from regard.plain import plain
from regard.reading import read_attention
from regard.results import Asked, Asker, R, Result, read_result
from regard.tasks import task_of
from regard.tasks.task import Task

T = TypeVar("T")
P = TypeVar("P")

BODY_BYTES = 12_000_000
"""A batch is sent in requests of at most this number of bytes; the service takes 16 MiB by default."""
MOST_VALUES = 15_000
"""Of at most this number of values of JSON, of which graphs have many; the service takes 16,384."""
MOST_INPUTS = 32
"""And of at most this number of inputs, so that the answers of slow models come in time."""
QUERY_BYTES = 6000
"""A longer query may be refused: the service takes 8 KiB of a request's line and headers."""
EXACT = {"encoding": "base64"}
"""Maps come as the bytes of float32, which are exact and small."""
BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
GIVEN_ANOTHER = re.compile(r"given (another|others)\b")
"""How a refusal says that there was another value than may be."""
MOST_SHOWN = 80
"""Characters of a value that is shown in an error."""
OF_INPUT = re.compile(r"\(input (\d+) of \d+\)")
"""How a refusal counts the inputs of a request, from 1."""


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:  # noqa: ANN401 # what it has is for the reader to find
        """The body as JSON. Raises ValueError if it is none."""
        return json.loads(self.content)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how its answer is read: `read` raises KeyError, TypeError, IndexError or ValueError."""

    method: str
    path: str
    read: Callable[[Reply], T]
    query: Mapping[str, str] = field(default_factory=dict)
    body: Json | None = None
    fits: bool = True
    """False if the query is too long, or cannot say what is asked for."""


def list_models() -> Call[list[Description]]:
    """Ask for all models."""
    return Call("GET", "/v1/models", lambda reply: Models(map(read_description, reply.json["models"])))


def get_model(name: str) -> Call[Description]:
    """Ask for a model."""
    return Call("GET", f"/v1/models/{_part('model', name)}", lambda reply: read_description(reply.json))


def service_version() -> Call[str]:
    """Ask for the service's version."""
    return Call("GET", "/v2", lambda reply: str(reply.json["version"]))


def predictions(
    task: Task[R],
    model: Description,
    given: Sequence[Encoded],
    options: Json,
    client: Asker | None = None,
) -> Call[list[R]]:
    """Ask a model for the answers to inputs, in their order."""

    def read(reply: Reply) -> list[R]:
        found, kept = reply.json, {name: value for name, value in options.items() if name != "attention"}
        repeatable = task_of(model).is_repeatable(model, kept)
        entries = zip(found["results"], given, strict=True)
        return [
            read_result(
                task.result,
                entry,
                Asked(model, _explained(one, entry), kept, entry.get("id", found["id"]), client, repeatable),
            )
            for entry, one in entries
        ]

    body = {**body_of(given, model.sort), **body_options(model, options)}
    return Call("POST", f"/v1/models/{model.name}/{task.endpoint}", read, body=body)


def _explained(given: Encoded, entry: Json) -> Encoded:
    """Return what attention is of: an input, or the pair of a text with the sentence of a label."""
    paired = "hypothesis" in entry and given.text is not None
    return encode((given.json, entry["hypothesis"]), "text") if paired else given


def batches(model: Description, inputs: Iterable[object], each: int = 1) -> Iterator[tuple[int, list[Encoded]]]:
    """Yield inputs in as few requests as the model's limits allow, each with the place of its first among all inputs.

    Every input counts as `each`.

    Raises BadInput with the place of an input that cannot be sent.
    """
    if is_one(inputs) or not isinstance(inputs, Iterable):
        raise BadInput("inputs: must be a list, given one input; the method without _batch takes one")
    batch, share, start = list[Encoded](), 0.0, 0
    for place, one in enumerate(inputs):
        try:
            encoded = encode(one, model.sent)
        except BadInput as error:
            raise BadInput(f"inputs[{place}]: {error}") from error.__cause__
        full = (len(batch) + 1) * each > min(model.max_inputs, MOST_INPUTS)
        full = full or bool(batch and (batch[0].field != encoded.field or encoded.chat))
        own = each * max(encoded.size / BODY_BYTES, encoded.values / MOST_VALUES)
        if batch and (full or share + own > 1):
            yield start, batch
            batch, share, start = [], 0.0, place
        batch, share = [*batch, encoded], share + own
    if batch:
        yield start, batch


@contextmanager
def placed(start: int, batch: Sequence[Encoded]) -> Iterator[None]:
    """Let what goes wrong with a request of a batch name places among all inputs, which the service does not know."""
    try:
        yield
    except RegardError as error:
        if isinstance(error, Refused) and (found := OF_INPUT.search(error.problem.detail)):
            at = int(found[1]) - 1
            said = error.problem.detail.replace(found[0], f"(inputs[{start + at}])")
            raise refused(replace(error.problem, detail=said), batch[at].name) from None
        raise noted(error, f"inputs[{start}:{start + len(batch)}]") from error.__cause__


def stored_attention(result: Result, options: Json) -> Call[Attention]:
    """Ask for the attention of a request that was answered, without sending its input again."""
    given = {**EXACT, **_found(result), **options}
    return _stored(result, given, lambda reply: _attention(reply, result))


def attention_again(result: Result, options: Json) -> Call[Attention]:
    """Ask for the attention of an answer's input, which is sent again."""
    call = _again(result, {**EXACT, **options})
    return Call(call.method, call.path, lambda reply: _attention(reply, result), body=call.body)


def _attention(reply: Reply, result: Result) -> Attention:
    return read_attention(reply.json["results"][0]["attention"], result.asked.model.step)


def stored_picture(result: Result, options: Json) -> Call[bytes]:
    """Ask for the attention of a request that was answered, as a picture (PNG)."""
    return _stored(result, {**_found(result), **_drawn(result.asked.model, options)}, lambda reply: reply.content)


def _stored(result: Result, options: Json, read: Callable[[Reply], T]) -> Call[T]:
    asked = result.asked
    query = _query({**against(asked.model, options), "model": asked.model.name})
    lists = [one for one in map(plain, options.values()) if isinstance(one, list)]
    fits = len(urllib.parse.urlencode(query, errors="replace")) <= QUERY_BYTES and not any(
        isinstance(one, str) and "," in one for found in lists for one in found
    )
    return Call("GET", f"/v1/attention/{_part('id', asked.id)}", read, query=query, fits=fits)


def picture_again(result: Result, options: Json) -> Call[bytes]:
    """Ask for the attention of an answer's input, which is sent again, as a picture (PNG)."""
    return _again(result, _drawn(result.asked.model, options))


def _drawn(model: Description, options: Json) -> Json:
    """Return options of a picture, which shows one kind: of several that have the method the last, such as `cross`."""
    method = model.best if options.get("method") == "best" else options.get("method")
    kinds = [name for name, kind in model.kinds.items() if method in kind["methods"]]
    usual = {"kind": kinds[-1]} if len(kinds) > 1 else {}
    return {**usual, **options, "format": "png"}


def _found(result: Result) -> Json:
    """Return the options of an answer by which attention has its rows."""
    asked = result.asked
    return {name: asked.options[name] for name in task_of(asked.model).of_rows if name in asked.options}


BESIDE = frozenset(
    """
    threshold truncate overflow stride priority aggregate ignore dimensions prompt_name prompt most_tokens impossible
    """.split()
)
"""Options that say how an input is read and what is found in it: they stand beside those of attention."""


def beside(attention: Json) -> Json:
    """Return a body with options of attention, and beside them those that say how inputs are read."""
    own = {name: value for name, value in attention.items() if name not in BESIDE}
    return {**{name: value for name, value in attention.items() if name in BESIDE}, "attention": own}


def _again(result: Result, attention: Json) -> Call[bytes]:
    asked = result.asked
    inputs = body_of([asked.given], asked.model.sort)
    dropped = task_of(asked.model).of_answer
    kept = {name: value for name, value in asked.options.items() if name not in dropped}
    body = {**inputs, **kept, **beside(against(asked.model, attention))}
    return Call("POST", f"/v1/models/{asked.model.name}/attention", lambda reply: reply.content, body=body)


def body_options(model: Description, options: Json) -> Json:
    """Return options as a body has them: attention always with its method, and exact."""
    attention = options.get("attention")
    if attention is None:
        return {name: value for name, value in options.items() if name != "attention"}
    asked = {"method": attention} if isinstance(attention, str) else attention
    if not isinstance(asked, Mapping):
        given = type(attention).__name__
        raise BadInput(f"attention: must be a method, or a dictionary of a method and options, given {given}")
    return {**options, "attention": {**EXACT, **against(model, asked)}}


def against(model: Description, options: Json) -> Json:
    """Return options of attention in which `against` is what the service takes, whatever the other input is given as.

    A result stands for its input, by id. Anything else that the model takes stands for itself: a text, or a picture as
    `encode_picture` takes it, which may also stand under `image`. A list of two stands for the first rather than the
    second. Raises BadInput for what is neither.
    """
    given = options.get("against")
    if given is None:
        return options
    two = isinstance(given, list | tuple)
    return {**options, "against": [_other(model, one) for one in given] if two else _other(model, given)}


def _other(model: Description, given: object) -> Json:
    """Return what something is explained against, as the service takes it."""
    if not isinstance(given, Mapping):
        name = "id" if isinstance(given, Result) else "image" if model.takes_images else "text"
        if model.partner and name != "id":
            name = "text" if isinstance(given, str) and not names_file(given) else "image"
        given = {name: given}
    return {name: _named(name, value) for name, value in given.items()}


def _named(name: str, value: object) -> object:
    """Return a value of `against` as JSON has it. A string is base64 unless it names a file."""
    if isinstance(value, Result):
        return value.id
    if name != "image" or (isinstance(value, str) and not names_file(value) and BASE64.fullmatch(value)):
        return value
    return encode(value, "image").json


def _query(options: Json) -> dict[str, str]:
    """Return options of attention as a query has them."""
    return {name: _word(value) for name, value in options.items() if value is not None}


def _word(given: object) -> str:
    value = plain(given)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict) for one in value)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def _part(subject: str, given: str) -> str:
    """Return a part of a path. Raises BadInput for what would be another path."""
    if not isinstance(given, str) or not given or set(given) & set("/?#%\\") or given in (".", ".."):
        raise BadInput(f"{subject}: must be a name without any of /?#%, given {given!r}")
    return given


def problem_of(reply: Reply, call: Call[Any] | None = None) -> Problem:
    """Return the problem of a refusal; of an answer without one, such as a proxy's, what can be said of it.

    The service does not repeat what it was given; of a `call`, what was given for an option stands in its words.
    """
    after = _seconds(reply.headers.get("retry-after"))
    request_id = reply.headers.get("x-request-id")
    try:
        found = reply.json
        title = str(found["title"])
        detail = str(found["detail"])
        errors = found.get("errors") or ()
        errors = tuple({str(name): str(value) for name, value in one.items()} for one in errors)
        detail = _with_value(detail, call) if call else detail
    except (ValueError, KeyError, TypeError, AttributeError):
        title, detail, errors = "no problem document", "the answer does not say why", ()
    return Problem(reply.status, title, detail, errors, after, request_id)


def _with_value(detail: str, call: Call[Any]) -> str:
    """Return the words of a refusal, with the value of the option that they are about in place of `another`."""
    body = call.body or {}
    asked = body.get("attention")
    given = {**call.query, **(asked if isinstance(asked, Mapping) else {}), **body}
    subject = detail.partition(":")[0]
    if subject not in given or len(value := repr(given[subject])) > MOST_SHOWN:
        return detail
    said = GIVEN_ANOTHER.sub(lambda found: f"given {value}", detail)
    return said if "given" in said else f"{said}, given {value}"


def _seconds(header: str | None) -> float | None:
    """Return the seconds of Retry-After; None for a date, which this service does not send."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None


class Events(Generic[P, R]):
    """Reads the server-sent events of a stream, line by line: parts of an answer, and the whole one."""

    def __init__(self, task: Task[R], model: Description, given: Encoded, options: Json, client: Asker | None) -> None:
        self.result: R | None = None
        """The whole answer, once its event came."""
        self.text = ""
        self._task, self._model, self._given, self._client = task, model, given, client
        self._options = {name: value for name, value in options.items() if name != "attention"}
        self._event, self._data = "", list[str]()

    def take(self, line: str) -> P | None:
        """Take a line, and return the part that it completes. Raises a refusal, KeyError, TypeError or ValueError."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._event = value
            elif name == "data":
                self._data.append(value)
            return None
        event, data, self._event, self._data = self._event, "\n".join(self._data), "", []
        if not data:
            return None
        found = json.loads(data)
        if event == self._task.event:
            self.text += found["text"]
            part: P = self._task.read_event(found)
            return part
        if event == "done":
            repeatable = self._task.is_repeatable(self._model, self._options)
            asked = Asked(self._model, self._given, self._options, found["id"], self._client, repeatable)
            self.result = read_result(self._task.result, found["results"][0], asked)
        if event == "error":
            raise refused(problem_of(Reply(int(found["status"]), data.encode())))
        return None

    def __repr__(self) -> str:
        return f"<regard stream: {len(self.text)} letters{'' if self.result is None else ', whole'}>"

    def end(self, closed: bool = False) -> R:
        """Return the whole answer at the stream's end. Raises StreamBroken if it did not come."""
        if self.result is None:
            how = (
                "was closed before it ended; read it to its end" if closed else "ended before its last event; ask again"
            )
            raise StreamBroken(f"stream: {how}, or without stream", self.text)
        return self.result
