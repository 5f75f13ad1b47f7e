"""Server-sent events (HTML standard, section 9.2)."""

import contextlib
from collections.abc import AsyncIterator

import orjson
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class EventStream(StreamingResponse):
    """A stream of events, and what is held until the last of them is sent or the client has gone."""

    def __init__(self, events: AsyncIterator[bytes], held: contextlib.ExitStack) -> None:
        super().__init__(events, media_type="text/event-stream")
        self.held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        with self.held:
            await super().__call__(scope, receive, send)


def event(name: str, body: dict[str, object]) -> bytes:
    """Return one event with a JSON document, arrays included, as its data."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n\n"
