"""The limits of a request's body while it arrives: its size, its pieces, its rate, and the size of all bodies."""

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import Timeout, TooLarge
from service.http.exchange import Exchange, exchange_of
from service.settings import Settings

GRACE_SECONDS = 5.0
"""How long a body may be slower than the minimum rate."""
RESERVED_SHARE = 0.25
"""The share of the budget of all bodies that is divided among the connections."""


MOST_DIGITS = 20
"""Of a Content-Length, without leading zeros; a number of more digits is larger than every limit."""


def reserved_bytes(settings: Settings) -> int:
    """Return the bytes of each body that always fit, whatever the bodies on other connections hold."""
    return int(settings.queue_body_bytes * RESERVED_SHARE) // settings.max_connections


def shared_bytes(settings: Settings) -> int:
    """Return the bytes that all bodies may hold beyond what is reserved for each.

    With these and the reserved bytes of as many bodies as there may be connections, the budget is spent.
    """
    return settings.queue_body_bytes - reserved_bytes(settings) * settings.max_connections


class BodyBudget(Protocol):
    """A bound on the bytes of all bodies that are held, beyond what is reserved for each."""

    def take(self, cost: int) -> None:
        """Reserve bytes. Raises Busy if they do not fit beside what is held."""

    def give_back(self, cost: int) -> None:
        """Release bytes."""


class BodyLimits:
    """Refuses a body once it passes a limit. Plain ASGI: it reads and buffers nothing itself."""

    def __init__(self, app: ASGIApp, settings: Settings, budget: BodyBudget) -> None:
        self.app = app
        self.settings = settings
        self.budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = exchange_of(scope)
        body = LimitedBody(exchange, receive, self.settings, self.budget)
        exchange.release_body = body.give_back

        def send_on(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.body" and not message.get("more_body"):
                body.give_back()  # the whole answer is made; its client may take long to read it
            return send(message)

        try:
            await self.app(scope, body.receive, send_on)
        finally:
            body.give_back()


class LimitedBody:
    """One body. Its time runs from when it is made."""

    def __init__(self, exchange: Exchange, receive: Receive, settings: Settings, budget: BodyBudget) -> None:
        self._exchange, self._receive, self._settings, self._budget = exchange, receive, settings, budget
        self._start = asyncio.get_running_loop().time()
        self._reserved = reserved_bytes(settings)
        self._shared = 0
        """Bytes that are held of the budget."""

    def give_back(self) -> None:
        """Hold no bytes any longer."""
        self._budget.give_back(self._shared)
        self._shared = 0

    async def receive(self) -> Message:
        """Pass on what the client sends.

        Raises TooLarge once the body passes a limit, Busy once all bodies do, and Timeout when it takes too long.
        """
        exchange = self._exchange
        if exchange.body_read or exchange.body_arrived:  # there is nothing to wait for but the client's leaving
            message = await self._receive()
        else:
            message = await self._receive_in_time()
        if message["type"] == "http.request" and not exchange.body_read:
            self._count(message)
        return message

    async def _receive_in_time(self) -> Message:
        exchange, settings = self._exchange, self._settings
        try:
            async with asyncio.timeout_at(self._start + self._seconds()):
                return await self._receive()
        except TimeoutError as error:
            raise Timeout(
                f"body: at most {settings.body_seconds:g} seconds and at least {settings.body_bytes_a_second} "
                f"bytes a second, given up after {self._seconds():.1f} seconds and {exchange.bytes_received} bytes"
            ) from error

    def _count(self, message: Message) -> None:
        """Count a part of the body. Raises TooLarge and Busy."""
        exchange, settings = self._exchange, self._settings
        if body := message.get("body"):
            beyond = max(0, exchange.bytes_received + len(body) - self._reserved) - self._shared
            if beyond:
                self._budget.take(beyond)
                self._shared += beyond
            exchange.bytes_received += len(body)
        if exchange.bytes_received > settings.max_body_bytes:
            raise TooLarge(f"body: at most {settings.max_body_bytes} bytes, given more")
        if exchange.body_pieces > settings.max_body_pieces:
            raise TooLarge(f"body: at most {settings.max_body_pieces} pieces, given more")
        if not message.get("more_body"):
            exchange.body_read = True

    def _seconds(self) -> float:
        """Return how long the body may take until its next bytes arrive."""
        rate = self._settings.body_bytes_a_second
        return min(self._settings.body_seconds, GRACE_SECONDS + self._exchange.bytes_received / rate)


def check_announced(headers: Headers, limit: int) -> None:
    """Raise TooLarge if the Content-Length says more bytes than the limit, before any is read."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and (length := int(announced.lstrip("0")[:MOST_DIGITS] or "0")) > limit:
        raise TooLarge(f"body: at most {limit} bytes, given {length}")
