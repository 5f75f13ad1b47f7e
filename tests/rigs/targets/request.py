"""`request_parsing.read_images` and `read_texts`: any body of any declared type is read or refused."""

import asyncio
from typing import Any

from tests.rigs.targets import check, instrumented, run

with instrumented(
    "service.api.request_parsing",
    "service.api.json_body",
    "service.api.form_body",
    "service.http.header_parameters",
    "service.options",
):
    from starlette.requests import Request

    from service.api.request_parsing import negotiate, read_images, read_texts
    from service.errors import Refusal
    from service.options import ClassifyOptions, DetectOptions, GenerateOptions
    from service.settings import Settings

SETTINGS = Settings(max_body_bytes=1 << 16, max_image_bytes=1 << 15, max_text_bytes=1 << 15)
LOOP = asyncio.new_event_loop()


def target(data: bytes) -> None:
    """Read a body: its type, its query and what it may be answered with are the lines before it."""
    kind, query, accept, body = (data.split(b"\n", 3) + [b""] * 4)[:4]
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), (b"accept", accept)]
    for read, options in (
        (read_images, ClassifyOptions), (read_images, DetectOptions), (read_texts, GenerateOptions)
    ):  # fmt: skip
        pieces = [body[:7], body[7:]]

        async def receive(pieces: list[bytes] = pieces) -> dict[str, Any]:
            return {"type": "http.request", "body": pieces.pop(0) if pieces else b"", "more_body": bool(pieces)}

        scope = {"type": "http", "method": "POST", "path": "/", "query_string": query, "headers": headers}
        try:
            sent = LOOP.run_until_complete(read(Request(scope, receive), SETTINGS))
            sent.options(options)
            sent.attention(required=True)
            negotiate([accept.decode("latin-1")])
        except Refusal as refusal:
            check(refusal)


if __name__ == "__main__":
    run(target)
