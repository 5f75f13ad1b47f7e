"""Every refusal of the service, with the HTTP status of its answer.

Refusal
├── Malformed        400  the body, or the request around it, cannot be read
├── Unauthorized     401  no API key, or one that is not known
├── Forbidden        403  an API key that may not do this
├── NotFound         404  no such model, or the model does not serve this endpoint
├── NotAcceptable    406  an answer of a type that is not made
├── Timeout          408  the head or the body of a request took too long to arrive
├── Conflict         409  not while another of its kind is under way
├── TooLarge         413  more bytes, pixels or tokens than the limit
├── TooLong          414  a URL of more bytes than the limit
├── Unsupported      415  a content type that is not read, or no image at all
├── Unacceptable     422  read, but not to be answered
├── Busy             429  the queue is full; Retry-After says when it will have room
├── HeadersTooLarge  431  more headers, or bytes of them, than the limit
├── Broken           500  what the model computed is no answer
├── Full             503  as many connections as there may be
├── DeviceFull       503  the device has no memory left
├── NotReady         503  still warming up
└── TooSlow          504  the deadline passed

`detail` reads subject, limit, given. It never holds a text, a name or bytes that the client sent, nor a path. This
module knows no HTTP library, so that decoder processes and models can import it; `http/problems.py` makes the answers.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import ClassVar


class Refusal(Exception):
    """A request is not answered: the reason, as its client is told."""

    status: ClassVar[HTTPStatus] = HTTPStatus.BAD_REQUEST

    def __init__(self, detail: str, errors: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = list(errors)
        self.headers: dict[str, str] = {}


class Malformed(Refusal):
    """The body, or the request around it, cannot be read."""


class Unauthorized(Refusal):
    """No API key, or one that is not known."""

    status = HTTPStatus.UNAUTHORIZED

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.headers["WWW-Authenticate"] = "Bearer"


class Forbidden(Refusal):
    """An API key that may not do this."""

    status = HTTPStatus.FORBIDDEN


class NotFound(Refusal):
    """No such model, or the model's task does not serve this endpoint."""

    status = HTTPStatus.NOT_FOUND


class NotAcceptable(Refusal):
    """An answer of a type that is not made."""

    status = HTTPStatus.NOT_ACCEPTABLE


class Timeout(Refusal):
    """The head or the body of a request took too long to arrive; the connection is closed with the answer."""

    status = HTTPStatus.REQUEST_TIMEOUT

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.headers["Connection"] = "close"


class Conflict(Refusal):
    """Not while another of its kind is under way."""

    status = HTTPStatus.CONFLICT


class TooLarge(Refusal):
    """More than the limit; the detail holds both numbers."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class TooLong(Refusal):
    """A URL of more bytes than the limit."""

    status = HTTPStatus.REQUEST_URI_TOO_LONG


class HeadersTooLarge(Refusal):
    """More headers, or bytes of them, than the limit."""

    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


class Unsupported(Refusal):
    """A content type that is not read, or bytes that are no image."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class Unacceptable(Refusal):
    """Read and understood, but not to be answered."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY


class Waitable(Refusal):
    """Refused now; the same request may be answered after `seconds`."""

    def __init__(self, detail: str, seconds: int) -> None:
        super().__init__(detail)
        self.headers["Retry-After"] = str(seconds)


class Busy(Waitable):
    """The queue is full."""

    status = HTTPStatus.TOO_MANY_REQUESTS


class Full(Waitable):
    """As many connections as there may be."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class NotReady(Waitable):
    """The models are still warming up."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


NOT_FINITE = "model: its answer to this input is not finite"


class Broken(Refusal):
    """What the model computed for an input is no answer; that is not the client's fault."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR


class DeviceFull(Waitable):
    """The device has no memory left for what was asked."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class TooSlow(Refusal):
    """The deadline passed before there was an answer."""

    status = HTTPStatus.GATEWAY_TIMEOUT
