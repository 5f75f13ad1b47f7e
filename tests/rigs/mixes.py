"""What is sent: good requests of every kind and length, hostile ones, and those of clients that do not wait."""

import base64
import io
import json
import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tests.conftest import ROOT
from tests.rigs.client import request

DIGITS, DATES, MINILM = "/v1/models/digits", "/v1/models/dates", "/v1/models/minilm"
DETECTOR = "scenes-detr"
SCENES = f"/v1/models/{DETECTOR}"
SCANS = [path.read_bytes() for path in sorted((ROOT / "tests/data/digits").iterdir())]
SIZES = [1 / len(scan) for scan in SCANS]
"""How often each is drawn: a photograph costs ten times a scan, and ten thousand of them are to be sent."""
SMALL = min(SCANS, key=len)
SCENE = (ROOT / "tests/data/scenes/five.png").read_bytes()
PARAGRAPH = "The quick brown fox jumps over the lazy dog, and nobody asked it why it was in such a hurry that day. " * 3
DATE = "the twenty-third of March 2021"
LENGTHS = (1, 2, 3, 5, 8, 9, 16, 17, 30, 32, 33, 60, 64, 65, 90, 96)
JSON = "application/json"
MARK = "kestrel7c1f"
"""A word that hostile requests hold, and that no refusal may repeat."""

GOOD = {
    "classify": 40.0,
    "generate": 20,
    "rollout": 10,
    "stream": 8,
    "several": 6,
    "beams": 4,
    "relevance": 2,
    "libra": 2,
    "infer": 6,
    "infer text": 3,
    "completion": 3,
    "streamed completion": 2,
    "pipeline": 3,
}
ATTENTION = {
    "rollout": 3.0,
    "relevance": 1,
    "libra": 1,
    "integrated": 0.5,
    "maps": 1,
    "generated maps": 1,
    "infer maps": 1,
}
DETECTION = {
    "detect": 10.0,
    "detected maps": 3,
    "explained object": 1,
    "infer objects": 2,
}
"""Requests to the detector, where it is served."""
MIXED = {
    **{name: weight * 0.75 for name, weight in GOOD.items()},
    **{name: 5 * weight / 6 for name, weight in ATTENTION.items()},
    "hostile": 10,
    "cancelled": 10,
}
"""A tenth hostile, a tenth cancelled, more than a twentieth attention, texts of every length."""


@dataclass(frozen=True)
class Case:
    """A request, the statuses that answer it rightly, and after how many seconds its client leaves, if it does."""

    name: str
    request: bytes
    right: frozenset[int] = frozenset({200})
    leaves: float | None = None


def served(mix: Mapping[str, float], artifacts: Path) -> Mapping[str, float]:
    """Return a mix for the models of a folder: with requests to the detector if it is there."""
    return {**mix, **DETECTION} if (artifacts / DETECTOR).is_dir() else mix


def draw(mix: Mapping[str, float], chance: random.Random) -> Case:
    """Return a request of the mix."""
    (name,) = chance.choices(list(mix), list(mix.values()))
    return MAKERS[name](chance)


def image(path: str, data: bytes, model: str = DIGITS) -> bytes:
    """Return a request with an image as its body."""
    return request("POST", model + path, data, "image/png" if data[:4] == b"\x89PNG" else "image/jpeg")


def shaped(width: int, height: int) -> bytes:
    """Return a picture of a shape, which is grey."""
    file = io.BytesIO()
    Image.new("L", (width, height), 90).save(file, "PNG")
    return file.getvalue()


def document(path: str, **content: object) -> bytes:
    """Return a request with a JSON document as its body."""
    return request("POST", path, json.dumps(content).encode(), JSON)


INFER_LENGTH = "Inference-Header-Content-Length"
PICTURE = {"name": "image", "shape": [1, 1], "datatype": "BYTES"}


def infer(model: str, *tensors: Mapping[str, object], binary: bytes = b"", **members: object) -> bytes:
    """Return a request of the Open Inference Protocol, with binary data or without."""
    body = json.dumps({"inputs": tensors, **members}).encode()
    headers = {INFER_LENGTH: str(len(body))} if binary else {}
    return request("POST", f"/v2/models/{model}/infer", body + binary, **headers)


def infer_image(data: bytes, model: str = "digits", **members: object) -> bytes:
    """Return a request of that protocol with an image in binary."""
    element = struct.pack("<I", len(data)) + data
    return infer(model, {**PICTURE, "parameters": {"binary_data_size": len(element)}}, binary=element, **members)


def infer_text(words: str, **members: object) -> bytes:
    """Return a request of that protocol with a text in JSON."""
    return infer("dates", {"name": "text", "shape": [1], "datatype": "BYTES", "data": [words]}, **members)


def completion(words: str, **options: object) -> bytes:
    """Return a request of OpenAI's protocol."""
    return document("/v1/completions", model="dates", prompt=words, **options)


def pipeline(chance: random.Random) -> bytes:
    """Return a request to a pipeline of Hugging Face, of an image or of a text."""
    if chance.random() < 0.5:
        return document(DATES, inputs=text(chance))
    return image("", scan(chance))


def scan(chance: random.Random) -> bytes:
    """Return an image, a small one more often."""
    return chance.choices(SCANS, SIZES)[0]


def text(chance: random.Random) -> str:
    """Return a text of some length up to the model's limit."""
    return "".join(chance.choices("0123456789/ abcdefghijMarchJune,", k=chance.choice(LENGTHS)))


def bomb() -> bytes:
    """Return a small PNG of 400 million pixels."""
    file = io.BytesIO()
    Image.new("1", (20000, 20000)).save(file, "PNG")
    return file.getvalue()


BOMB = bomb()
HOSTILE = [
    image("/classify", BOMB),
    image("/classify", SCANS[0][: len(SCANS[0]) // 2]),
    image("/classify", MARK.encode() * 20),
    image(f"/classify?{MARK}=1", SCANS[0]),
    image("/classify?top_k=100000000000000000000", SCANS[0]),
    image("/attention?layers=all&heads=all&queries=all&digits=99", SCANS[0]),
    *(image(f"/detect?threshold={given}", SCENE, SCENES) for given in ("2", "-1", "NaN", "1e400", MARK)),
    image("/detect?top_k=0", SCENE, SCENES),
    image("/detect?attention=raw&queries=cls", SCENE, SCENES),
    image("/attention?method=libra&target=8", SCENE, SCENES),
    image("/detect", BOMB, SCENES),
    image("/detect", SCENE, DIGITS),
    document(SCENES + "/detect", images=[MARK], threshold=MARK),
    infer_image(SCENE, DETECTOR, outputs=[{"name": "probabilities", "parameters": {"classification": 1}}]),
    request("POST", DIGITS + "/classify", MARK.encode(), "text/html"),
    request("POST", DIGITS + "/classify", b"--x\r\n" + MARK.encode(), "multipart/form-data; boundary=x"),
    request("POST", DATES + "/generate", b"[" * 100_000, JSON),
    request("POST", DATES + "/generate", b'{"inputs": "' + MARK.encode(), JSON),
    request("POST", DATES + "/generate", b'{"inputs": "x", "temperature": NaN}', JSON),
    request("POST", DATES + "/generate", b'{"inputs": "\\ud800"}', JSON),
    document(DATES + "/generate", inputs=MARK * 20_000),
    document(DATES + "/generate", inputs=MARK * 9),
    document(DATES + "/generate", inputs="x", max_new_tokens=10**9),
    document(DATES + "/generate", inputs=[MARK] * 2049),
    document(DATES + "/generate", inputs={MARK: MARK}),
    document(DATES + "/attention", inputs="x", attention={"layers": list(range(5000))}),
    document(DATES + "/attention", inputs="x", attention={"method": "integrated", "steps": 10**9}),
    document(DATES + "/attention", inputs="x", attention={"method": "libra", "against": {"text": MARK}}),
    document(DIGITS + "/classify", images=[MARK]),
    document(f"/v1/models/{MARK}/generate", inputs="x"),
    request("GET", f"/{MARK}"),
    request("DELETE", DATES + "/generate"),
    request("GET", f"/v1/attention/{MARK}"),
    infer_image(SCANS[0], parameters={MARK: 1}),
    infer_image(SCANS[0], outputs=[{"name": MARK}]),
    infer_image(MARK.encode()),
    infer("digits", {**PICTURE, "parameters": {"binary_data_size": 1 << 40}}, binary=b"1"),
    infer("digits", {**PICTURE, "shape": [-1], "data": [MARK]}),
    infer("dates", {MARK: 1}),
    infer(MARK),
    request("POST", "/v2/models/digits/infer", SCANS[0], **{INFER_LENGTH: MARK}),
    request("POST", "/v2/repository/index", b"{" + MARK.encode()),
    request("POST", f"/v2/repository/models/{MARK}/load"),
    completion(MARK * 20_000),
    completion("x", **{MARK: 1}),
    completion("x", max_tokens=10**9),
    document("/v1/completions", model=MARK, prompt="x"),
    document("/v1/embeddings", model="dates", input=[[1, 2, 3]]),
    document("/v1/embeddings", model="digits", input=[f"data:{MARK};base64,{MARK}"], modality="image"),
    document("/v1/embeddings", model="digits", input=MARK, modality=[MARK]),
    document("/v1/chat/completions", model="dates", messages=[{"role": "user", "content": MARK}]),
    document("/v1/rerank", model="dates", query=MARK, documents=[MARK]),
    document("/v2/rerank", model=MARK, query="x", documents=[{"text": "x"}]),
    document("/score", model="dates", text_1=MARK, text_2=[MARK]),
    document(DATES + "/embed", inputs=MARK, prompt=MARK, prompt_name=MARK, dimensions=10**9),
    document("/v1/embeddings", model="digits", input=MARK, dimensions=3, prompt=MARK),
    document(DATES + "/rerank", query=MARK, texts=[MARK]),
    document(DATES + "/similarity", source=MARK, inputs=[MARK]),
    document(DATES + "/answer", inputs={"question": MARK, "context": MARK}, most_tokens=MARK),
    document(DATES + "/tag", inputs=MARK, aggregate=MARK, ignore=[MARK]),
    document(DATES + "/tei/predict", inputs=[[MARK]]),
    document(DATES + "/tei/rerank", query=MARK, texts=[MARK] * 2000),
    document(DATES, inputs={MARK: 1}),
    document(DIGITS, inputs=MARK),
    document(DATES, inputs="x", parameters={MARK: 1}),
    document(DATES, inputs=MARK, parameters={"candidate_labels": [MARK], "hypothesis_template": MARK}),
    document(DIGITS + "/classify", inputs=MARK, labels=[MARK] * 300, template=MARK),
    document(DATES + "/tei/embed", inputs=MARK),
]
REFUSED = frozenset({400, 404, 405, 406, 408, 413, 414, 415, 422, 431})


def _hostile(chance: random.Random) -> Case:
    return Case("hostile", chance.choice(HOSTILE), REFUSED)


def _cancelled(chance: random.Random) -> Case:
    kinds = (
        "classify",
        "several",
        "generate",
        "beams",
        "stream",
        "maps",
        "relevance",
        "libra",
        "integrated",
        "infer",
        "infer maps",
        "streamed completion",
        "pipeline",
        "hostile",
    )
    return Case("cancelled", MAKERS[chance.choice(kinds)](chance).request, leaves=chance.expovariate(200))


def _several(chance: random.Random) -> Case:
    images = [base64.b64encode(one).decode() for one in chance.sample(SCANS, 4)]
    return Case("several", document(DIGITS + "/classify", images=images, top_k=chance.randint(1, 10)))


def _scene(chance: random.Random) -> bytes:
    """Return a picture of several digits, of one, or of none in an extreme shape."""
    return chance.choice((SCENE, SMALL, shaped(1, chance.randint(1, 4000)), shaped(chance.randint(1, 4000), 3)))


def heavy(texts: int = 16, beams: int = 4) -> bytes:
    """Return a request that costs far more to answer than to refuse."""
    return document(DATES + "/generate", inputs=[DATE] * texts, num_beams=beams)


def images(path: str, count: int = 32) -> bytes:
    """Return a request with a form of several images."""
    part = b'--x\r\nContent-Disposition: form-data; name="image"; filename="i"\r\n\r\n%b\r\n'
    return request("POST", DIGITS + path, part % SMALL * count + b"--x--\r\n", "multipart/form-data; boundary=x")


MAKERS = {
    "live": lambda chance: Case("live", request("GET", "/health/live")),
    "classify": lambda chance: Case("classify", image("/classify", scan(chance))),
    "several": _several,
    "rollout": lambda chance: Case("rollout", image("/classify?attention=rollout", scan(chance))),
    "relevance": lambda chance: Case("relevance", image("/attention?method=relevance", scan(chance))),
    "libra": lambda chance: Case("libra", image("/classify?attention=libra", scan(chance))),
    "integrated": lambda chance: Case("integrated", image("/attention?method=integrated&steps=4", scan(chance))),
    "maps": lambda chance: Case("maps", image("/attention?layers=all&heads=all&queries=all&digits=3", scan(chance))),
    "generate": lambda chance: Case("generate", document(DATES + "/generate", inputs=text(chance))),
    "beams": lambda chance: Case("beams", document(DATES + "/generate", inputs=text(chance), num_beams=4)),
    "texts": lambda chance: Case("texts", document(MINILM + "/embed", inputs=[PARAGRAPH] * 16)),
    "short text": lambda chance: Case("short text", document(MINILM + "/embed", inputs="a cat")),
    "images": lambda chance: Case("images", images("/classify")),
    "heavy maps": lambda chance: Case("heavy maps", images("/attention?layers=all&heads=all&queries=all", 8)),
    "heavy": lambda chance: Case("heavy", heavy()),
    "generated maps": lambda chance: Case(
        "generated maps", document(DATES + "/attention", inputs=text(chance), attention={"kind": "cross"})
    ),
    "stream": lambda chance: Case("stream", document(DATES + "/generate", inputs=text(chance), stream=True)),
    "infer": lambda chance: Case("infer", infer_image(scan(chance))),
    "infer text": lambda chance: Case("infer text", infer_text(text(chance))),
    "infer maps": lambda chance: Case(
        "infer maps", infer_image(scan(chance), outputs=[{"name": "attention.encoder"}], parameters={"heads": "all"})
    ),
    "detect": lambda chance: Case("detect", image("/detect?threshold=0.9", _scene(chance), SCENES)),
    "detected maps": lambda chance: Case(
        "detected maps", image("/detect?attention=raw&kind=cross&heads=all&layers=all", _scene(chance), SCENES)
    ),
    "explained object": lambda chance: Case(
        "explained object", image(f"/attention?method=libra&target={chance.randrange(8)}", _scene(chance), SCENES)
    ),
    "infer objects": lambda chance: Case("infer objects", infer_image(_scene(chance), DETECTOR)),
    "completion": lambda chance: Case("completion", completion(text(chance))),
    "streamed completion": lambda chance: Case("streamed completion", completion(text(chance), stream=True)),
    "pipeline": lambda chance: Case("pipeline", pipeline(chance)),
    "hostile": _hostile,
    "cancelled": _cancelled,
}
