"""Draw the README's picture from the service's own answers: `make picture`."""

import time
from pathlib import Path

import numpy as np
from fastapi.testclient import TestClient
from PIL import Image, ImageDraw, ImageFont

from service.app import create_app
from service.served import load
from service.settings import Settings

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TEXT = "on Tuesday, the 23rd of March 2021"
VIRIDIS = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], float)
INK, PAPER, SIDE = (30, 30, 36), (255, 255, 255), 280


def colour(values):
    """Values in [0, 1] -> viridis."""
    place = values.clip(0, 1) * (len(VIRIDIS) - 1)
    low = np.minimum(place.astype(int), len(VIRIDIS) - 2)
    share = (place - low)[..., None]
    return (VIRIDIS[low] * (1 - share) + VIRIDIS[low + 1] * share).astype(np.uint8)


def overlay(client):
    """Return the picture that was sent beside the same picture under its rollout, and what was read in it."""
    file = ROOT / "tests/data/digits/seven.png"
    answer = client.post(
        "/v1/models/digits/classify?top_k=1&attention=rollout",
        content=file.read_bytes(),
        headers={"Content-Type": "image/png"},
    ).json()["results"][0]
    attention = answer["attention"]
    grid = attention["tokens"]["grid"]
    weights = np.array(attention["maps"][0]["values"][0][0][attention["tokens"]["prefix"] :])
    weights = (weights / weights.max()).reshape(grid["rows"], grid["columns"])
    box = attention["image"]["box"]
    width, height = round(box["right"] - box["left"]), round(box["bottom"] - box["top"])
    image = Image.open(file).convert("RGB")
    heat = Image.fromarray((weights * 255).astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    heat = np.asarray(heat, float) / 255
    mask = Image.fromarray((60 + 150 * heat).astype(np.uint8))
    shown = image.copy()
    shown.paste(Image.fromarray(colour(heat)), (round(box["left"]), round(box["top"])), mask)
    label = answer["labels"][0]
    return image, shown, f"{label['label']}, with probability {label['probability']:.3f}"


def matrix(client):
    """Return the cross-attention of a date as a labelled matrix, and the text that was written."""
    answer = client.post(
        "/v1/models/dates/generate",
        json={"inputs": TEXT, "attention": {"kind": "cross", "layers": "all", "heads": "mean"}},
    ).json()["results"][0]
    attention = answer["attention"]
    # of the decoder's layers the one whose rows are the most decided
    values = max((np.array(shown["values"][0]) for shown in attention["maps"]), key=lambda rows: rows.max(1).mean())
    cell, left, top = 17, 40, 30
    rows, columns = values.shape
    canvas = Image.new("RGB", (left + columns * cell + 2, top + rows * cell + 2), PAPER)
    squares = Image.fromarray(colour(values / values.max()))
    canvas.paste(squares.resize((columns * cell, rows * cell), Image.Resampling.NEAREST), (left, top))
    pen, font = ImageDraw.Draw(canvas), ImageFont.load_default(13)
    for column, token in enumerate(attention["tokens"]["source"]):
        start, stop = token["span"]
        pen.text((left + (column + 0.5) * cell, top - 10), TEXT[start:stop], INK, font, anchor="mm")
    for row, token in enumerate(attention["tokens"]["target"]):
        text = "end" if token["special"] else token["text"]
        pen.text((left - 10, top + (row + 0.5) * cell), text, INK, font, anchor="rm")
    return canvas, answer["text"]


def main():
    """Write attention.png."""
    settings = Settings(artifacts=ROOT / "artifacts")
    with TestClient(create_app(settings, load(settings))) as client:
        while client.get("/health/ready").status_code != 200:
            time.sleep(0.05)
        image, shown, read = overlay(client)
        written, date = matrix(client)
    font = ImageFont.load_default(15)
    canvas = Image.new("RGB", (2 * image.width + written.width + 80, max(image.height, written.height) + 60), PAPER)
    canvas.paste(image, (20, 20))
    canvas.paste(shown, (30 + image.width, 20))
    canvas.paste(written, (50 + 2 * image.width, 20))
    pen = ImageDraw.Draw(canvas)
    pen.text((30 + image.width, 30 + image.height), f"digits: {read}", INK, font)
    pen.text((90 + 2 * image.width, 26 + written.height), f"dates: {date}", INK, font)
    canvas.save(HERE / "attention.png", optimize=True)


if __name__ == "__main__":
    main()
