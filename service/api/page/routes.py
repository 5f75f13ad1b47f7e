"""The routes of the web page and of the documentation's viewer, whose files are all served from here."""

import functools
import hashlib
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.errors import NotFound

router = APIRouter(include_in_schema=False)
HERE = Path(__file__).parent
PAGE = HERE / "static"
VIEWER = HERE / "viewer"
BUNDLED_VIEWER = ("favicon.png", "swagger-ui.css", "swagger-ui-bundle.js")
"""What is served of the package fastapi_offline."""
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
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


@router.get("/")
async def page(request: Request) -> Response:
    """Return the web page."""
    return _serve(request, _files_of_page(), "index.html")


@router.get("/page/{file}")
async def file_of_page(file: str, request: Request) -> Response:
    """Return a script, a style sheet or another file of the web page."""
    return _serve(request, _files_of_page(), file)


@router.get("/docs")
async def viewer(request: Request) -> Response:
    """Return the viewer of the OpenAPI document."""
    return _serve(request, _files_of_viewer(), "index.html")


@router.get("/docs/{file}")
async def file_of_viewer(file: str, request: Request) -> Response:
    """Return a script or another file of the viewer."""
    return _serve(request, _files_of_viewer(), file)


def _files_of_page() -> dict[str, Path]:
    """Return the files of the page by name, as they are now: whoever changes one needs no restart to see it."""
    return {path.name: path for path in PAGE.iterdir()}


@functools.cache
def _files_of_viewer() -> dict[str, Path]:
    bundled = Path(str(files("fastapi_offline"))) / "static"
    return {path.name: path for path in (*VIEWER.iterdir(), *(bundled / name for name in BUNDLED_VIEWER))}


def _serve(request: Request, known: dict[str, Path], name: str) -> Response:
    """Return a known file, or 304 if the client has it. A name is only looked up: no path is made of it."""
    path = known.get(name)
    if path is None or path.suffix not in MEDIA_TYPES:
        raise NotFound("path: no such file of the page")
    content, tag = _read(path, path.stat().st_mtime_ns)
    headers = {**HEADERS, "ETag": tag}
    if _has(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=MEDIA_TYPES[path.suffix])


@functools.lru_cache(maxsize=64)
def _read(path: Path, changed: int) -> tuple[bytes, str]:
    """Return the content of a file that was changed at a time, and its tag."""
    content = path.read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _has(request: Request, tag: str) -> bool:
    """Return True if the client says that it has what the tag names (RFC 9110, section 13.1.2)."""
    given = ",".join(request.headers.getlist("if-none-match"))
    return any(one.strip().removeprefix("W/") in (tag, "*") for one in given.split(","))
