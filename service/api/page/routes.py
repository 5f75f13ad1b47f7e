"""The routes of the web page and of the OpenAPI document's viewer, whose files are all served from here."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.page.joined import PAGE, joined
from service.errors import NotFound
from service.http.codings import takes_gzip
from service.state import StateDep

router = APIRouter(include_in_schema=False)
VIEWER = Path(__file__).parent / "viewer"
BUNDLED_VIEWER = ("favicon.png", "swagger-ui.css", "swagger-ui-bundle.js")
"""What is served of the package fastapi_offline."""
INDEX = "index.html"
JOINED = {
    "joined.js": ("app.js", None),
    "joined-later.js": ("later.js", "app.js"),
    "joined-inline.js": ("inline.js", None),
}
"""Scripts that are made of the page's modules, by the module that each begins with, and the one that it comes behind:
the first view's, one request in place of some thirty; that of what is opened later; and that of a file of its own."""
NO_FILE = "path: no such file of the page"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
HEADERS = {
    "Cache-Control": "no-cache",  # a browser keeps the files, and asks whether they have changed
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True)
class File:
    """A file as it is sent: as it is, and packed."""

    content: bytes
    packed: bytes
    tag: str
    media_type: str


@router.get("/")
def page(request: Request, state: StateDep) -> Response:  # like the others on a thread, which may read a disk
    """Return the web page. What its script asks for first is asked for beside the script, where that needs no key."""
    answer = _answer(request, _file_of_page(INDEX))
    if not state.settings.api_keys:
        answer.headers["Link"] = "<v1/models>; rel=preload; as=fetch; crossorigin"
    return answer


@router.get("/page/{file}")
def file_of_page(file: str, request: Request) -> Response:
    """Return a script, a style sheet or another file of the web page."""
    return _answer(request, _file_of_page(_part(file)))


@router.get("/docs")
def viewer(request: Request) -> Response:
    """Return the viewer of the OpenAPI document."""
    return _answer(request, _file_of_viewer(INDEX))


@router.get("/docs/{file}")
def file_of_viewer(file: str, request: Request) -> Response:
    """Return a script or another file of the viewer."""
    return _answer(request, _file_of_viewer(_part(file)))


def _part(name: str) -> str:
    """Return the name of a file, unless it is the first one, whose links are of the folder above. Raises NotFound."""
    if name == INDEX:
        raise NotFound(NO_FILE)
    return name


def _file_of_page(name: str) -> File:
    """Return a file of the page as it is now: whoever changes one needs no restart to see it.

    A name is only looked up: no path is made of it. Raises NotFound.
    """
    known = {path.name: path for path in PAGE.iterdir()}
    if name in JOINED:
        return _join(name, tuple(path.stat().st_mtime_ns for path in known.values()))
    return _find(known, name)


def _file_of_viewer(name: str) -> File:
    return _find(_files_of_viewer(), name)


@cache
def _files_of_viewer() -> dict[str, Path]:
    bundled = Path(str(files("fastapi_offline"))) / "static"
    return {path.name: path for path in (*VIEWER.iterdir(), *(bundled / name for name in BUNDLED_VIEWER))}


def _find(known: dict[str, Path], name: str) -> File:
    path = known.get(name)
    if path is None or path.suffix not in MEDIA_TYPES:
        raise NotFound(NO_FILE)
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _read(path: Path, changed: int) -> File:
    """Return a file that was changed at a time."""
    return _file(path.read_bytes(), path.suffix)


@lru_cache(maxsize=len(JOINED))
def _join(name: str, changed: tuple[int, ...]) -> File:
    """Return modules of the page, which were changed at these times, as one script."""
    entry, before = JOINED[name]
    return _file(joined(entry, behind=before).encode(), ".js")


def _file(content: bytes, suffix: str) -> File:
    packed = content if suffix == ".png" else gzip.compress(content, mtime=0)
    return File(content, packed, hashlib.sha256(content).hexdigest()[:32], MEDIA_TYPES[suffix])


def _answer(request: Request, file: File) -> Response:
    """Return a file, packed for clients that unpack, or 304 to one that has it."""
    headers = dict(HEADERS)
    content, tag = file.content, f'"{file.tag}"'
    if takes_gzip(request) and len(file.packed) < len(content):
        content, tag = file.packed, f'"{file.tag}-gzip"'
        headers["Content-Encoding"] = "gzip"
    headers["ETag"] = tag
    if _has(request, tag):
        headers.pop("Content-Encoding", None)
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=file.media_type)


def _has(request: Request, tag: str) -> bool:
    """Return True if the client says that it has what the tag names (RFC 9110, section 13.1.2)."""
    given = ",".join(request.headers.getlist("if-none-match"))
    return any(one.strip().removeprefix("W/") in (tag, "*") for one in given.split(","))
