"""What `connect` takes, and whether it can be used: nothing here opens a connection."""

import math
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypedDict

import httpx
from typing_extensions import Self

from regard.errors import BadInput

BAD_URL = "url: must begin with http:// or https://, such as http://127.0.0.1:8000, given "


class Connecting(TypedDict, total=False):
    """What else `connect` takes."""

    timeout: float | None
    """Seconds without a byte after which an answer is given up (60)."""
    patience: float | None
    """Seconds in which a refused request (408, 429, 503) is sent again (30); 0 for never."""
    retries: int | None
    """How many times a request is sent again after its connection failed (2); 0 for never."""
    headers: Mapping[str, str] | None
    """What every request has beside its own headers (none)."""
    verify: bool | str | None
    """Whether certificates are verified, or the path of an authority's certificate (True)."""
    proxy: str | None
    """The address of a proxy (that of the environment: HTTPS_PROXY, ALL_PROXY, ...)."""
    http: httpx.Client | httpx.AsyncClient | None
    """A client of httpx that sends in place of one made here, and that `close` leaves open (one made here)."""


@dataclass(frozen=True)
class Sending:
    """How a call is sent; None is what was given to `connect`."""

    timeout: float | None = None
    patience: float | None = None
    retries: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def changed(
        self, timeout: float | None, patience: float | None, retries: int | None, headers: Mapping[str, str] | None
    ) -> Self:
        """Return it with what is given in place of its own. Raises BadInput for what cannot be used."""
        given = {"timeout": timeout, "patience": patience, "retries": retries, "headers": headers}
        _check_options(given)
        known = {name: value for name, value in vars(self).items() if given[name] is None}
        found = {**known, **{name: value for name, value in given.items() if value is not None}}
        return type(self)(**{**found, "headers": {**self.headers, **(headers or {})}})


AS_CONNECTED = Sending()
"""As was given to `connect`."""


def check(url: object, key: object, options: Mapping[str, Any]) -> None:
    """Raise BadInput unless these are an address, a key and options that can be used."""
    _check_url(url)
    _check_key(key)
    known = Connecting.__annotations__
    for name in options:
        if name not in known:
            raise BadInput(f"{name}: is no option of connect; known are url, key, {', '.join(known)}")
    _check_options(options)


def _check_options(options: Mapping[str, Any]) -> None:
    timeout, patience, retries, headers = (options.get(name) for name in ("timeout", "patience", "retries", "headers"))
    if timeout is not None and not (_is_number(timeout) and 0 < timeout < math.inf):
        raise BadInput(f"timeout: must be a finite number of seconds above 0, given {timeout!r}")
    if patience is not None and not (_is_number(patience) and patience >= 0):
        raise BadInput(f"patience: must be a number of seconds, 0 or more, given {patience!r}")
    if retries is not None and (not isinstance(retries, int) or isinstance(retries, bool) or retries < 0):
        raise BadInput(f"retries: must be a whole number, 0 or more, given {retries!r}")
    if headers is not None and not (isinstance(headers, Mapping) and all(map(_is_header, headers.items()))):
        raise BadInput("headers: must be a dictionary of names and values of ASCII characters, given another")


def _is_number(given: object) -> bool:
    return isinstance(given, Real) and not isinstance(given, bool)


def _is_header(given: tuple[object, object]) -> bool:
    return all(isinstance(part, str) and part.isascii() and part.isprintable() for part in given)


def _check_url(url: object) -> None:
    """Raise BadInput unless it is an address of HTTP, without a user and a password, which every error would show."""
    try:
        found = httpx.URL(url) if isinstance(url, str) else httpx.URL("")
    except httpx.InvalidURL:
        raise BadInput(f"{BAD_URL}another") from None
    if found.userinfo:
        raise BadInput("url: must have no user and no password; an API key is given as regard.connect(..., key=...)")
    if found.scheme not in ("http", "https") or not found.host:
        raise BadInput(f"{BAD_URL}{url!r}")


def _check_key(key: object) -> None:
    """Raise BadInput for what no header holds. The message does not hold the key."""
    if key is None:
        return
    if not isinstance(key, str):
        raise BadInput(f"key: must be a string, given {type(key).__name__}")
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise BadInput("key: must be of ASCII characters without spaces or lines around them, given others")


def verifying(given: bool | str | os.PathLike[str] | None) -> ssl.SSLContext | bool:
    """Return what verifies certificates, as httpx takes it. Raises BadInput for what is no file that holds some."""
    if given is None or isinstance(given, bool):
        return given is not False
    try:
        return ssl.create_default_context(cafile=os.fspath(given))
    except (OSError, TypeError, ValueError) as error:
        raise BadInput(
            f"verify: must be True, False or the path of a file with certificates, given {given!r}"
        ) from error
