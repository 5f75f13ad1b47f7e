"""The service as a process that begins with its imports done: a second of processor time less for each of many starts.

A helper process imports what the service imports, in a process of its own without threads, and forks one that goes on
as `python -m service` does. Tests of the imports themselves start Python.
"""

import atexit
import ctypes
import functools
import json
import os
import runpy
import socket
import subprocess
import sys
import time

IMPORTED = ("service.process.workers", "service.process.serving", "service.process.server")
PR_SET_CHILD_SUBREAPER = 36


class WarmPopen(subprocess.Popen):
    """What `subprocess.Popen([sys.executable, "-m", "service"])` is, forked by the helper."""

    def _execute_child(self, *given):
        environment, pipes = given[6], given[10:16]
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # the fork becomes a child of this process once its parent has ended
        try:
            request = json.dumps({"parent": os.getpid(), "environment": environment}).encode()
            socket.send_fds(helper(), [request], [pipes[3]])
            self.pid = int(helper().recv(64))
        finally:
            prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        self._child_created = True
        self._close_pipe_fds(*pipes)


@functools.cache
def helper():
    """Return the connection to the helper, which ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", __spec__.name, str(theirs.fileno())]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    atexit.register(lambda: ours.close() or process.wait())
    return ours


def serve_forks(connection):
    """Fork a service for each request; raise the SystemExit of the service in a fork."""
    for name in IMPORTED:
        __import__(name)
    while True:
        data, (*descriptors,), _, _ = socket.recv_fds(connection, 1 << 20, 1)
        if not data:
            return
        between = os.fork()
        if between:
            os.waitpid(between, 0)
            os.close(descriptors[0])
        elif os.fork():
            os._exit(0)
        else:
            become_the_service(connection, descriptors[0], **json.loads(data))


def become_the_service(connection, output, parent, environment):
    """Go on as `python -m service` does."""
    while os.getppid() != parent:
        time.sleep(0.001)
    connection.send(str(os.getpid()).encode())
    connection.close()
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["service"]
    runpy.run_module("service", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve_forks(socket.socket(fileno=int(sys.argv[1])))
