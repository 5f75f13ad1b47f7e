"""`infer_request.read_infer_request`: any body, whatever the length of its JSON is said to be, is read or refused."""

import asyncio
from types import SimpleNamespace
from typing import Any

from tests.rigs.targets import check, instrumented, posted, run

with instrumented(
    "service.api.reading.json_body",
    "service.api.open_inference.infer_request",
    "service.api.open_inference.tensors",
    "service.options",
):
    from service.api.open_inference.infer_request import read_infer_request
    from service.api.reading.sorts import sort_of
    from service.errors import Refusal
    from service.inputs.image_inputs import ImageInputs
    from service.inputs.text_inputs import TextInputs
    from service.options.predictions import ClassifyOptions
    from service.settings import Settings

SETTINGS = Settings(max_body_bytes=1 << 16, max_image_bytes=1 << 15, max_text_bytes=1 << 15)
LOOP = asyncio.new_event_loop()
MODELS: list[Any] = [
    SimpleNamespace(inputs=ImageInputs.__new__(ImageInputs), takes_pairs=False),
    SimpleNamespace(inputs=TextInputs.__new__(TextInputs), takes_pairs=True),
]
"""What the parser asks of a model: its sort of input, and whether it takes pairs of texts."""


def target(data: bytes) -> None:
    """Read a body; the line before it is the length of its JSON, none if it is empty."""
    length, _, body = data.partition(b"\n")
    headers = [(b"content-length", str(len(body)).encode())]
    if length:
        headers.append((b"inference-header-content-length", length))
    for served in MODELS:
        try:
            asked = LOOP.run_until_complete(read_infer_request(posted(body, headers), served, SETTINGS))
            asked.parsed.options(ClassifyOptions)
            asked.parsed.attention(required=True)
        except Refusal as refusal:
            check(refusal)
        else:
            assert 1 <= len(asked.parsed.inputs) <= sort_of(served).most(SETTINGS)
            assert asked.id is None or len(asked.id.encode("utf-8", "surrogatepass")) <= 256


if __name__ == "__main__":
    run(target)
