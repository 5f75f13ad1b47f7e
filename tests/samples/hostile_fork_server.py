"""A fork server whose decoders do what an image tells them to, as one that an image has taken over might."""

import contextlib
import json
import os
import pickle
import signal
import time
from pathlib import Path

from service.inputs.sandbox import fork_server

honest = fork_server._answer
HEADER = {"width": 28, "height": 28, "orientation": 1, "box": [0.0, 0.0, 28.0, 28.0], "channels": 1}
REFUSED = {"refused": "Unacceptable", "detail": "image: must be another"}


def said(header, pixels=bytes(28 * 28)):
    return json.dumps(header).encode().ljust(fork_server.ANSWER_HEADER_BYTES) + pixels


LIES = {
    "nothing": bytes(fork_server.ANSWER_HEADER_BYTES),
    "pickle": pickle.dumps(HEADER).ljust(fork_server.ANSWER_HEADER_BYTES),
    "another field": said(HEADER | {"more": 1}),
    "a field too few": said({name: HEADER[name] for name in ("width", "height", "box")}),
    "text for a number": said(HEADER | {"width": "28"}),
    "no width": said(HEADER | {"width": 0}),
    "too many pixels": said(HEADER | {"width": 2**40, "height": 2**40}),
    "other channels": said(HEADER | {"channels": 3}),
    "another orientation": said(HEADER | {"orientation": 9}),
    "a box of nothing": said(HEADER | {"box": [5.0, 0.0, 5.0, 28.0]}),
    "a box without end": said(HEADER).replace(b"28.0]", b"1e999"),
    "a box that is no number": said(HEADER | {"box": [0.0, 0.0, float("nan"), 28.0]}),
    "another refusal": said(REFUSED | {"refused": "SystemExit"}, b""),
    "words of many lines": said(REFUSED | {"detail": "image:\nmust be another"}, b""),
    "more words": said(REFUSED | {"detail": "a" * 301}, b""),
}


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def hang():
    sum(range(10**15))  # in C, and the interpreter is not let go


def deafen():
    signal.setitimer(signal.ITIMER_PROF, 0)
    time.sleep(100)


def refused(detail):
    return said(REFUSED | {"detail": detail}, b"")


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
    return said(HEADER)


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


DEEDS = {
    name.encode(): deed
    for name, deed in {
        "crash": crash, "hang": hang, "deafen": deafen, "alarm": alarm, "half": half, "wait": wait, "fill": fill,
        "reach": reach,
    }.items()
}  # fmt: skip


def answer(asked, data):
    if data in DEEDS:
        return DEEDS[data]()
    if data.startswith(b"lie "):
        return LIES[data[4:].decode()]
    return honest(asked, data)


if __name__ == "__main__":
    fork_server._answer = answer
    fork_server.main()
