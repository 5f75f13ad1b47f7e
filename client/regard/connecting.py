"""What `connect` takes, and whether it can be used: nothing here opens a connection."""

import math
import os
import ssl
from numbers import Real
from typing import TypedDict

import httpx

from regard.errors import BadInput

BAD_URL = "url: must begin with http:// or https://, such as http://127.0.0.1:8000, given another"


class Connecting(TypedDict, total=False):
    """What else `connect` takes."""

    timeout: float
    """Seconds without a byte after which an answer is given up (60)."""
    patience: float
    """Seconds in which a refused request (429, 503) is sent again (30); 0 for never."""
    verify: bool | str
    """Whether certificates are verified, or the path of an authority's certificate."""


def check(url: object, key: object, options: Connecting) -> None:
    """Raise BadInput unless these are an address, a key and options that can be used."""
    _check_url(url)
    _check_key(key)
    known = Connecting.__annotations__
    for name in options:
        if name not in known:
            raise BadInput(f"{name}: is no option of connect; known are url, key, {', '.join(known)}")
    timeout, patience = options.get("timeout", 60.0), options.get("patience", 30.0)
    if not (_is_number(timeout) and 0 < timeout < math.inf):
        raise BadInput(f"timeout: must be a finite number of seconds above 0, given {timeout!r}")
    if not (_is_number(patience) and patience >= 0):
        raise BadInput(f"patience: must be a number of seconds, 0 or more, given {patience!r}")


def _is_number(given: object) -> bool:
    return isinstance(given, Real) and not isinstance(given, bool)


def _check_url(url: object) -> None:
    """Raise BadInput unless it is an address of HTTP, without a user and a password, which every error would show."""
    try:
        found = httpx.URL(url) if isinstance(url, str) else httpx.URL("")
    except httpx.InvalidURL as error:
        raise BadInput(BAD_URL) from error
    if found.scheme not in ("http", "https") or not found.host:
        raise BadInput(BAD_URL)
    if found.userinfo:
        raise BadInput("url: must have no user and no password; an API key is given as regard.connect(..., key=...)")


def _check_key(key: object) -> None:
    """Raise BadInput for what no header holds. The message does not hold the key."""
    if key is None:
        return
    if not isinstance(key, str):
        raise BadInput(f"key: must be a string, given {type(key).__name__}")
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise BadInput("key: must be of ASCII characters without spaces or lines around them, given others")


def verifying(options: Connecting) -> ssl.SSLContext | bool:
    """Return what verifies certificates, as httpx takes it. Raises BadInput for what is no file that holds some."""
    given = options.get("verify", True)
    if isinstance(given, bool):
        return given
    try:
        return ssl.create_default_context(cafile=os.fspath(given))
    except (OSError, TypeError, ValueError) as error:
        raise BadInput("verify: must be True, False or the path of a file with certificates, given another") from error
