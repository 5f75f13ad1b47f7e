"""Refusals as answers: in the form of the request's protocol, by default problem details (RFC 9457)."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Protocol

import orjson
from starlette.responses import Response
from starlette.types import Scope

from service.errors import Busy, Refusal
from service.http.exchange import exchange_of


class ErrorForm(Protocol):
    """How a protocol writes an error."""

    def __call__(
        self,
        status: int,
        detail: str,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return an error as an answer."""


def problem(
    status: int,
    detail: str,
    errors: Sequence[Mapping[str, str]] = (),
    headers: Mapping[str, str] | None = None,
    **members: object,
) -> Response:
    """Return a problem document as an answer, with more members if they are given (RFC 9457, section 3.2)."""
    body: dict[str, object] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
        **members,
    }
    if errors:
        body["errors"] = list(errors)
    return Response(orjson.dumps(body), int(status), dict(headers or {}), "application/problem+json")


def fault(
    scope: Scope,
    status: int,
    detail: str,
    errors: Sequence[Mapping[str, str]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error as an answer in the form of the request's protocol."""
    return (exchange_of(scope).error_form or problem)(status, detail, errors, headers)


def refused(refusal: Refusal, scope: Scope) -> Response:
    """Return a refusal as an answer, and note its reason for the log and the metrics."""
    exchange = exchange_of(scope)
    exchange.refused = reason(refusal)
    exchange.busy = refusal if isinstance(refusal, Busy) else None
    return fault(scope, refusal.status, refusal.detail, refusal.errors, refusal.headers)


def reason(refusal: Refusal) -> str:
    """Return the name of a refusal in metrics and logs: `too_large`."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", type(refusal).__name__).lower()
