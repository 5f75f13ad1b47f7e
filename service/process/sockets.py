"""Listening sockets: binding a port, or logging why it cannot be bound."""

import errno
import socket

import structlog

from service.settings import PREFIX

PORTS = ("port", "admin_port", "probe_port")
"""The settings that are ports to listen on; the first is never None."""
PROBE_CONNECTIONS = 64
"""The limit of connections of the probe port."""
ACCEPTED_IN_A_ROUND = 32
log = structlog.get_logger()


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a socket that is bound to a port. Raises OSError if the port is taken.

    Several processes can bind a `shared` port (SO_REUSEPORT); each of them must ask for it as shared.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def several(listening: socket.socket) -> list[socket.socket]:
    """Return a listening socket and copies of it, which together accept ACCEPTED_IN_A_ROUND connections in a round.

    libuv accepts one connection of a socket in each round of the event loop, so that a probe's connection would wait
    for as many rounds as there are connections before it.
    """
    return [listening, *(listening.dup() for _ in range(ACCEPTED_IN_A_ROUND - 1))]


def cannot_bind(host: str, port: int, name: str, error: OSError) -> int:
    """Log that the port of a setting's name cannot be bound, and which setting to change; return the exit status."""
    wrong = name if error.errno in (errno.EADDRINUSE, errno.EACCES) else "host"
    reason = f"{error.strerror}; set {PREFIX}{wrong.upper()} to another"
    log.error("port cannot be had", host=host, port=port, reason=reason)
    return 5
