"""The errors that refuse a request, each with the HTTP status of its answer.

Refusal
├── Malformed        400  the body, or the request around it, cannot be read
├── Unauthorized     401  no API key, or an unknown one
├── Forbidden        403  an API key without the needed scope
├── NotFound         404  no such model or path, or the model does not serve this endpoint
├── NotAcceptable    406  no requested media type can be answered
├── Timeout          408  the head or the body of a request took too long to arrive
├── Conflict         409  another operation of this kind is running
├── TooLarge         413  more bytes, pixels or tokens than the limit
├── TooLong          414  a URL of more bytes than the limit
├── Unsupported      415  an unsupported content type, or bytes that are not an image
├── Unacceptable     422  understood, but it cannot be answered
├── HeadersTooLarge  431  more headers, or more bytes of headers, than the limit
├── Broken           500  the model's result is not a valid answer
├── TooSlow          504  the deadline passed before there was an answer
└── RetryLater            refused for now; Retry-After says for how long
    ├── Busy         429  the queue is full
    │   └── KeyBusy  429  the API key has too many requests in flight
    ├── Full         503  the limit of connections is reached
    ├── DeviceFull   503  the device has no memory left
    └── NotReady     503  not ready yet, or not able to answer for the moment

`detail` names the subject, the limit and what was given. It never holds a text, a name or bytes that the client sent,
nor a path. This module imports no HTTP library, so that decoder processes and models can import it;
`http/problems.py` makes the answers.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import ClassVar


class Refusal(Exception):
    """A request is refused. `detail` is the reason that the client is told."""

    status: ClassVar[HTTPStatus] = HTTPStatus.BAD_REQUEST

    def __init__(self, detail: str, errors: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = list(errors)
        self.headers: dict[str, str] = {}


class Malformed(Refusal):
    """The body, or the request around it, cannot be read."""


class Unauthorized(Refusal):
    """No API key, or an unknown one."""

    status = HTTPStatus.UNAUTHORIZED

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.headers["WWW-Authenticate"] = "Bearer"


class Forbidden(Refusal):
    """An API key without the needed scope, or a web page that calls a port which is for none."""

    status = HTTPStatus.FORBIDDEN


class NotFound(Refusal):
    """No such model or path, or the task of the model does not serve this endpoint."""

    status = HTTPStatus.NOT_FOUND


class NotAcceptable(Refusal):
    """No media type that the client accepts can be answered."""

    status = HTTPStatus.NOT_ACCEPTABLE


class Timeout(Refusal):
    """The head or the body of a request took too long to arrive; the connection is closed with the answer."""

    status = HTTPStatus.REQUEST_TIMEOUT

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.headers["Connection"] = "close"


class Conflict(Refusal):
    """Another operation of this kind is running."""

    status = HTTPStatus.CONFLICT


class TooLarge(Refusal):
    """More bytes, pixels or tokens than the limit. The detail holds both numbers."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class TooLong(Refusal):
    """A URL of more bytes than the limit."""

    status = HTTPStatus.REQUEST_URI_TOO_LONG


class HeadersTooLarge(Refusal):
    """More headers, or more bytes of headers, than the limit."""

    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


class Unsupported(Refusal):
    """An unsupported content type, or bytes that are not an image."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class Unacceptable(Refusal):
    """The request was read and understood, but it cannot be answered."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY


class RetryLater(Refusal):
    """Refused for now. The same request may be answered after `seconds`."""

    def __init__(self, detail: str, seconds: int) -> None:
        super().__init__(detail)
        self.headers["Retry-After"] = str(seconds)


class Busy(RetryLater):
    """The queue is full."""

    status = HTTPStatus.TOO_MANY_REQUESTS


class KeyBusy(Busy):
    """An API key has as many requests in flight as it may have."""


class Full(RetryLater):
    """The limit of connections is reached."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class NotReady(RetryLater):
    """Not ready yet, or not able to answer for the moment, for example while models warm up."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


NOT_FINITE = "model: its answer to this input is not finite"


class Broken(Refusal):
    """The model's result for an input is not a valid answer, through no fault of the client."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR


class DeviceFull(RetryLater):
    """The device has not enough memory left for the request."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class TooSlow(Refusal):
    """The deadline passed before there was an answer."""

    status = HTTPStatus.GATEWAY_TIMEOUT

    def __init__(self, seconds: float) -> None:
        less = "ask for less, such as fewer inputs or, of integrated, fewer steps"
        super().__init__(f"request: at most {seconds:g} seconds, given up; {less}")


@contextlib.contextmanager
def called(subject: str, name: str) -> Iterator[None]:
    """Let a refusal of a subject call it by the name that a client knows it by."""
    try:
        yield
    except Refusal as error:
        found, colon, rest = error.detail.partition(":")
        error.detail = f"{name if found == subject else found}{colon}{rest}"
        raise


@contextlib.contextmanager
def about_input(number: int, count: int) -> Iterator[None]:
    """Let a refusal say which of `count` inputs it is about. The one behind them is what they are compared with."""
    try:
        yield
    except (Malformed, TooLarge, Unsupported, Unacceptable) as error:
        if number >= count:
            error.detail += " (against)"
        elif count > 1:
            error.detail += f" (input {number + 1} of {count})"
        raise
