"""Ports for the processes that tests start, a port for one of them alone."""

import socket

_reserved: list[socket.socket] = []


def free_port() -> int:
    """Return a port of this machine that nothing listens on, and which the kernel gives nobody while this process runs.

    A port that is only looked up can be given to the process of another test before the one that it is for listens: the
    wrong one then answers. So a socket that does not listen stays bound here. Linux lets a program that sets
    SO_REUSEADDR, as servers do, bind and listen beside it.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    _reserved.append(reserved)
    port: int = reserved.getsockname()[1]
    return port
