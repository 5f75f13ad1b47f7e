"""A fork server whose decoders do what an image tells them to, as one that an image has taken over might."""

import contextlib
import math
import os
import pickle
import signal
import socket
import time
from pathlib import Path

from service.inputs.sandbox import fork_server
from service.inputs.sandbox.messages import ANSWER_HEADER

honest, honest_decode = fork_server._answer, fork_server._decode
connection = -1
"""The descriptor of a decoder's connection."""
connected = None
"""The socket of that connection."""
FIELDS = {
    "refused": 0, "orientation": 1, "channels": 1, "width": 28, "height": 28, "left": 0.0, "top": 0.0, "right": 28.0,
    "bottom": 28.0, "detail": b"",
}  # fmt: skip
"""The fields of the header of an honest answer."""


def said(pixels=bytes(28 * 28), **changed):
    """Return an answer whose header has other fields."""
    return ANSWER_HEADER.pack(*(FIELDS | changed).values()) + pixels


def refused(detail, number=2):
    """Return an answer that refuses the image as Unacceptable."""
    return said(b"", refused=number, detail=detail.encode())


LIES = {
    "ones": b"\xff" * ANSWER_HEADER.size,
    "nothing": bytes(ANSWER_HEADER.size),
    "pickle": pickle.dumps(FIELDS).ljust(ANSWER_HEADER.size, b"."),
    "no width": said(width=0),
    "no height": said(height=0),
    "too many pixels": said(width=2**32 - 1, height=2**32 - 1),
    "other channels": said(channels=3),
    "channels that there are not": said(channels=2),
    "no orientation": said(orientation=0),
    "another orientation": said(orientation=9),
    "a box of nothing": said(left=28.0),
    "a box that is upside down": said(top=28.0, bottom=0.0),
    "a box without end": said(right=math.inf),
    "a box without beginning": said(left=-math.inf),
    "a box that is no number": said(top=math.nan),
    "another refusal": refused("image: must be another", 4),
    "the last number": refused("image: must be another", 255),
    "a refusal without words": refused(""),
    "words of many lines": refused("image:\nmust be another"),
    "words that are cut off": refused("image\0: must be another"),
    "other letters": refused("image: \x7f"),
    "a pixel more": said(bytes(28 * 28 + 1)),
    "a refusal and pixels": refused("image: must be another") + bytes(28 * 28),
    "two answers": said() + said(),
}
WHOLE_LIES = {"a pixel more", "two answers", "too many pixels", "no width"}
"""What can be said of a whole image too."""


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def hang():
    sum(range(10**15))  # in C, and the interpreter is not let go


def deafen():
    signal.setitimer(signal.ITIMER_PROF, 0)
    time.sleep(100)


def alarm():
    clock, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
    return refused(f"clock: {clock:g} s, processor: {'31 to 41' if 31 < left < 41 else left} s")


def half():
    start = time.process_time()
    while time.process_time() < start + 0.5:
        pass
    return refused("half of its time")


def wait():
    time.sleep(0.5)
    return said()


def fill():
    held = []
    while True:
        held.append(bytearray(1 << 20))


def reach():
    """Try whatever else there is to reach, and say what could be."""
    reached = []
    for name, attempt in {
        "a file": lambda: Path("/etc/hostname").read_bytes(),
        "a new file": lambda: Path("/tmp/reached").write_bytes(b"1"),
        "a pipe": os.pipe,
        "the environment": lambda: os.environ["REGARD_SECRET"],
    }.items():
        with contextlib.suppress(OSError, KeyError):
            attempt()
            reached.append(name)
    return refused("reached: " + ", ".join(reached))


def short():
    """Send an answer that lacks a pixel, and end."""
    os.write(connection, said()[:-1])
    os._exit(0)


def later():
    """Answer, and soon after that begin another answer, though there is no image."""
    signal.signal(signal.SIGALRM, lambda *_: os.write(connection, said()[:100]))
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    return said()


def early():
    """Answer, and answer the next image too, before it has been sent."""

    def answer_unread(*_):
        connected.recv(1, socket.MSG_PEEK)  # the next image begins to come
        os.write(connection, said())
        time.sleep(5)

    signal.signal(signal.SIGALRM, answer_unread)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    return said()


DEEDS = {
    name.encode(): deed
    for name, deed in {
        "crash": crash, "hang": hang, "deafen": deafen, "alarm": alarm, "half": half, "wait": wait, "fill": fill,
        "reach": reach, "short": short, "later": later, "early": early,
    }.items()
}  # fmt: skip


def answer(asked, data):
    if data in DEEDS:
        return DEEDS[data]()
    if data.startswith(b"lie "):
        return LIES[data[4:].decode()]
    return honest(asked, data)


def decode(control, given, *limits):
    global connection, connected
    connection, connected = given.fileno(), given
    honest_decode(control, given, *limits)


if __name__ == "__main__":
    fork_server._decode = decode
    fork_server._answer = answer
    fork_server.main()
