"""Sending calls over HTTP: errors as this package's own, and waiting where the service says that it is worth it."""

import os
import random
import ssl
import time
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from typing import Any, Generic, TypeVar

import anyio
import httpx

from regard.calls import Call, Reply, T, problem_of, service_version
from regard.connecting import BAD_URL, Connecting, check, verifying
from regard.errors import BadInput, Incompatible, NoService, RegardError, TimedOut, refused
from regard.plain import plain

AGAIN = (429, 503)
"""The statuses after which a request is sent again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0
"""Seconds before the second try and at most, where the service does not say how long; it doubles."""
JITTER = 0.25
"""A pause is longer by up to this share, so that clients which were refused together do not come back together."""
LEAST_PAUSE = 0.1
"""A pause is at least this share of one that nobody asked for: a proxy may say that it is worth asking at once."""
OF_PROXIES = (408, 413, 414, 429, 431)
"""The statuses below 500 with which a proxy answers by itself, in HTML."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Hosts that are never asked by way of the environment's proxy."""
MOST_CONNECTIONS = 100
"""So many are open at once; what is beyond waits for one."""
KEPT_CONNECTIONS = 20
"""So many stay open while nothing is asked."""
VERSION = version("regard-client")


class Attempts:
    """The tries of one request: says after a failure how long to wait for the next, or raises."""

    def __init__(self, address: str, patience: float) -> None:
        self._address, self._until = address, time.monotonic() + patience
        self._pause, self._broke, self._kept = FIRST_PAUSE, False, True

    def note(self, event: str) -> None:
        """Take note of what httpcore does (its extension `trace`): a connection that is made anew was not kept."""
        if event.startswith("connection.connect_tcp"):
            self._kept = False

    def after_refusal(self, reply: Reply) -> float:
        """Return the seconds until the next try. Raises the refusal if it is no use, or too late."""
        problem = problem_of(reply)
        asked = self._pause if problem.retry_after is None else max(problem.retry_after, self._pause * LEAST_PAUSE)
        pause = asked * (1 + random.random() * JITTER)  # noqa: S311
        self._pause, self._kept = min(self._pause * 2, LONGEST_PAUSE), True
        if reply.status not in AGAIN or time.monotonic() + pause > self._until:
            raise refused(problem)
        return pause

    def after_error(self, error: httpx.HTTPError | UnicodeError) -> float:
        """Return the seconds until the next try, once if a kept connection was closed. Raises otherwise.

        The error came before an answer began.
        """
        closed = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError)
        if closed and self._kept and not self._broke:
            self._broke = True
            return 0.0
        raise meant(error, self._address) from error


def meant(error: httpx.HTTPError | UnicodeError, address: str) -> RegardError:
    """Return this package's error for one of httpx, or for a host whose name cannot be looked up."""
    if isinstance(error, httpx.UnsupportedProtocol | UnicodeError):
        return BadInput(BAD_URL)
    if _is_of_tls(error):
        return NoService(
            f"{address}: TLS failed. Use http:// if the service has no TLS, or give connect(..., verify=...) the path "
            "of its authority's certificate."
        )
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
        return NoService(f"{address}: nothing answers there. Start a service (`regard serve`), or give another url.")
    if isinstance(error, httpx.TimeoutException):
        return TimedOut(f"{address}: no answer in time. Ask for less, or give connect(..., timeout=...) more seconds.")
    return NoService(f"{address}: the connection broke ({type(error).__name__}). Is it an address of a regard service?")


def _is_of_tls(error: BaseException | None) -> bool:
    """True if no connection was made because of TLS: plain HTTP answered, or a certificate cannot be verified.

    What lies beneath httpx' errors says so; what lies deeper still is the caller's.
    """
    if not isinstance(error, httpx.ConnectError):
        return False
    while error is not None and type(error).__module__.partition(".")[0] in ("httpx", "httpcore"):
        error = error.__cause__ or error.__context__
    return isinstance(error, ssl.SSLError)


def is_foreign(found: httpx.Response) -> bool:
    """True if an answer is none of a regard service's: a way to another address, a page, or a 404 without a problem.

    Pages of 5xx and of OF_PROXIES are not: a proxy answers so for a service that is there.
    """
    kind, status = found.headers.get("content-type", ""), found.status_code
    if status in (404, 405):
        return "problem+json" not in kind
    is_of_proxy = status in OF_PROXIES or status >= 500
    return 300 <= status < 400 or (kind.startswith("text/html") and not is_of_proxy)


def foreign(address: str, found: httpx.Response) -> NoService:
    """Return the error for an address where something else answers."""
    if 300 <= found.status_code < 400:
        return NoService(f"{address}: sends on to another address. Give that one; it may begin with https://.")
    return NoService(f"{address}: what answers there is no regard service. Give the address that `regard serve` shows.")


def incompatible(found: str | None) -> Incompatible:
    """Return the error for an answer that cannot be read, with the version that the service says it has."""
    service = f"the service is version {found}" if found else "the service does not say its version"
    return Incompatible(f"answer: cannot be read: {service}, this client {VERSION}. Use the same version of both.")


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
        self.patience = options.get("patience", 30.0)
        headers = {"User-Agent": f"regard-client/{VERSION}"} | ({"Authorization": f"Bearer {key}"} if key else {})
        timeout = httpx.Timeout(options.get("timeout", 60.0), connect=10.0)
        limits = httpx.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=KEPT_CONNECTIONS)
        self._given: dict[str, Any] = {"headers": headers, "timeout": timeout, "limits": limits}
        self._given["verify"] = verifying(options)
        self._given["mounts"] = {f"all://{host}": None for host in LOOPBACK}
        self._http = self._opened()
        self._process = os.getpid()

    @property
    def http(self) -> C:
        """What sends. After a fork it is another: processes that share a connection would get one another's answers."""
        if self._process != os.getpid() and not self._http.is_closed:
            self._http = self._opened()
        self._process = os.getpid()
        return self._http

    def _opened(self) -> C:
        self._streams = set()
        try:
            return self.client(**self._given)
        except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
            words = (
                "environment: its proxies (HTTP_PROXY, ALL_PROXY, ...) and certificates (SSL_CERT_FILE) must be such"
            )
            raise BadInput(f"{words} as httpx can use, given others: {error}") from error

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

    def request(self, call: Call[Any], trace: object = None) -> httpx.Request:
        """Return the request of a call. Raises BadInput for what cannot be sent, or after `close`."""
        if self.http.is_closed:
            raise BadInput("service: was closed; regard.connect(...) opens it again")
        body = plain(call.body)
        query = dict(call.query)
        try:
            return self.http.build_request(
                call.method,
                self.address + call.path,
                params=query,
                json=body,
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
        self._closing = weakref.finalize(self, found.close)  # nobody closes what a notebook forgot
        return found

    def send(self, call: Call[T]) -> T:
        """Return the answer to a call. Raises RegardError."""
        with self._answer(call) as found:
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
    def lines(self, call: Call[Any]) -> Iterator[Iterator[str]]:
        """Yield the lines of a stream. Raises RegardError for one that does not begin."""
        with self._answer(call) as found, self._held(found):
            splitter = Splitter()
            yield (line for text in found.iter_text() for line in splitter.take(text))

    @contextmanager
    def _answer(self, call: Call[Any]) -> Iterator[httpx.Response]:
        """Yield an answer that has begun and is no refusal, after as many tries as are worth it. Raises RegardError."""
        attempts = Attempts(self.address, self.patience)
        while True:
            request = self.request(call, lambda event, _: attempts.note(event))
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
            raise meant(error, self.address) from error
        return reply_of(found)


class AsyncTransport(_Base[httpx.AsyncClient]):
    """The same for asyncio and trio."""

    client = httpx.AsyncClient

    async def send(self, call: Call[T]) -> T:
        """Return the answer to a call. Raises RegardError."""
        async with self._answer(call) as found:
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
    async def lines(self, call: Call[Any]) -> AsyncIterator[AsyncIterator[str]]:
        """Yield the lines of a stream. Raises RegardError for one that does not begin."""
        async with self._answer(call) as found:
            with self._held(found):
                splitter = Splitter()
                yield (line async for text in found.aiter_text() for line in splitter.take(text))

    @asynccontextmanager
    async def _answer(self, call: Call[Any]) -> AsyncIterator[httpx.Response]:
        """Yield an answer that has begun and is no refusal, after as many tries as are worth it. Raises RegardError."""
        attempts = Attempts(self.address, self.patience)

        async def trace(event: str, _: object) -> None:
            attempts.note(event)

        while True:
            request = self.request(call, trace)
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
            raise meant(error, self.address) from error
        return reply_of(found)


def reply_of(found: httpx.Response) -> Reply:
    """Return an answer of httpx, whose headers have names in lower case."""
    headers: Mapping[str, str] = {name.lower(): value for name, value in found.headers.items()}
    return Reply(found.status_code, found.content, headers)
