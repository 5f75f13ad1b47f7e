"""`request_parsing.read_images` and `read_texts`: any body of any declared type is read or refused."""

import asyncio

from tests.rigs.targets import check, instrumented, posted, run

with instrumented(
    "service.api.reading.request_parsing",
    "service.api.reading.json_body",
    "service.api.reading.form_body",
    "service.http.header_parameters",
    "service.options",
):
    from service.api.reading.request_parsing import negotiate, read_images, read_texts
    from service.errors import Refusal
    from service.options.generation import GenerateOptions
    from service.options.predictions import ClassifyOptions, DetectOptions
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
        try:
            sent = LOOP.run_until_complete(read(posted(body, headers, query), SETTINGS))
            sent.options(options)
            sent.attention(required=True)
            negotiate([accept.decode("latin-1")])
        except Refusal as refusal:
            check(refusal)


if __name__ == "__main__":
    run(target)
