"""Sending calls over HTTP: errors as this package's own, and waiting where the service says that it is worth it."""

import os
import random
import time
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar

import anyio
import httpx

from regard.calls import Call, Reply, T, problem_of, service_version
from regard.connecting import AS_CONNECTED, Connecting, Sending, check, verifying
from regard.errors import BadInput, TimedOut, refused
from regard.failures import VERSION, foreign, incompatible, is_foreign, is_of_tls, meant
from regard.plain import plain

AGAIN = (408, 429, 503)
"""The statuses after which a request is sent again: what came too late, or too early."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0
"""Seconds before the second try and at most, where the service does not say how long; it doubles."""
JITTER = 0.25
"""A pause is longer by up to this share, so that clients which were refused together do not come back together."""
LEAST_PAUSE = 0.1
"""A pause is at least this share of one that nobody asked for: a proxy may say that it is worth asking at once."""
TIMEOUT, CONNECT, PATIENCE, RETRIES = 60.0, 10.0, 30.0, 2
"""What `connect` takes if nothing is given: seconds without a byte, for a connection, and of refusals; and retries."""
PROXIES = "environment: its proxies (HTTP_PROXY, ALL_PROXY, ...) and certificates (SSL_CERT_FILE)"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Hosts that are never asked by way of the environment's proxy."""
MOST_CONNECTIONS = 100
"""So many are open at once; what is beyond waits for one."""
KEPT_CONNECTIONS = 20
"""So many stay open while nothing is asked."""


class Attempts:
    """The tries of one request: says after a failure how long to wait for the next, or raises."""

    def __init__(self, address: str, call: Call[Any], patience: float, retries: int) -> None:
        self._address, self._call, self._until, self._retries = address, call, time.monotonic() + patience, retries
        self._pause, self._broke, self._kept = FIRST_PAUSE, False, True

    def note(self, event: str) -> None:
        """Take note of what httpcore does (its extension `trace`): a connection that is made anew was not kept."""
        if event.startswith("connection.connect_tcp"):
            self._kept = False

    def after_refusal(self, reply: Reply) -> float:
        """Return the seconds until the next try. Raises the refusal if it is no use, or too late."""
        problem = problem_of(reply, self._call)
        asked = self._pause if problem.retry_after is None else max(problem.retry_after, self._pause * LEAST_PAUSE)
        pause, self._kept = asked * self._lengthened(), True
        if reply.status not in AGAIN or time.monotonic() + pause > self._until:
            raise refused(problem)
        return pause

    def after_error(self, error: httpx.HTTPError | UnicodeError) -> float:
        """Return the seconds until the next try: none if a kept connection was closed. Raises if there is no next.

        The error came before an answer began.
        """
        closed = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError)
        if closed and self._kept and not self._broke:
            self._broke = True
            return 0.0
        unreached = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) and not is_of_tls(error)
        if not (closed or unreached) or self._retries <= 0:
            raise meant(error, self._address) from None
        self._retries -= 1
        return self._pause * self._lengthened()

    def _lengthened(self) -> float:
        """Return how much longer a pause is than was asked for, and double the next one."""
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return 1 + random.random() * JITTER  # noqa: S311


class Splitter:
    """Splits a stream of text into lines, at line feeds alone: `str.splitlines` splits inside of JSON too."""

    def __init__(self) -> None:
        self._rest = ""

    def take(self, text: str) -> list[str]:
        """Return the lines that a piece of the stream completes."""
        *lines, self._rest = (self._rest + text).split("\n")
        return [line.removesuffix("\r") for line in lines]


UNREADABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError)


C = TypeVar("C", httpx.Client, httpx.AsyncClient)


class _Base(Generic[C]):
    client: type[C]
    _http: C
    _streams: set[httpx.Response]
    """The streams that are open: each holds a connection until it ends."""

    def __init__(self, url: str, key: str | None, options: Connecting) -> None:
        check(url, key, options)
        self.address = url.rstrip("/")
        known = {name: options.get(name) for name in ("timeout", "patience", "retries", "headers")}
        self._sending = AS_CONNECTED.changed(**known)  # type: ignore[arg-type] # as they were checked
        self._headers = {"User-Agent": f"regard-client/{VERSION}"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._own: C | None = self._checked(options.get("http"))
        self._given: dict[str, Any] = {
            "limits": httpx.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=KEPT_CONNECTIONS),
            "verify": verifying(options.get("verify")),
            "proxy": options.get("proxy"),
            "mounts": {} if options.get("proxy") else {f"all://{host}": None for host in LOOPBACK},
        }
        self._http = self._opened()
        self._process = os.getpid()

    def _checked(self, given: httpx.Client | httpx.AsyncClient | None) -> C | None:
        """Return a client of httpx that somebody made. Raises BadInput for one of the other kind."""
        if given is None or isinstance(given, self.client):
            return given
        raise BadInput(f"http: must be an httpx.{self.client.__name__}, given {type(given).__name__}")

    @property
    def http(self) -> C:
        """What sends. After a fork it is another: processes that share a connection would get one another's answers."""
        if not self._own and self._process != os.getpid() and not self._http.is_closed:
            self._http = self._opened()
        self._process = os.getpid()
        return self._http

    def _opened(self) -> C:
        self._streams = set()
        try:
            return self._own or self.client(**self._given)
        except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
            subject = "proxy:" if self._given["proxy"] else PROXIES
            raise BadInput(f"{subject} must be such as httpx can use, given others: {error}") from error

    def _check_streams(self, error: httpx.PoolTimeout) -> None:
        """Raise TimedOut if streams hold every connection: none may ever come free. Other requests end."""
        if len(self._streams) >= MOST_CONNECTIONS:
            raise TimedOut(
                f"{self.address}: too many streams are open: at most {MOST_CONNECTIONS} at once. Read them to the end, "
                "or close them."
            ) from error

    @contextmanager
    def _held(self, stream: httpx.Response) -> Iterator[None]:
        """Count a stream among those that are open."""
        streams = self._streams
        streams.add(stream)
        try:
            yield
        finally:
            streams.discard(stream)

    def attempts(self, call: Call[Any], sending: Sending) -> Attempts:
        """Return the tries of a call."""
        patience, retries = (
            next(value for value in (getattr(sending, name), getattr(self._sending, name), usual) if value is not None)
            for name, usual in (("patience", PATIENCE), ("retries", RETRIES))
        )
        return Attempts(self.address, call, patience, int(retries))

    def request(self, call: Call[Any], trace: object = None, sending: Sending = AS_CONNECTED) -> httpx.Request:
        """Return the request of a call. Raises BadInput for what cannot be sent, or after `close`."""
        if self.http.is_closed:
            raise BadInput("service: was closed; regard.connect(...) opens it again")
        body = plain(call.body)
        query = dict(call.query)
        seconds = sending.timeout or self._sending.timeout or (None if self._own else TIMEOUT)
        try:
            return self.http.build_request(
                call.method,
                self.address + call.path,
                params=query,
                json=body,
                headers={**self._headers, **self._sending.headers, **sending.headers},
                timeout=httpx.USE_CLIENT_DEFAULT if seconds is None else httpx.Timeout(seconds, connect=CONNECT),
                extensions={"trace": trace} if trace else None,
            )
        except (TypeError, ValueError, httpx.InvalidURL) as error:
            raise BadInput(f"options: must be what JSON can hold, and no longer than a request: {error}") from error


class Transport(_Base[httpx.Client]):
    """Sends calls, and waits for their answers."""

    client = httpx.Client

    _closing: "weakref.finalize[[], Transport] | None" = None

    def _opened(self) -> httpx.Client:
        if self._closing:  # of the process before the fork, some thread of which may have held its lock for ever
            self._closing.detach()
        found = super()._opened()
        if not self._own:
            self._closing = weakref.finalize(self, found.close)  # nobody closes what a notebook forgot
        return found

    def close(self) -> None:
        """Close the connections that were opened here."""
        if not self._own:
            self.http.close()

    def send(self, call: Call[T], sending: Sending = AS_CONNECTED) -> T:
        """Return the answer to a call. Raises RegardError."""
        with self._answer(call, sending) as found:
            return self._read(call, self._whole(found))

    def _read(self, call: Call[T], reply: Reply) -> T:
        try:
            return call.read(reply)
        except UNREADABLE as error:
            raise incompatible(self._version()) from error

    def _version(self) -> str | None:
        try:
            call = service_version()
            return call.read(reply_of(self.http.send(self.request(call))))
        except (httpx.HTTPError, *UNREADABLE):
            return None

    @contextmanager
    def lines(self, call: Call[Any], sending: Sending = AS_CONNECTED) -> Iterator[Iterator[str]]:
        """Yield the lines of a stream. Raises RegardError for one that does not begin."""
        with self._answer(call, sending) as found, self._held(found):
            splitter = Splitter()
            yield (line for text in found.iter_text() for line in splitter.take(text))

    @contextmanager
    def _answer(self, call: Call[Any], sending: Sending) -> Iterator[httpx.Response]:
        """Yield an answer that has begun and is no refusal, after as many tries as are worth it. Raises RegardError."""
        attempts = self.attempts(call, sending)
        while True:
            request = self.request(call, lambda event, _: attempts.note(event), sending)
            try:
                found = self.http.send(request, stream=True)
            except httpx.PoolTimeout as error:
                self._check_streams(error)
                continue
            except (httpx.HTTPError, UnicodeError) as error:
                time.sleep(attempts.after_error(error))
                continue
            try:
                if is_foreign(found):
                    raise foreign(self.address, found)
                if found.is_success:
                    yield found
                    return
                reply = self._whole(found)
            finally:
                found.close()
            time.sleep(attempts.after_refusal(reply))

    def _whole(self, found: httpx.Response) -> Reply:
        try:
            found.read()
        except httpx.HTTPError as error:
            raise meant(error, self.address) from None
        return reply_of(found)


class AsyncTransport(_Base[httpx.AsyncClient]):
    """The same for asyncio and trio."""

    client = httpx.AsyncClient

    async def close(self) -> None:
        """Close the connections that were opened here."""
        if not self._own:
            await self.http.aclose()

    async def send(self, call: Call[T], sending: Sending = AS_CONNECTED) -> T:
        """Return the answer to a call. Raises RegardError."""
        async with self._answer(call, sending) as found:
            return await self._read(call, await self._whole(found))

    async def _read(self, call: Call[T], reply: Reply) -> T:
        try:
            return call.read(reply)
        except UNREADABLE as error:
            raise incompatible(await self._version()) from error

    async def _version(self) -> str | None:
        try:
            call = service_version()
            return call.read(reply_of(await self.http.send(self.request(call))))
        except (httpx.HTTPError, *UNREADABLE):
            return None

    @asynccontextmanager
    async def lines(self, call: Call[Any], sending: Sending = AS_CONNECTED) -> AsyncIterator[AsyncIterator[str]]:
        """Yield the lines of a stream. Raises RegardError for one that does not begin."""
        async with self._answer(call, sending) as found:
            with self._held(found):
                splitter = Splitter()
                yield (line async for text in found.aiter_text() for line in splitter.take(text))

    @asynccontextmanager
    async def _answer(self, call: Call[Any], sending: Sending) -> AsyncIterator[httpx.Response]:
        """Yield an answer that has begun and is no refusal, after as many tries as are worth it. Raises RegardError."""
        attempts = self.attempts(call, sending)

        async def trace(event: str, _: object) -> None:
            attempts.note(event)

        while True:
            request = self.request(call, trace, sending)
            try:
                found = await self.http.send(request, stream=True)
            except httpx.PoolTimeout as error:
                self._check_streams(error)
                continue
            except (httpx.HTTPError, UnicodeError) as error:
                await anyio.sleep(attempts.after_error(error))
                continue
            try:
                if is_foreign(found):
                    raise foreign(self.address, found)
                if found.is_success:
                    yield found
                    return
                reply = await self._whole(found)
            finally:
                await found.aclose()
            await anyio.sleep(attempts.after_refusal(reply))

    async def _whole(self, found: httpx.Response) -> Reply:
        try:
            await found.aread()
        except httpx.HTTPError as error:
            raise meant(error, self.address) from None
        return reply_of(found)


def reply_of(found: httpx.Response) -> Reply:
    """Return an answer of httpx, whose headers have names in lower case."""
    headers: Mapping[str, str] = {name.lower(): value for name, value in found.headers.items()}
    return Reply(found.status_code, found.content, headers)
