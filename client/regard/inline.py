"""What a notebook shows of an answer: a page of its own, in a frame that can ask nobody anything."""

import base64
import functools
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""The page's Content-Security-Policy: what stands in it runs, and nothing is asked for."""
HEIGHTS = {"image": 730, "text": 690, "graph": 930, "heads": 930, "alone": 390}
"""CSS pixels of a frame by what it shows: an image, a text, a graph, many heads in a layer, or an answer alone."""
MANY = 7
"""So many heads of a layer stand below the rest, not beside it."""


def document(seen: Mapping[str, object]) -> str:
    """Return an HTML page that shows an answer, and what the model looked at. It needs no file and no network.

    `seen` is plain JSON: `model`, `task`, `about`; `result`, an entry of the service's `results`; `attention`, its
    attention as the service's JSON says it, or None; `heads`, raw attention of all layers and heads, or None;
    `picture`, a data URL of the image that was sent, or None; `text`, the text that was sent, or None; `edge_types`,
    names of the types of a graph's edges, or None. Raises TypeError or ValueError for what JSON cannot hold.
    """
    data = json.dumps(seen, allow_nan=False, separators=(",", ":")).replace("<", r"\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(_title(seen))}</title>\n<style>\n{_static('inline.css')}</style>\n</head>\n"
        f'<body>\n<div id="app"></div>\n<script type="application/json" id="seen">{data}</script>\n'
        f"<script>\n{_static('inline.js')}</script>\n</body>\n</html>\n"
    )


def frame(seen: Mapping[str, object], png: bytes | None = None, height: int | None = None) -> str:
    """Return HTML for a notebook's cell: the document in a sandboxed frame, and beneath it a picture of the same.

    The frame covers the picture (`png`, the bytes of a file). Where it is taken out, as GitHub and notebooks that are
    not trusted do, the picture is what is left. `height` is that of the frame in CSS pixels; without it, one that suits
    what is shown. Raises as `document` does.
    """
    title = html.escape(_title(seen), quote=True)
    high = height or HEIGHTS[_shown(seen)]
    picture = ""
    if png:
        source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
        style = f"grid-area:1/1;max-width:100%;max-height:{high}px;width:auto;height:auto"
        picture = f'<img src="{source}" alt="{title}" style="{style}">'
    style = f"grid-area:1/1;position:relative;width:100%;height:{high}px;border:0"
    return (
        f'<div style="display:grid;justify-items:start">{picture}<iframe sandbox="allow-scripts" title="{title}" '
        f'style="{style}" srcdoc="{html.escape(document(seen), quote=True)}"></iframe></div>'
    )


def _title(seen: Mapping[str, object]) -> str:
    return f"{seen['model']}: what it answered" + (", and what it looked at" if seen.get("attention") else "")


def _shown(seen: Mapping[str, object]) -> str:
    """Return which height suits."""
    heads: Any = seen.get("heads")
    if not (seen.get("attention") or heads):
        return "alone"
    if heads and max(one["shape"][0] for one in heads["maps"]) >= MANY:
        return "heads"
    attention: Any = seen.get("attention") or heads
    return "image" if seen.get("picture") else "graph" if "graph" in attention else "text"


@functools.cache
def _static(name: str) -> str:
    return files("regard").joinpath("static", name).read_text(encoding="utf-8")
