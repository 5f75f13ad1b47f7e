"""What tests of the client share: addresses of services, and a server that answers what a test tells it."""

import contextlib
import io
import json
import re
import socket
import ssl
import threading
from contextlib import contextmanager

import pytest
import regard
from PIL import Image
from regard.models import read_description

from tests.conftest import ROOT

SEVEN = ROOT / "tests/data/digits/seven.png"


@pytest.fixture(scope="session")
def address(client):
    """The address of a service of digits and dates, with the settings nobody changed."""
    return str(client.base_url).rstrip("/")


@pytest.fixture(scope="session")
def service(address):
    """The client's view of it."""
    with regard.connect(address) as service:
        yield service


@pytest.fixture(scope="session")
def digits(service):
    return service["digits"]


@pytest.fixture(scope="session")
def dates(service):
    return service["dates"]


def filed(image, kind="PNG", turned=None, **options):
    """Return the bytes of a picture's file; `turned` is the orientation that its EXIF says."""
    file, exif = io.BytesIO(), Image.Exif()
    if turned:
        exif[0x0112] = turned
    image.save(file, kind, exif=exif, **options)
    return file.getvalue()


@contextmanager
def told(*answers, tls=None):
    """Run a server that gives each connection the next answer, whole bytes, and the last one from then on.

    Of a tuple, it gives each request on a connection the next. It gives its address, and a list of what was sent to it.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    asked, ended = [], threading.Event()

    def run():
        left = list(answers)
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(ssl.SSLError), tls.wrap_socket(connection, True) if tls else connection as one:
                given = left.pop(0) if len(left) > 1 else left[0]
                for part in given if isinstance(given, tuple) else (given,):
                    asked.append(read(one))
                    one.sendall(part)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def read(connection):
    """Return a request, head and body."""
    found = b""
    while b"\r\n\r\n" not in found:
        if not (part := connection.recv(65536)):
            return found
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    sizes = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while sizes and len(body) < int(sizes[0]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def answer(status, content=b"{}", kind="application/json", **headers):
    """Return the bytes of an HTTP answer, after which the connection closes."""
    given = {"content-type": kind, "content-length": len(content), "connection": "close"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + content


def problem(status, detail="queue: is full", **headers):
    """Return a refusal as the service sends it."""
    content = f'{{"type": "about:blank", "title": "Refused", "status": {status}, "detail": "{detail}"}}'.encode()
    return answer(status, content, "application/problem+json", **headers)


def described(task="image-classification", methods=("raw", "rollout"), best=None, usual=None, **changed):
    """Return a made description of a model."""
    known = {
        "name": "m", "version": "1", "task": task, "about": "", "endpoints": ["classify", "attention"], "ready": True,
        "labels": ["a", "b"], "inputs": {"height": 8, "width": 8}, "limits": {"inputs": 4},
        "attention": {"methods": list(methods), "best": best, "usual": usual or {"method": "rollout"},
                      "kinds": {"encoder": {"layers": 2, "heads": 2}}},
    }  # fmt: skip
    return read_description(known | changed)


PATCHES = {"layers": 2, "heads": 1, "prefix": 0, "suffix": 0, "grid": {"rows": 2, "columns": 3}}
EXPLAINED = ("raw", "norm", "relevance", "libra", "integrated")
KINDS = {
    "encoder": {**PATCHES, "query": "image", "key": "image", "methods": ["raw", "rollout", "norm"]},
    "decoder": {**PATCHES, "query": "object", "key": "object", "grid": None, "methods": ["raw", "relevance"]},
    "cross": {**PATCHES, "query": "object", "key": "image", "methods": list(EXPLAINED)},
}
"""What a made DETR of four objects shows."""
ENCODER = {
    "encoder": {**PATCHES, "query": "image", "key": "image", "prefix": 1, "suffix": 4, "methods": ["raw", "libra"]}
}
"""What a made YOLOS of four objects shows: objects are tokens behind the patches."""


def detector(kinds=KINDS, **changed):
    """Return a made description of a detector of four objects, of which `libra` measured best."""
    best = {"method": "libra", "measure": "share, higher is better", "values": {"libra": 0.9, "raw": 0.5}}
    methods = list(dict.fromkeys(method for kind in kinds.values() for method in kind["methods"]))
    attention = {"methods": methods, "best": best, "usual": {"method": "libra"}, "kinds": kinds}
    known = {"attention": attention, "endpoints": ["detect", "attention"]}
    return described(task="object-detection", **{**known, "detection": {"objects": 4, "threshold": 0.5}, **changed})


def detected(number, label="cat", probability=0.9):
    """Return an object as the service answers it; its number says where it is."""
    box = {"left": number, "top": 1, "right": number + 2.5, "bottom": 6}
    return {"label": label, "index": 2, "probability": probability, "object": number, "box": box}


def looked(*maps, method="raw", prefix=0):
    """Return attention of a detector as the service answers it, of a picture of 12 x 8 pixels."""
    box = {"left": 0, "top": 0, "right": 12, "bottom": 8}
    image = {"width": 12, "height": 8, "orientation": 1, "box": box}
    objects = [detected(number, probability=1 - number / 4) for number in range(4)]
    tokens = {"object": objects, "grid": PATCHES["grid"], "prefix": prefix}
    return {"method": method, "maps": list(maps), "image": image, "tokens": tokens}


def mapped(values, kind="cross", **changed):
    """Return a map as the service answers it."""
    known = {"name": kind, "kind": kind, "layer": 1, "heads": "mean", "normalized": True}
    return {**known, "shape": list(values.shape), "values": values.tolist(), **changed}


def data_of(page):
    """Return what the page's script reads, by an HTML parser's rule: up to the first </script."""
    return json.loads(re.search(r'<script type="application/json" id="seen">(.*?)</script', page, re.DOTALL)[1])
