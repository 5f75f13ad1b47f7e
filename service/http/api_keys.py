"""API keys: who may do what. `python -m service.keys <name>` makes a key; the file holds its sha256, never the key.

The file has one key per line: `<sha256 of the key> <scopes, separated by commas> <name>`. Empty lines and lines that
start with # are ignored. Two keys may have the same name, so that both are valid while a new key replaces an old one.
"""

import contextlib
import hashlib
import hmac
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from starlette.datastructures import Headers

from service.errors import Forbidden, KeyBusy, Unauthorized
from service.settings import PREFIX, Settings, SettingsError

if TYPE_CHECKING:  # the start checks keys before it imports FastAPI, which takes a while
    from fastapi import FastAPI

    from service.telemetry.metrics import Metrics

log = structlog.get_logger()
HEALTH_PATHS = frozenset({"/health/live", "/health/ready", "/v2/health/live", "/v2/health/ready"})
PAGE_PATHS = re.compile(r"/|/openapi\.json|/docs|/(page|docs)/[A-Za-z][A-Za-z0-9._-]*")
"""The web page, the OpenAPI document, its viewer, and the files of both, which hold nothing that is secret."""
SCOPES = ("predict", "admin", "metrics")
SHA256 = re.compile(r"[0-9a-f]{64}")
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class KeysError(SettingsError):
    """The file of keys cannot be used. The message has the numbers of the lines, but nothing of their content."""


@dataclass(frozen=True)
class Key:
    """A key as the file describes it."""

    digest: bytes
    scopes: frozenset[str]
    name: str


class Keys:
    """The known keys, and the number of requests in flight of each. Raises KeysError as `read_keys` does."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.api_keys
        self._limit = settings.key_in_flight
        self._in_flight: Counter[str] = Counter()
        self._keys = read_keys(self._path) if self._path else []

    @property
    def needed(self) -> bool:
        """True if requests must carry a key."""
        return self._path is not None

    def reload(self, metrics: "Metrics") -> bool:
        """Read the file again; return False, and keep the old keys, if it cannot be used, which is counted."""
        if self._path is None:
            return True
        try:
            self._keys = read_keys(self._path)
        except KeysError as error:
            log.error("keys cannot be used, the old ones stay", reason=str(error))
            metrics.reloads.labels("refused").inc()
            return False
        log.info("keys", count=len(self._keys))
        return True

    def admit(self, path: str, headers: Headers) -> str | None:
        """Return the name of the key of a request, or None if it needs none.

        `path` must be the path that is routed by, not one derived from the Host header. Raises Unauthorized without a
        known key, and Forbidden for a key without the scope of the path.
        """
        if not self.needed or is_open(path):
            return None
        given = headers.getlist("x-api-key")
        for header in headers.getlist("authorization"):
            scheme, _, credentials = header.partition(" ")
            if scheme.lower() == "bearer":
                given.append(credentials.strip())
        if len(given) != 1:
            times = f"{len(given)} times" if given else "none"
            raise Unauthorized(f"key: must be given once, as Authorization: Bearer or X-API-Key, given {times}")
        key = self._find(given[0])
        if key is None:
            raise Unauthorized("key: must be one that is known, given another")
        scope = scope_of(path)
        if scope not in key.scopes:
            raise Forbidden(f"key: must have the scope {scope}, given one without")
        return key.name

    def _find(self, given: str) -> Key | None:
        """Return the key that was given, or None. All keys are compared, so that the time taken reveals nothing."""
        digest = hashlib.sha256(given.encode("latin-1")).digest()  # headers were decoded as latin-1
        found = None
        for key in self._keys:
            if hmac.compare_digest(digest, key.digest):
                found = key
        return found

    @contextlib.contextmanager
    def _count_in_flight(self, name: str) -> Iterator[None]:
        self._in_flight[name] += 1
        try:
            yield
        finally:
            self._in_flight[name] -= 1

    def permit(self, name: str | None) -> contextlib.AbstractContextManager[None]:
        """Return a context that counts one request in flight of a key. Raises KeyBusy if the key has too many."""
        if name is None or not self._limit:
            return contextlib.nullcontext()
        if self._in_flight[name] >= self._limit:
            raise KeyBusy(f"key: at most {self._limit} requests at a time, given one more", seconds=1)
        return self._count_in_flight(name)


def is_open(path: str) -> bool:
    """Return True if a path needs no key. Every other path needs one, even if nothing is served there."""
    return path in HEALTH_PATHS or PAGE_PATHS.fullmatch(path) is not None


def scope_of(path: str) -> str:
    """Return the scope that a key needs for a path."""
    if path == "/metrics":
        return "metrics"
    managed = path.startswith("/v2/repository/models/")
    return "admin" if managed or path == "/admin" or path.startswith("/admin/") else "predict"


def read_keys(path: Path) -> list[Key]:
    """Read a file of keys. Raises KeysError with the number of every malformed line."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise KeysError(
            f"{PREFIX}API_KEYS: {path} cannot be read: {error.strerror}; in a container, mount the file there, "
            f"readable for user {os.getuid()}; python -m service.keys makes its lines"
        ) from error
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


def describe_keys(app: "FastAPI") -> None:
    """Add to the application's OpenAPI document that requests need a key."""
    original = app.openapi

    def openapi() -> dict[str, Any]:
        document = original()
        document.setdefault("components", {})["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        document["security"] = [{"bearer": []}, {"header": []}]
        for path in HEALTH_PATHS & document["paths"].keys():
            for operation in document["paths"][path].values():
                operation["security"] = []
        return document

    app.openapi = openapi  # type: ignore[method-assign] # the way that FastAPI documents
