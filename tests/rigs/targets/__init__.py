"""Targets for atheris, which mutates bytes towards code that was not run before: the parsers of what clients send.

Each runs where atheris is installed: `python -m tests.rigs.targets.image -max_total_time=600 CORPUS`.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request

ARTIFACTS = "artifacts"


def run(target: Callable[[bytes], None]) -> None:
    """Call the target until the time given on the command line is over, or it raises what it must not."""
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed: pip install atheris")
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


def check(refusal: Exception) -> None:
    """Raise if a refusal tells an address, or more than a sentence."""
    words = str(refusal)
    assert "0x" not in words, words
    assert len(words) < 300, words


def posted(body: bytes, headers: Sequence[tuple[bytes, bytes]], query: bytes = b"") -> Request:
    """Return a request whose body comes in two pieces."""
    pieces = [body[:7], body[7:]]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": pieces.pop(0) if pieces else b"", "more_body": bool(pieces)}

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": query, "headers": headers}
    return Request(scope, receive)


def instrumented(*packages: str) -> object:
    """Return a block in which imported packages are watched, so that atheris sees where inputs lead."""
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed: pip install atheris")
    return atheris.instrument_imports(include=list(packages))
