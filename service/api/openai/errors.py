"""Errors as OpenAI writes them, which names the field of a request that is at fault."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson
from starlette.responses import Response

from service.http.problems import problem
from service.options.attention import AttentionOptions
from service.options.base import Options

BAD_REQUEST, UNAUTHORIZED, NOT_FOUND, TOO_LARGE, UNACCEPTABLE, BUSY, BROKEN = 400, 401, 404, 413, 422, 429, 500
OF_FIELDS = (BAD_REQUEST, NOT_FOUND, TOO_LARGE, UNACCEPTABLE)
"""The statuses of refusals whose subject can be a field of the document."""
STATUSES = {UNACCEPTABLE: BAD_REQUEST}
"""The statuses of ours that this protocol does not have, and what it has for them."""

BEYOND = re.compile(r"input: at most \d+ tokens\b")
"""How a refusal begins of an input that is longer than the model's context."""


@dataclass(frozen=True)
class Errors:
    """Writes the errors of one endpoint, as `http.problems.ErrorForm`."""

    options: type[Options] = Options
    names: Mapping[str, str] = field(default_factory=dict)
    """What the endpoint calls the subjects of refusals that have other names elsewhere."""

    def __call__(
        self,
        status: int,
        detail: str,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return an error as an answer. It has room for one fault, which is the first of `errors`."""
        body = orjson.dumps(self.document(status, detail))
        sent = BAD_REQUEST if BEYOND.match(detail) else STATUSES.get(status, status)
        return Response(body, sent, dict(headers or {}), "application/json")

    def document(self, status: int, detail: str) -> dict[str, object]:
        """Return the document of an error."""
        subject, colon, rest = detail.partition(":")
        name = self.names.get(subject, subject)
        error = {
            "message": f"{name}{colon}{rest}",
            "type": _type(status),
            "param": None,
            "code": _code(status, detail),
        }
        if status in OF_FIELDS:
            error["param"] = self._parameter(name)
        return {"error": error}

    def _parameter(self, name: str) -> str | None:
        """Return the field of the document that a fault is in; None if its subject is none."""
        if name in AttentionOptions.model_fields:
            return f"attention.{name}"
        known = {"model", "input", "prompt", "messages", "file", "attention", *self.options.model_fields}
        return name if name in known else None


def error_of_models(
    status: int, detail: str, errors: Sequence[Mapping[str, str]] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error of the paths of models, which are ours and OpenAI's: a problem document with OpenAI's member."""
    return problem(status, detail, errors, headers, **Errors().document(status, detail))


def _type(status: int) -> str:
    if status == BUSY:
        return "rate_limit_error"
    return "invalid_request_error" if status < BROKEN else "server_error"


def _code(status: int, detail: str) -> str | None:
    subject = detail.partition(":")[0]
    if BEYOND.match(detail):
        return "context_length_exceeded"
    if status == NOT_FOUND and subject == "model":
        return "model_not_found"
    return {UNAUTHORIZED: "invalid_api_key", BUSY: "rate_limit_exceeded"}.get(status)
