"""TODO: what service/http/server_sent_events.py is."""

import contextlib
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.api import responses as present


class Stream(StreamingResponse):
    """Server-sent events, and what is held until the last of them is sent or the client has gone."""

    def __init__(self, events: AsyncIterator[bytes], held: contextlib.ExitStack) -> None:
        super().__init__(events, media_type="text/event-stream")
        self.held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        with self.held:
            await super().__call__(scope, receive, send)


def _event(name: str, body: dict[str, object]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + present.dump(body) + b"\n\n"
