"""TODO: what service/http/problems.py is."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import orjson
from starlette.responses import Response
from starlette.types import Scope

from service.errors import Refusal, reason


def problem(
    status: int, detail: str, errors: Sequence[Mapping[str, str]] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return the answer of a refusal."""
    body: dict[str, object] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
    }
    if errors:
        body["errors"] = list(errors)
    return Response(orjson.dumps(body), int(status), dict(headers or {}), "application/problem+json")


def refused(refusal: Refusal, scope: Scope) -> Response:
    """Return the answer that a refusal says of itself, and leave its reason in the request's state."""
    scope["state"]["refused"] = reason(refusal)
    return problem(refusal.status, refusal.detail, refusal.errors, refusal.headers)
