"""Requests that are almost right: hypothesis strategies that spoil good ones, byte by byte or value by value."""

import base64
import io
import json
import re
import struct
import zlib
from collections.abc import Sequence
from urllib.parse import quote

from hypothesis import strategies as st
from PIL import Image

from service.options.attention import AttentionOptions
from service.options.generation import GenerateOptions
from service.options.predictions import DetectOptions, EmbedTextOptions, ZeroShotOptions
from tests.rigs.client import request
from tests.rigs.mixes import (
    DATES,
    DETECTOR,
    DIGITS,
    HOSTILE,
    INFER_LENGTH,
    JSON,
    MARK,
    SCANS,
    SCENE,
    SCENES,
    completion,
    infer_image,
    infer_text,
    shaped,
)

Edit = tuple[str, int, int, bytes]
BOUNDARY = "7c1fkestrel"
KINDS = ("flip", "cut", "repeat", "insert", "overwrite", "end", "swap", "ones")


def edit(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Return bytes after edits: each of a kind, at a place in 65536ths of the whole, of a length, with bytes to add."""
    for kind, where, length, added in edits:
        at = where * len(data) >> 16
        head, piece, tail = data[:at], data[at : at + length], data[at + length :]
        if kind == "flip" and piece:
            data = head + bytes([piece[0] ^ (1 << length % 8)]) + piece[1:] + tail
        elif kind == "cut":
            data = head + tail
        elif kind == "repeat":
            data = head + piece * (1 + length * 8) + tail
        elif kind == "insert":
            data = head + added + piece + tail
        elif kind == "overwrite":
            data = head + added + data[at + len(added) :]
        elif kind == "end":
            data = head
        elif kind == "swap":
            data = head + tail[:length] + piece + tail[length:]
        elif kind == "ones":
            data = head + b"\xff" * len(piece) + tail
    return data[: 1 << 17]


EDITS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 65535), st.integers(1, 48), st.binary(max_size=8)), max_size=6
)


def spoilt(good: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return good bytes after some edits."""
    return st.builds(edit, st.sampled_from(list(good)), EDITS)


def repaired(png: bytes) -> bytes:
    """Return a PNG whose checksums are right again, so that what was spoilt is looked at rather than refused."""
    out, at = bytearray(png[:8]), 8
    while at + 12 <= len(png):
        (length,) = struct.unpack_from(">I", png, at)
        if at + 12 + length > len(png):
            break
        chunk = png[at + 4 : at + 8 + length]
        out += png[at : at + 4] + chunk + struct.pack(">I", zlib.crc32(chunk))
        at += 12 + length
    return bytes(out + png[at:])


def encoded(kind: str) -> list[bytes]:
    """Return images of a format: those at hand, and small ones in the modes and variants that it has."""
    found = []
    variants = {
        "PNG": [{}, {"optimize": True}],
        "JPEG": [{}, {"progressive": True}, {"quality": 5}],
        "WEBP": [{}, {"lossless": True}],
        "GIF": [{}, {"transparency": 0}],
        "BMP": [{}],
        "TIFF": [{"compression": way} for way in ("raw", "tiff_lzw", "tiff_adobe_deflate")],
        "AVIF": [{"speed": 10}],
    }
    modes = {
        "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"),
        "JPEG": ("L", "RGB", "CMYK"),
        "GIF": ("1", "L", "P"),
        "BMP": ("1", "L", "P", "RGB", "RGBA"),
        "TIFF": ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"),
        "AVIF": ("L", "RGB", "RGBA"),
    }
    for mode in modes.get(kind, ("RGB",)):
        for options in variants[kind]:
            file = io.BytesIO()
            seven = Image.open(io.BytesIO(SCANS[4])).convert("L" if mode == "I;16" else "RGB").resize((40, 32))
            seven.convert(mode).save(file, kind, **options)
            found.append(file.getvalue())
    return found


def post(path: str) -> st.SearchStrategy[str]:
    """Return paths of an endpoint, with options or without."""
    return st.sampled_from([path, f"{path}?attention=raw", f"{path}?top_k=3", f"{path}?attention=relevance"])


def image_requests(kind: str, *, repair: bool = False) -> st.SearchStrategy[bytes]:
    """Return requests with a spoilt image of a format as their body."""
    images = spoilt(encoded(kind))
    if repair:
        images = st.one_of(images, images.map(repaired))
    return st.builds(
        lambda path, data: request("POST", path, data, f"image/{kind.lower()}"),
        post(DIGITS + "/classify"),
        images,
    )


DOCUMENTS = [
    json.dumps(document).encode()
    for document in (
        {"inputs": "3/23/21", "num_beams": 2, "max_new_tokens": 4},
        {"inputs": ["3/23/21", MARK], "temperature": 0.5, "top_k": 3, "top_p": 0.9, "seed": 1},
        {"inputs": MARK, "attention": {"method": "raw", "layers": "all", "heads": [0, 1], "queries": "0:2"}},
        {"inputs": "1", "attention": {"method": "relevance", "kind": "cross", "target": 0, "digits": 3}},
        {"inputs": "1", "attention": {"method": "libra", "against": {"text": "1"}, "target": [0]}},
        {"inputs": "1", "attention": {"method": "integrated", "steps": 2, "baseline": "zero", "target": [0]}},
        {"inputs": ["1", MARK], "dimensions": 3, "normalize": False, "prompt_name": "a", "prompt": MARK},
        {"inputs": ["1", MARK], "labels": ["a", MARK], "template": "{} x", "multi_label": True},
        {"inputs": "1", "stream": True},
        {"images": [base64.b64encode(SCENE).decode()], "threshold": 0.5, "top_k": 3},
        {"images": [base64.b64encode(shaped(1, 40)).decode()], "threshold": 0, "attention": {"queries": "found"}},
    )
]
NAMES = sorted(
    {"inputs", "images", "attention", "text", "text_pair", MARK}
    | GenerateOptions.model_fields.keys()
    | ZeroShotOptions.model_fields.keys()
    | DetectOptions.model_fields.keys()
    | EmbedTextOptions.model_fields.keys()
    | AttentionOptions.model_fields.keys()
    | {"label", "index", "token", "text", "id"}
)
WORDS = [
    "all",
    "mean",
    "cls",
    "found",
    "raw",
    "rollout",
    "norm",
    "relevance",
    "libra",
    "integrated",
    "best",
    "cross",
    "encoder",
    "json",
    "png",
    "-1",
    "0:2",
    MARK,
]
NUMBERS = [0, 1, -1, 2, 8, 16, 17, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**9, 0.0, -0.0, 1e-300, 1e300, 0.5, 5e-324]
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from(NUMBERS),
        st.sampled_from(WORDS),
        st.text(max_size=20).map(lambda words: MARK + words),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)),
    max_leaves=8,
)
LITERALS = st.sampled_from(
    [b"NaN", b"1e999", b"-Infinity", b'"\\ud800"', b'"\\u0000"', b"1" * 400, b"[" * 2000, b'{"a":' * 2000, b"\xff\xfe"]
)


def dumped(names: Sequence[tuple[str, bytes]]) -> bytes:
    """Return a document with such members, the same name twice perhaps."""
    return b"{" + b", ".join(json.dumps(name).encode() + b": " + value for name, value in names) + b"}"


MEMBERS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.one_of(VALUES.map(lambda value: json.dumps(value).encode()), LITERALS),
    ),
    max_size=5,
).map(lambda members: dumped([("inputs", b'"3/23/21"'), *members]))
TEXTS = st.text(min_size=1, max_size=120).map(lambda words: json.dumps({"inputs": words}, ensure_ascii=False).encode())
PATHS = st.sampled_from(
    [DATES + "/generate", DATES + "/attention", DIGITS + "/classify", DIGITS + "/attention", SCENES + "/detect"]
)


def form(parts: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return a multipart body of such headers and contents."""
    mark = b"--" + BOUNDARY.encode()
    return b"".join(mark + b"\r\n" + head + b"\r\n\r\n" + body + b"\r\n" for head, body in parts) + mark + b"--\r\n"


HEADS = [
    b'Content-Disposition: form-data; name="image"; filename="a.png"',
    b'Content-Disposition: form-data; name="image"; filename="../../' + MARK.encode() + b'"',
    b'Content-Disposition: form-data; name="top_k"',
    b'Content-Disposition: form-data; name="' + MARK.encode() + b'"',
    b'Content-Disposition: form-data; name="a\r\nb"',
    b"Content-Disposition: form-data",
    b"Content-Type: text/html; charset=utf-7",
    b"X: " + b"a" * 9000,
]
PARTS = st.lists(
    st.tuples(st.sampled_from(HEADS), st.sampled_from([SCANS[1], b"3", b"", MARK.encode(), b"\0" * 70_000])), max_size=4
)
GOOD_FORM = form([(HEADS[0], SCANS[1]), (HEADS[2], b"3")])
FORMS = st.one_of(PARTS.map(form), spoilt([GOOD_FORM]))

RAW = [
    request("GET", "/health/live"),
    request("GET", "/v1/models"),
    request("POST", DATES + "/generate", DOCUMENTS[0], JSON),
    request("POST", DATES + "/generate", DOCUMENTS[0], JSON, Accept="text/csv", X_Request_Id=MARK),
    b"POST /v1/models/dates/generate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"inp\r\n9\r\nuts":"1"}\r\n0\r\n\r\n',
    HOSTILE[7],
]

INFERS = [
    infer_image(SCANS[4], id="a", parameters={"top_k": 3, "layers": "0:2", "priority": 1}),
    infer_image(SCANS[4], outputs=[{"name": "attention", "parameters": {"binary_data": False}}]),
    infer_text("3/23/21", outputs=[{"name": "text"}], parameters={"num_beams": 2}),
    infer_image(
        SCENE, DETECTOR, outputs=[{"name": "attention.cross"}, {"name": "boxes"}], parameters={"threshold": 0.3}
    ),
]
PIPELINE_BODIES = [
    json.dumps({"inputs": "3/23/21", "parameters": {"max_new_tokens": 3}}).encode(),
    json.dumps({"inputs": base64.b64encode(SCANS[4]).decode(), "parameters": {"top_k": 2}}).encode(),
    json.dumps({"inputs": "x", "parameters": {"candidate_labels": ["a", "b"], "multi_label": True}}).encode(),
    json.dumps({"inputs": base64.b64encode(SCANS[4]).decode(), "parameters": {"threshold": 0.1}}).encode(),
]
RANKINGS = [
    json.dumps({"model": "dates", "query": "x", "documents": ["y", {"text": "z"}], "top_n": 1}).encode(),
    json.dumps({"model": "dates", "text_1": "x", "text_2": ["y", "z"]}).encode(),
    json.dumps({"query": "x", "texts": ["y"], "attention": {"method": "raw"}}).encode(),
    json.dumps({"inputs": {"source_sentence": "x", "sentences": ["y"]}}).encode(),
    json.dumps({"inputs": "x", "aggregate": "max", "ignore": ["O"], "attention": {"target": {"entity": 0}}}).encode(),
    json.dumps(
        {
            "inputs": {"question": "x", "context": "y"},
            "stride": 1,
            "attention": {"target": {"answer": 0, "part": "end"}},
        }
    ).encode(),
]
INFER_LENGTHS = st.one_of(st.sampled_from(["0", "1", "-1", "007", "99999999999", MARK]), st.integers(0, 400).map(str))


def spoilt_infer(whole: bytes, edits: Sequence[Edit], length: str | None) -> bytes:
    """Return a request of the Open Inference Protocol with its body edited, and maybe another length of its JSON."""
    head, _, body = whole.partition(b"\r\n\r\n")
    own = re.search(rf"{INFER_LENGTH}: (\d+)", head.decode("latin-1"))
    said = length or (own and own[1])
    return request("POST", head.split()[1].decode(), edit(body, edits), **({INFER_LENGTH: said} if said else {}))


SHAPES = [shaped(*size) for size in ((1, 1), (1, 4000), (4000, 1), (2, 3), (64, 64), (3, 60_000))]
THRESHOLDS = ["", "0", "1", "0.5", "-1", "2", "NaN", "inf", "1e400", "1e-300", "0x1", "\u0660", MARK]
LOOKS = [
    "",
    "&top_k=0",
    "&top_k=1000",
    "&attention=raw",
    "&attention=raw&queries=found&kind=cross&heads=all&hard=true",
    "&attention=raw&queries=mean&kind=encoder",
    "&attention=raw&queries=7&kind=decoder&pool=2",
    "&attention=rollout&kind=decoder",
    "&attention=libra&target=7",
    "&attention=relevance&target=0,8",
    "&attention=integrated&steps=2&evaluate=deletion",
    "&attention=raw&kind=cross&format=png&width=64",
    "&attention=raw&kind=cross&format=npz&evaluate=compare",
]
"""What is asked of a detector: some of it must be refused."""

REQUESTS: dict[str, st.SearchStrategy[bytes]] = {
    "json": st.builds(lambda path, body: request("POST", path, body, JSON), PATHS, spoilt(DOCUMENTS)),
    "document": st.builds(lambda path, body: request("POST", path, body, JSON), PATHS, st.one_of(MEMBERS, TEXTS)),
    "multipart": st.builds(
        lambda path, body: request("POST", path, body, f"multipart/form-data; boundary={BOUNDARY}"),
        post(DIGITS + "/classify"),
        FORMS,
    ),
    "png": image_requests("PNG", repair=True),
    "jpeg": image_requests("JPEG"),
    **{kind.lower(): image_requests(kind) for kind in ("WEBP", "GIF", "BMP", "TIFF", "AVIF")},
    "infer": st.builds(spoilt_infer, st.sampled_from(INFERS), EDITS, st.one_of(st.none(), st.none(), INFER_LENGTHS)),
    "objects": st.builds(
        lambda path, threshold, look, data: request(
            "POST", f"{SCENES}{path}?threshold={quote(threshold)}{look}", data, "image/png"
        ),
        st.sampled_from(["/detect", "/attention"]),
        st.sampled_from(THRESHOLDS),
        st.sampled_from(LOOKS),
        st.one_of(st.sampled_from([SCENE, *SHAPES]), spoilt([SCENE, *SHAPES])),
    ),
    "completions": st.builds(
        lambda body: request("POST", "/v1/completions", body, JSON),
        spoilt([completion("3/23/21", max_tokens=3, stop=["-"]).partition(b"\r\n\r\n")[2]]),
    ),
    "rankings": st.builds(
        lambda path, body: request("POST", path, body, JSON),
        st.sampled_from(
            [
                "/v1/rerank",
                "/v2/rerank",
                "/score",
                DATES + "/rerank",
                DATES + "/tag",
                DATES + "/answer",
                DATES + "/tei/similarity",
            ]
        ),
        spoilt(RANKINGS),
    ),
    "pipelines": st.builds(
        lambda path, body: request("POST", path, body, JSON),
        st.sampled_from([DATES, DIGITS, SCENES]),
        spoilt(PIPELINE_BODIES),
    ),
}
"""Whole requests, each answered on its connection."""
SPOILT_WHOLE = st.lists(spoilt(RAW), min_size=1, max_size=24)
"""Requests that were spoilt anywhere, their heads too: some are never answered, being cut short."""
