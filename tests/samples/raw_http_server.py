"""The service's protocol and outermost layers around an application of a few lines, run by a server in a thread."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from typing import ClassVar

import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from service.batching.admission import Bodies
from service.errors import Refusal
from service.http import bounded_protocol
from service.http.api_keys import Keys
from service.http.body_limits import BodyLimits, shared_bytes
from service.http.gate import Gate
from service.http.head_requests import HeadRequests
from service.http.problems import refused
from service.http.request_log import RequestLog
from service.http.unread_answers import SlicedAnswers, UnreadAnswers
from service.settings import Settings
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import SILENT

GET = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = GET.replace(b"Host", b"Connection: close\r\nHost")
POST = b"POST /x HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
BIG = 16 << 20
SOME = 40_000  # below the mark at which writing is paused
SHORT = {"header_seconds": 0.4, "keep_alive_seconds": 0.8, "body_seconds": 0.6, "write_seconds": 0.4}


async def pieces():
    for _ in range(BIG >> 16):
        yield bytes(1 << 16)


async def broken_pieces():
    yield bytes(1 << 16)
    raise ValueError("it fails in the middle")


async def application(scope, receive, send):
    """Answer with the body's length; `/big`, `/pieces` and `/some` with many bytes.

    `/slow` takes a second, and `/later` a moment.
    """
    if scope["path"] == "/slow":
        await asyncio.sleep(1)
    try:
        length = len(await Request(scope, receive).body()) if scope["path"] != "/unread" else 0
        if scope["path"] == "/later":
            await asyncio.sleep(0.001)
        answer = Response({"/big": bytes(BIG), "/some": bytes(SOME)}.get(scope["path"], str(length)))
        if scope["path"] == "/pieces":
            answer = StreamingResponse(pieces())
        if scope["path"] == "/fails":
            answer = StreamingResponse(broken_pieces())
    except Refusal as refusal:
        answer = refused(refusal, scope)
    except ClientDisconnect:
        Running.left.add(scope["path"])
        raise
    await answer(scope, receive, send)


class Running:
    """A server that runs, and what its loop complained of."""

    left: ClassVar[set[str]] = set()
    """Paths whose client was gone."""

    def __init__(self, kernel_bytes, **settings):
        self.settings = Settings(**{**SHORT, **settings})
        self.complaints = []
        self.listening = socket.create_server(("127.0.0.1", 0))
        if kernel_bytes:
            self.listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, kernel_bytes)  # as every connection will
        self.address = self.listening.getsockname()
        self.protocol = bounded_protocol.bounded_protocol(self.settings, Metrics())
        self.server = uvicorn.Server(
            uvicorn.Config(
                self.layered, loop="uvloop", http=self.protocol, lifespan="off", interface="asgi3", log_config=None
            )
        )
        limited = BodyLimits(application, self.settings, Bodies(shared_bytes(self.settings)))
        gate = Gate(limited, self.settings, Keys(self.settings))
        self.unread = UnreadAnswers(self.settings.unread_bytes, self.protocol.metrics.answers_gave_way)
        sliced = SlicedAnswers(HeadRequests(gate), self.unread)
        self.application = RequestLog(sliced, self.protocol.metrics, SILENT, lambda: False)
        self.thread = threading.Thread(target=self.server.run, args=([self.listening],))

    async def layered(self, scope, receive, send):
        handler = lambda loop, context: self.complaints.append(context)  # noqa: E731
        asyncio.get_running_loop().set_exception_handler(handler)
        await self.application(scope, receive, send)

    def connect(self, buffer=None):
        client = socket.socket()
        client.settimeout(10)
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.connect(self.address)
        return client

    def until_closed(self, sent=b"", after=b"", pause=0.0):
        """Send, and return all that comes until the server closes, with the seconds that it took."""
        start = time.monotonic()
        with self.connect() as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(sent)
                time.sleep(pause)
                client.sendall(after)
            return read_all(client), time.monotonic() - start

    @property
    def open(self):
        return len(self.protocol.open.open)

    def stop(self):
        self.server.should_exit = True
        self.thread.join(10)

    def wait_until_closed(self, count=0):
        self.wait_for(lambda: self.open <= count)

    def wait_for(self, condition, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{self.open} connections are left"
            time.sleep(0.01)


def read_all(client):
    found = b""
    with contextlib.suppress(ConnectionError):
        while more := client.recv(1 << 16):
            found += more
    return found


def ask(client, sent):
    """Send over a connection that is kept, and return the beginning of the answer, which is a good one."""
    client.sendall(sent)
    answer = client.recv(4096)
    assert answer.startswith(b"HTTP/1.1 200 ")
    return answer


@contextlib.contextmanager
def running(kernel_bytes=0, **settings):
    server = Running(kernel_bytes, **settings)
    server.thread.start()
    try:
        assert server.until_closed(LAST)[0].endswith(b"0")  # answers, and its loop tells us what it complains of
        yield server
        if server.thread.is_alive():
            assert server.until_closed(LAST)[0].endswith(b"0")
        server.wait_until_closed()
        assert not server.complaints
    finally:
        server.stop()
        server.listening.close()


def problem(answer):
    """Return a problem's status and detail, having looked at the rest."""
    head, _, body = answer.partition(b"\r\n\r\n")
    headers = head.lower()
    document = json.loads(body)
    assert head.startswith(f"HTTP/1.1 {document['status']} {document['title']}\r\n".encode())
    assert b"\r\ncontent-type: application/problem+json\r\n" in headers + b"\r\n"
    assert b"\r\nx-request-id: " in headers
    assert f"\r\ncontent-length: {len(body)}".encode() in headers
    return document["status"], document["detail"]
