"""Sockets: a port that is had, or one clear line."""

import socket

import structlog

log = structlog.get_logger()


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Bind before anything is announced. Raises OSError if the port is taken.

    A `shared` one is had by several processes, all of which must ask for it so.
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


def cannot_bind(host: str, port: int, error: OSError) -> int:
    """Say so; return the exit status."""
    log.error("port cannot be had", host=host, port=port, reason=error.strerror)
    return 5
