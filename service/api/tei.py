"""The protocol of what clients of Text Embeddings Inference expect."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter
from starlette.responses import Response

from service.http.problems import problem

router = APIRouter()


def error(
    status: int, detail: str, errors: Sequence[Mapping[str, str]] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as an answer in the manner of this protocol."""
    return problem(status, detail, errors, headers)
