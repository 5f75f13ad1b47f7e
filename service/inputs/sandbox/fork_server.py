"""The fork server: it forks the decoder processes, which decode images and sounds, and kills them.

It runs as `python -m service.inputs.sandbox.fork_server`, and imports numpy, Pillow, pydantic and what they need. A
decoder process cannot open, write, remove or rename a file, open a socket, start, signal or read another process, or
take more memory than it is given. An alarm ends it once an image has taken too much processor time, in the middle of C
code too. So whatever a hostile file does to libjpeg, libtiff, dav1d, libsndfile, zlib or Pillow ends with that process.

The protocol: every command is one 32-bit integer. 0, sent with a socket, forks a decoder and is answered with its pid,
or -1 on failure. Any other number is the pid of a decoder to kill, and is answered with its wait status (`waitpid`).
"""

import contextlib
import gc
import io
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from PIL import ExifTags, Image

from contract.input_rules import ImageRule, SoundRule
from service.child_processes import (
    SET_DUMPABLE,
    SET_NO_NEW_PRIVILEGES,
    end_with_parent,
    forbid_inspection,
    prctl,
)
from service.errors import Refusal
from service.inputs.decoding import Request, decode
from service.inputs.image_kinds import FORMATS
from service.inputs.sandbox import seccomp
from service.inputs.sandbox.messages import (
    REQUEST_HEADER,
    decoded_answer,
    read_rule,
    refusal_answer,
    rule_json,
)
from service.inputs.sound_decoding import sounds_to_try

COMMAND = struct.Struct("!i")
"""A command to the fork server, and its answer."""
OUT_OF_MEMORY_STATUS = 3
"""Exit status of a decoder that ran out of memory."""
READ_BYTES = 256 << 10
"""A file of at most this number of bytes is read at once."""

DENIED_RESOURCES = (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)


def main() -> None:
    """Carry out commands until the service closes its socket.

    The arguments are the file descriptor of the socket, the seconds of a processor for each image, and the bytes of a
    decoder.
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    seconds = float(sys.argv[2])
    most_bytes = int(sys.argv[3])
    # these signals may be sent to all processes of the service, which still decodes images while it drains
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    end_with_parent(os.getppid())
    forbid_inspection()
    _warm_up()
    gc.freeze()  # keeps the collector from writing to pages that decoders share
    with contextlib.suppress(ConnectionError):  # the service has ended without reading the last answer
        _carry_out(control, lambda connection: _decode(control, connection, seconds, most_bytes))


def _carry_out(control: socket.socket, decode: Callable[[socket.socket], None]) -> None:
    """Answer commands until the control socket closes."""
    decoders: set[int] = set()
    while True:
        command, received, *_ = socket.recv_fds(control, COMMAND.size, 1)
        if not command:
            return
        (decoder,) = COMMAND.unpack(command)
        answer = -1
        if received:
            with socket.socket(fileno=received[0]) as connection:
                answer = _fork(lambda: decode(connection))
            decoders |= {answer} - {-1}
        elif decoder in decoders:
            decoders.remove(decoder)
            os.kill(decoder, signal.SIGKILL)  # no effect if it has ended: it is a zombie until waitpid
            answer = os.waitpid(decoder, 0)[1]
        control.sendall(COMMAND.pack(answer))


def _fork(work: Callable[[], None]) -> int:
    """Run `work` in a new process; return its pid, or -1 if it cannot be forked."""
    fork_server = os.getpid()
    try:
        if pid := os.fork():
            return pid
    except OSError:
        return -1
    status = 1
    try:
        end_with_parent(fork_server)
        work()
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY_STATUS
    finally:
        os._exit(status)


def _decode(control: socket.socket, connection: socket.socket, seconds: float, most_bytes: int) -> None:
    """Decode files until the connection closes."""
    control.close()
    _confine(most_bytes)
    requests = connection.makefile("rb", READ_BYTES)
    while header := requests.read(REQUEST_HEADER.size):
        rule_bytes, file_bytes, most, announced = REQUEST_HEADER.unpack(header)
        request = Request(read_rule(requests.read(rule_bytes)), most, announced)
        data = requests.read(file_bytes)
        # processor time, so that a busy machine makes no image hostile; the default action of SIGPROF ends the process
        signal.setitimer(signal.ITIMER_PROF, seconds)
        answer = _answer(request, data)
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.sendall(answer)


def _answer(request: Request, data: bytes) -> bytes:
    """Return the answer for a file."""
    try:
        return decoded_answer(decode(data, request))
    except Refusal as refusal:
        return refusal_answer(refusal)


def _confine(most_bytes: int) -> None:
    """Take all rights from this decoder but its connection, its memory, and `most_bytes` more memory."""
    with Path(os.devnull).open("r+b") as null:  # C libraries print here; the log must not hold it
        for number in range(3):
            os.dup2(null.fileno(), number)
    if sys.platform == "linux":
        prctl(SET_DUMPABLE, 1)  # until the score is written: files in /proc of a process that is not belong to root
        Path("/proc/self/oom_score_adj").write_text("1000")  # the kernel kills this process before the service
        forbid_inspection()
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _set_limit(resource.RLIMIT_AS, in_use + most_bytes)
        with contextlib.suppress(OSError):  # where a container does not allow it
            # a decoder that is sent an image does not take the core of the event loop that sends it (sched(7))
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        prctl(SET_NO_NEW_PRIVILEGES, 1)
    for kind in DENIED_RESOURCES:
        _set_limit(kind, 0)
    if seccomp.why_unavailable() is None:  # else the service has logged why
        seccomp.confine()


def _set_limit(kind: int, limit: int) -> None:
    hard = resource.getrlimit(kind)[1]
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(kind, (limit, limit))


def _warm_up() -> None:
    """Decode some images, so that everything that decoding imports late is imported: a decoder cannot open a module."""
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
        if kind == "AVIF":  # which imports nothing late; its encoder is large
            continue
        file = io.BytesIO()
        page.convert("RGB" if kind == "JPEG" else "RGBA").save(file, kind, exif=exif)
        for rule in (*rules, None):
            pixels = page.width * page.height
            for data in (file.getvalue(), file.getvalue()[:-20], b""):
                _answer(Request(read_rule(rule_json(rule)), pixels, pixels), data)
    sound = SoundRule(rate=16_000, samples=16_000, hop=160, frames=50)
    for data in sounds_to_try():
        _answer(Request(read_rule(rule_json(sound)), sound.samples, sound.samples), data)


if __name__ == "__main__":
    main()
