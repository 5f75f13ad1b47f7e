"""API keys: who may do what. `python -m service.keys <name>` makes one; the file holds its sha256, never the key.

A line a key: `<sha256 of the key> <scopes, comma separated> <name>`; empty lines and those after a # say nothing.
Two keys may bear one name, so that an old one can be replaced by a new one while both are known.
"""

import argparse
import contextlib
import hashlib
import hmac
import re
import secrets
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from fastapi import FastAPI
from starlette.datastructures import Headers

from service.errors import Busy, Forbidden, Unauthorized
from service.settings import PREFIX, Settings, SettingsError

log = structlog.get_logger()
OPEN_PATHS = frozenset({"/health/live", "/health/ready"})
"""Paths that need no key. Every other path needs one, whether it is served or not."""
SCOPES = ("predict", "admin", "metrics")
SHA256 = re.compile(r"[0-9a-f]{64}")
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class KeysError(SettingsError):
    """The file of keys cannot be used; the message has the numbers of the lines, and nothing of what they hold."""


@dataclass(frozen=True)
class Key:
    """What is known of a key."""

    digest: bytes
    scopes: frozenset[str]
    name: str


class Keys:
    """The keys that are known, and how many requests of each are being answered. Raises KeysError as `read_keys`."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.api_keys
        self._limit = settings.key_in_flight
        self._in_flight: Counter[str] = Counter()
        self._keys = read_keys(self._path) if self._path else []

    @property
    def needed(self) -> bool:
        """True if requests must carry a key."""
        return self._path is not None

    def reload(self) -> bool:
        """Read the file again, and say whether it could be used; where it could not, the old keys stay."""
        if self._path is None:
            return True
        try:
            self._keys = read_keys(self._path)
        except KeysError as error:
            log.error("keys cannot be used, the old ones stay", reason=str(error))
            return False
        log.info("keys", count=len(self._keys))
        return True

    def admit(self, path: str, headers: Headers) -> str | None:
        """Return the name of the key that a request carries, None where none is needed.

        `path` is the one that is routed by, never one that a Host header has a part in. Raises Unauthorized without a
        known key, Forbidden for one without the path's scope.
        """
        if not self.needed or path in OPEN_PATHS:
            return None
        given = headers.getlist("x-api-key")
        for one in headers.getlist("authorization"):
            scheme, _, credentials = one.partition(" ")
            if scheme.lower() == "bearer":
                given.append(credentials.strip())
        if len(given) != 1:
            raise Unauthorized(
                f"key: must be given once, as Authorization: Bearer or X-API-Key, given {len(given)} times"
            )
        key = self._find(given[0])
        if key is None:
            raise Unauthorized("key: must be one that is known, given another")
        scope = scope_of(path)
        if scope not in key.scopes:
            raise Forbidden(f"key: must have the scope {scope}, given one without")
        return key.name

    def _find(self, given: str) -> Key | None:
        """Compare with every key, whichever it is, so that the time taken tells nothing."""
        digest = hashlib.sha256(given.encode("latin-1")).digest()  # as headers are decoded
        found = None
        for key in self._keys:
            if hmac.compare_digest(digest, key.digest):
                found = key
        return found

    @contextlib.contextmanager
    def _hold(self, name: str) -> Iterator[None]:
        self._in_flight[name] += 1
        try:
            yield
        finally:
            self._in_flight[name] -= 1

    def permit(self, name: str | None) -> contextlib.AbstractContextManager[None]:
        """Return what holds one of the requests that a key may have in flight. Raises Busy where all are held."""
        if name is None or not self._limit:
            return contextlib.nullcontext()
        if self._in_flight[name] >= self._limit:
            raise Busy(f"key: at most {self._limit} requests at a time, given one more", seconds=1)
        return self._hold(name)


def scope_of(path: str) -> str:
    """Return the scope that a path needs."""
    if path == "/metrics":
        return "metrics"
    return "admin" if path == "/admin" or path.startswith("/admin/") else "predict"


def read_keys(path: Path) -> list[Key]:
    """Read a file of keys. Raises KeysError naming every line that is wrong."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise KeysError(f"{PREFIX}API_KEYS: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise KeysError(f"{PREFIX}API_KEYS: must be UTF-8") from error
    keys: dict[bytes, Key] = {}
    faults = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        scopes = words[1].split(",") if len(words) == 3 else []
        if not (scopes and SHA256.fullmatch(words[0]) and NAME.fullmatch(words[2]) and set(scopes) <= set(SCOPES)):
            faults.append(f"line {number}: must be a sha256 in hex, scopes of {','.join(SCOPES)}, and a name")
        elif (digest := bytes.fromhex(words[0])) in keys:
            faults.append(f"line {number}: must hold another key than the lines before it")
        else:
            keys[digest] = Key(digest, frozenset(scopes), words[2])
    if not keys and not faults:
        faults.append("must hold at least one key, given none")
    if faults:
        raise KeysError("\n".join(f"{PREFIX}API_KEYS: {fault}" for fault in faults))
    return list(keys.values())


def describe_keys(app: FastAPI) -> None:
    """Say in the application's OpenAPI document that requests need a key."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        document = plain()
        document.setdefault("components", {})["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        document["security"] = [{"bearer": []}, {"header": []}]
        for path in OPEN_PATHS & document["paths"].keys():
            for operation in document["paths"][path].values():
                operation["security"] = []
        return document

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI's documentation has it


def main() -> int:
    """Make a key: the key itself to standard error, for a person, once; the file's line to standard output."""
    parser = argparse.ArgumentParser(prog="python -m service.keys", description="Make an API key.")
    parser.add_argument("name", help="whose key it is, as the log will say: letters, digits, . _ -")
    parser.add_argument("--scopes", default="predict", help=f"comma separated, of {', '.join(SCOPES)}")
    given = parser.parse_args()
    if not NAME.fullmatch(given.name):
        parser.error("name: must be 1 to 64 letters, digits, . _ -")
    if not set(given.scopes.split(",")) <= set(SCOPES):
        parser.error(f"scopes: must be of {', '.join(SCOPES)}")
    key = secrets.token_urlsafe(32)
    print(f"the key, shown once: {key}", file=sys.stderr)  # noqa: T201 # for a person
    print(hashlib.sha256(key.encode()).hexdigest(), given.scopes, given.name)  # noqa: T201 # for the file
    return 0
