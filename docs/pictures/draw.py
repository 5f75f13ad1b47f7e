"""Draw the pictures of the README and of docs/attention.md, every one by the service: `make picture`."""

import io
import json
import time
from pathlib import Path

from fastapi.testclient import TestClient
from PIL import Image, ImageDraw, ImageFont

from service.app import create_app
from service.repository.loading.load import load
from service.settings import Settings
from service.store import open_store

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SEVEN = (ROOT / "tests/data/digits/seven.png").read_bytes()
SCENE = (ROOT / "tests/data/scenes/five.png").read_bytes()
TEXT = "on Tuesday, the 23rd of March 2021"
SENTENCES = "The violin is on the table.", "She bought a violin."
INK, PAPER, EDGE = (30, 30, 36), (255, 255, 255), 20


def digit(client, **options):
    """Return the picture of a seven under a map of it."""
    answer = client.post(
        "/v1/models/digits/attention", params=options, content=SEVEN, headers={"Content-Type": "image/png"}
    )
    return Image.open(io.BytesIO(answer.content)).convert("RGB")


def date(client, **options):
    """Return the matrix of a map of a date, and the text that was written."""
    written = client.post("/v1/models/dates/generate", json={"inputs": TEXT}).json()
    answer = client.get(f"/v1/attention/{written['id']}", params={"format": "png", "kind": "cross", **options})
    return Image.open(io.BytesIO(answer.content)).convert("RGB"), written["results"][0]["text"]


def scene(client, **options):
    """Return the picture of five digits under a map of one of them."""
    answer = client.post(
        "/v1/models/scenes-detr/attention", params=options, content=SCENE, headers={"Content-Type": "image/png"}
    )
    return Image.open(io.BytesIO(answer.content)).convert("RGB")


def likeness(client, **options):
    """Return what in the first of two sentences makes the second one like it."""
    asked = {"format": "png", "against": {"text": SENTENCES[1]}, **options}
    answer = client.post("/v1/models/minilm/attention", json={"inputs": SENTENCES[0], "attention": asked})
    return Image.open(io.BytesIO(answer.content)).convert("RGB")


def example(model, name):
    """Return an example's picture of a bundled model."""
    return (ROOT / "model/bundled" / model / "examples" / f"{name}.png").read_bytes()


def photo(name):
    """Return a photograph among the examples."""
    return (ROOT / f"model/bundled/photos/examples/{name}.jpg").read_bytes()


def compared(client, one, other, **options):
    """Return what the states of two photographs say of both, one below the other."""
    jpeg = {"Content-Type": "image/jpeg"}
    answered = client.post("/v1/models/photos/embed", content=photo(other), headers=jpeg).json()
    asked = {"format": "png", "width": 360, "against": json.dumps({"id": answered["id"]}), **options}
    answer = client.post("/v1/models/photos/attention", params=asked, content=photo(one), headers=jpeg)
    return Image.open(io.BytesIO(answer.content)).convert("RGB")


def seen(client, model, content, **options):
    """Return a picture under a map of it, and the picture itself, both of one width."""
    asked = {"format": "png", "width": 240, **options}
    answer = client.post(
        f"/v1/models/{model}/attention", params=asked, content=content, headers={"Content-Type": "image/png"}
    )
    return Image.open(io.BytesIO(answer.content)).convert("RGB")


def beside(pictures):
    """Return pictures side by side, each with its words below."""
    width = sum(picture.width for picture, _ in pictures) + EDGE * (len(pictures) + 1)
    canvas = Image.new("RGB", (width, max(picture.height for picture, _ in pictures) + 2 * EDGE + 24), PAPER)
    pen, font, left = ImageDraw.Draw(canvas), ImageFont.load_default(15), EDGE
    for picture, words in pictures:
        canvas.paste(picture, (left, EDGE))
        pen.text((left, EDGE + 8 + picture.height), words, INK, font)
        left += picture.width + EDGE
    return canvas


def main():
    """Write the pictures."""
    settings = Settings(artifacts=ROOT / "artifacts")
    with TestClient(
        create_app(settings, load(settings), open_store(settings)), headers={"Accept": "image/png"}
    ) as client:
        while client.get("/health/ready").status_code != 200:
            time.sleep(0.05)
        sent = Image.open(io.BytesIO(SEVEN)).convert("RGB")
        rollout = digit(client, method="rollout")
        seven, one = digit(client, method="relevance", target=7), digit(client, method="relevance", target=1)
        emitted, written = date(client, layers=1)
        fed, _ = date(client, layers=1, align="input")
        pictures = {
            "attention": [(sent, "what was sent"), (rollout, "digits: rollout"), (emitted, f"dates: {written}")],
            "raw": [
                (digit(client, method="raw"), "last layer, mean of heads"),
                (digit(client, method="raw", heads=0), "last layer, head 0"),
                (digit(client, method="raw", layers=0), "first layer, mean of heads"),
            ],
            "rollout": [(rollout, "all layers"), (digit(client, method="rollout", discard=0.9), "discard=0.9")],
            "norm": [
                (digit(client, method="norm"), "digits: last layer"),
                (date(client, layers=1, method="norm")[0], "dates: cross, layer 1"),
            ],
            "relevance": [(seven, "what speaks for 7"), (one, "what speaks for 1")],
            "cross": [(emitted, "align=emit"), (fed, "align=input")],
            "libra": [
                (digit(client, method="libra", target=7), "what speaks for 7"),
                (digit(client, method="libra", target=1), "what speaks for 1"),
                (digit(client, method="libra", target=7, against='{"index": 1}'), "for 7 rather than 1"),
            ],
            "alignment": [(date(client, method="libra")[0], f"dates: {written}, by libra")],
            "integrated": [
                (digit(client, method="integrated", target=7), "what speaks for 7"),
                (digit(client, method="integrated", target=1), "what speaks for 1"),
                (digit(client, method="integrated", target=7, against='{"index": 1}'), "for 7 rather than 1"),
            ],
            "objects": [
                (scene(client, kind="cross", queries=1), "where object 1 looked"),
                (scene(client, method="libra", target=1), "what speaks for its 3"),
                (scene(client, method="libra", target=1, against='{"index": 8}'), "for 3 rather than 8"),
            ],
            "likeness": [
                (likeness(client, method="libra"), f"libra, against “{SENTENCES[1]}”"),
                (likeness(client, method="relevance"), "relevance, against the same"),
            ],
            "scenes": [
                (
                    seen(client, "scenes-detr", SCENE, kind="cross", layers=1, queries=1),
                    "scenes-detr: cross of an object",
                ),
                (seen(client, "scenes-detr", SCENE, method="libra", target=1), "the same, by libra"),
                (
                    seen(client, "scenes-swin", example("scenes-swin", "6173-6"), method="rollout", kind="stage2"),
                    "scenes-swin: rollout, two stages",
                ),
                (
                    seen(client, "scenes-dino", example("scenes-dino", "seven"), method="rollout"),
                    "scenes-dino: rollout",
                ),
            ],
            "similar": [
                (compared(client, "astronaut", "rocket", method="similar", queries=63), "like the tank of the shuttle"),
                (compared(client, "astronaut", "cat", method="similar", queries=24), "like her hair"),
            ],
            "parts": [
                (compared(client, "astronaut", "cat", method="parts"), "the parts of both"),
            ],
            "saliency": [
                (seen(client, "photos", photo(name), **options), f"{name}: {options['method']}")
                for name in ("cat", "rocket")
                for options in ({"method": "saliency"}, {"method": "rollout", "sinks": "out", "discard": 0.9})
            ],
            "evaluation": [(digit(client, evaluate="compare"), "digits: the seven that was sent")],
        }
        words = client.post(
            "/v1/models/captions-soft/attention",
            params={"format": "png"},
            content=SCENE,
            headers={"Content-Type": "image/png"},
        )
        (HERE / "captions.png").write_bytes(words.content)
    for name, parts in pictures.items():
        beside(parts).save(HERE / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
