"""Nursery: `python -m service.inputs.sandbox.fork_server` forks the processes that images are decoded in, and ends them.

A decoder cannot open a file or a socket, write a file, start a process or take more memory than it is given, and an
alarm ends it, in the midst of C code too, when an image takes too long. So what a hostile image makes of libjpeg,
libwebp, zlib or Pillow ends with that image.

An order of the service has four bytes. 0, and the end of a socket beside it, has a decoder forked, and is answered with
its process's number, or -1. A process's number has it ended, and is answered with its status, as of `waitpid`.
"""

import gc
import io
import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image
from pydantic import BaseModel

from contract.manifest import ImageRule
from service.child_processes import SET_NO_NEW_PRIVILEGES, control, end_with
from service.errors import Refusal
from service.inputs.image_preprocessing import FORMATS, ORIENTATION, decode_image, open_image
from service.inputs.model_input import Picture

ORDER = struct.Struct("!i")
REQUEST = struct.Struct("!II")
"""Before each image: how many bytes `Asked` has, as JSON, and the encoded image behind it."""
HEADER = 1024
"""Bytes of what a decoder answers, JSON and spaces; the pixels of the picture follow, if there is one."""
OUT_OF_MEMORY = 3
"""Exit status of a decoder."""

NO_FILE = (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)


class Asked(BaseModel):
    """What is asked of an image: a picture by a rule, or where there is none the whole image upright."""

    rule: ImageRule | None
    max_pixels: int


def main() -> None:
    """Carry out orders until the service has gone: arguments are a socket, seconds an image, bytes of a decoder."""
    control = socket.socket(fileno=int(sys.argv[1]))
    seconds, most_bytes = float(sys.argv[2]), int(sys.argv[3])
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to all: the service still decodes for those it drains
        signal.signal(number, signal.SIG_IGN)
    end_with(os.getppid())
    _warm_up()
    gc.freeze()  # what decoders share is not written to
    decoders: set[int] = set()
    while True:
        order, sockets, *_ = socket.recv_fds(control, ORDER.size, 1)
        if not order:
            return
        (decoder,) = ORDER.unpack(order)
        answer = -1
        if sockets:
            with socket.socket(fileno=sockets[0]) as connection:
                answer = _fork(lambda: _decode(control, connection, seconds, most_bytes))
            decoders |= {answer} - {-1}
        elif decoder in decoders:
            decoders.remove(decoder)
            os.kill(decoder, signal.SIGKILL)  # of one that has ended, and is not waited for yet, this changes nothing
            answer = os.waitpid(decoder, 0)[1]
        control.sendall(ORDER.pack(answer))


def _fork(work: Callable[[], None]) -> int:
    """Return the number of a process that does this work, -1 where there can be none."""
    nursery = os.getpid()
    try:
        if number := os.fork():
            return number
    except OSError:
        return -1
    status = 1
    try:
        end_with(nursery)
        work()
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY
    finally:
        os._exit(status)


def _decode(control: socket.socket, connection: socket.socket, seconds: float, most_bytes: int) -> None:
    """Decode what comes until the connection closes."""
    control.close()
    _confine(most_bytes)
    requests = connection.makefile("rb")
    while prefix := requests.read(REQUEST.size):
        asked, data = map(requests.read, REQUEST.unpack(prefix))
        signal.setitimer(signal.ITIMER_REAL, seconds)  # its signal's own action is to end the process
        answer = _answer(Asked.model_validate_json(asked), data)
        signal.setitimer(signal.ITIMER_REAL, 0)
        connection.sendall(answer)


def _answer(asked: Asked, data: bytes) -> bytes:
    """Return what is sent for an image."""
    header: dict[str, object]
    try:
        if asked.rule:
            picture = decode_image(data, asked.rule, asked.max_pixels)
        else:
            image = open_image(data, asked.max_pixels)
            box = (0.0, 0.0, float(image.width), float(image.height))
            picture = Picture(np.asarray(image), box, image.width, image.height, image.info[ORIENTATION])
        header, pixels = {"width": picture.width, "height": picture.height}, picture.pixels.tobytes()
        header |= {"orientation": picture.orientation, "box": picture.box}
        header |= {"channels": picture.pixels.shape[2] if picture.pixels.ndim == 3 else 1}
    except Refusal as refusal:
        header, pixels = {"refused": type(refusal).__name__, "detail": refusal.detail}, b""
    return b"".join((json.dumps(header).encode().ljust(HEADER), pixels))


def _confine(most_bytes: int) -> None:
    """Leave a decoder its memory, its connection, and `most_bytes` more."""
    with Path(os.devnull).open("r+b") as nothing:  # what C libraries print is no line of the log
        for number in range(3):
            os.dup2(nothing.fileno(), number)
    if sys.platform == "linux":
        control(SET_NO_NEW_PRIVILEGES, 1)
        Path("/proc/self/oom_score_adj").write_text("1000")  # where memory ends, it goes before the service does
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _limit(resource.RLIMIT_AS, held + most_bytes)
    for kind in NO_FILE:
        _limit(kind, 0)


def _limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def _warm_up() -> None:
    """Have everything imported that decoding imports late: a decoder can open no module."""
    Image.init()
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    page = Image.new("RGBA", (40, 40), (255, 255, 255, 0))
    page.paste((0, 0, 0, 255), (15, 10, 25, 30))
    numbers = (0.5,)
    rules = [
        ImageRule(height=8, width=8, channels=1, locate="ink", ink_box=6, mean=numbers, std=numbers),
        ImageRule(height=8, width=8, channels=1, locate="middle", resize=9, mean=numbers, std=numbers),
    ]
    for kind in FORMATS:
        file = io.BytesIO()
        page.convert("RGB" if kind == "JPEG" else "RGBA").save(file, kind, exif=exif)
        for rule in (*rules, None):
            asked = Asked(rule=rule, max_pixels=page.width * page.height)
            for data in (file.getvalue(), file.getvalue()[:-20], b""):
                _answer(Asked.model_validate_json(asked.model_dump_json()), data)


if __name__ == "__main__":
    main()
