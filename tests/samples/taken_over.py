"""What a decoder that a hostile image has taken over would try, in a free process and in a confined one.

`python -m tests.samples.taken_over FOLDER` prints, as JSON, how each deed ended in both: "done", the name of an error,
or the name of the signal that ended the process.
"""

import contextlib
import ctypes
import errno
import json
import mmap
import os
import resource
import signal
import socket
import sys
import threading
from pathlib import Path

from service.child_processes import SET_DUMPABLE, prctl
from service.inputs.sandbox import fork_server

SET_PTRACER, ANY = 0x59616D61, 2**64 - 1  # options of prctl: Yama else keeps a process from reading its parent
PTRACE_SEIZE = 0x4206
PIDFD_OPEN, PIDFD_SEND_SIGNAL = 434, 424
LIBRARY = ctypes.CDLL(None, use_errno=True)
SECRET = ctypes.create_string_buffer(b"what another client sent")
FOLDER = Path(sys.argv[1])
PARENT = os.getpid()


def called(name, *arguments):
    """Return what a function of the C library returns. Raises OSError."""
    result = getattr(LIBRARY, name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def read_parent():
    copy = ctypes.create_string_buffer(len(SECRET))
    here, there = ((ctypes.c_size_t * 2)(ctypes.addressof(one), len(SECRET)) for one in (copy, SECRET))
    assert called("process_vm_readv", PARENT, here, 1, there, 1, 0) == len(SECRET)
    assert copy.raw == SECRET.raw


def read_parent_by_file():
    with Path(f"/proc/{PARENT}/mem").open("rb", buffering=0) as memory:
        memory.seek(ctypes.addressof(SECRET))
        assert memory.read(len(SECRET)) == SECRET.raw


def signal_parent_by_descriptor():
    descriptor = called("syscall", PIDFD_OPEN, PARENT, 0)
    called("syscall", PIDFD_SEND_SIGNAL, descriptor, 0, None, 0)


def connect():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass


def fork():
    if not os.fork():
        os._exit(0)


def start_thread():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


DEEDS = {
    "read the parent's memory": read_parent,
    "read the parent's memory by its file": read_parent_by_file,
    "trace the parent": lambda: called("ptrace", PTRACE_SEIZE, PARENT, None, None),
    "signal the parent": lambda: os.kill(PARENT, 0),
    "signal the parent's thread": lambda: called("tgkill", PARENT, PARENT, 0),
    "signal the parent by a descriptor": signal_parent_by_descriptor,
    "signal all": lambda: os.kill(0, 0),
    "remove a file": (FOLDER / "removed").unlink,
    "remove a folder": (FOLDER / "folder").rmdir,
    "rename a file": lambda: (FOLDER / "renamed").rename(FOLDER / "another"),
    "link a file": lambda: (FOLDER / "linked").hardlink_to(FOLDER / "kept"),
    "link a name": lambda: (FOLDER / "symbolic").symlink_to("kept"),
    "change the mode of a file": lambda: (FOLDER / "kept").chmod(0o777),
    "empty a file": lambda: os.truncate(FOLDER / "kept", 0),
    "make a folder": (FOLDER / "new").mkdir,
    "write a file": lambda: (FOLDER / "written").write_bytes(b"1"),
    "read a file": lambda: Path("/proc/self/cmdline").read_bytes(),
    "list a folder": lambda: list(FOLDER.iterdir()),
    "look at a file": (FOLDER / "kept").lstat,
    "connect": connect,
    "make a pair of sockets": socket.socketpair,
    "make a file in memory": lambda: os.memfd_create("memory"),
    "run a program": lambda: os.execv(sys.executable, [sys.executable, "-S", "-c", ""]),
    "fork": fork,
    "start a thread": start_thread,
    "make memory executable": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC),
    "be dumpable": lambda: prctl(SET_DUMPABLE, 1),
    "change a limit": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
}


def attempt(deed, *, confined):
    """Return how a deed ends in a process of its own."""

    def work():
        if confined:
            fork_server._confine(1 << 30)
        try:
            deed()
        except OSError as error:
            os._exit(error.errno)

    status = os.waitstatus_to_exitcode(os.waitpid(fork_server._fork(work), 0)[1])
    if status < 0:
        return signal.Signals(-status).name
    return errno.errorcode.get(status, str(status)) if status else "done"


def main():
    """Try everything in both processes."""
    prctl(SET_DUMPABLE, 1)
    with contextlib.suppress(OSError):  # there is no Yama
        prctl(SET_PTRACER, ANY)
    (FOLDER / "folder").mkdir()
    for name in ("removed", "renamed", "kept"):
        (FOLDER / name).write_bytes(b"1")
    # confined first, so that what is done remains to be done
    found = {name: {"confined": attempt(deed, confined=True)} for name, deed in DEEDS.items()}
    for name, deed in DEEDS.items():
        found[name]["free"] = attempt(deed, confined=False)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
