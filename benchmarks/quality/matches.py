"""Whether `similar` finds a part of a photograph again in a changed copy of it."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from PIL import Image, ImageEnhance

from export.examples import PHOTOS
from export.plan import Source
from service.explanations.states import likeness, middle_of

Report = Callable[[str], None]
Points: TypeAlias = np.ndarray
"""(point, 2): x and y, in pixels of the model's input."""
Change: TypeAlias = tuple[Callable[[Image.Image], Image.Image], Callable[[Points, int], Points]]
"""What is done to a picture, and where its points then are, of a picture of this side."""

PATCHES = 200
"""How many patches of the four photographs together are looked for."""
NEAR = 1.5
"""The hottest patch is right within one patch: its middle is at most this number of a patch's sides from the place,
which need not be the middle of one."""
LAYERS = (5, 7, 9, 11)


def _lit(factor: float) -> Change:
    return lambda image: ImageEnhance.Brightness(image).enhance(factor), lambda points, _: points


def _cropped(share: float, place: float = 0.5) -> Change:
    """Cut out a square of this share of the side, and enlarge it; its place is from the upper left, 0, to 1."""

    def box(side: int) -> tuple[float, float]:
        return side * (1 - share) * place, side * share

    def cut(image: Image.Image) -> Image.Image:
        first, length = box(image.width)
        return image.resize(image.size, Image.Resampling.BICUBIC, (first, first, first + length, first + length))

    return cut, lambda points, side: (points - box(side)[0]) / share


def _turned(degrees: float) -> Change:
    """Turn it about its middle, against the clock."""
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return (
        lambda image: image.rotate(degrees, Image.Resampling.BICUBIC),
        lambda points, side: (points - side / 2) @ turn + side / 2,
    )


CHANGES: dict[str, Change] = {
    "darker (0.5)": _lit(0.5),
    "brighter (1.5)": _lit(1.5),
    "cropped to 0.8": _cropped(0.8),
    "cropped to 0.6": _cropped(0.6),
    "cropped to 0.6, upper left": _cropped(0.6, 0),
    "turned by 15°": _turned(15),
    "turned by 30°": _turned(30),
    "mirrored": (
        lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        lambda points, side: points * [-1, 1] + [side, 0],
    ),
    "turned by 90°": _turned(90),
    "turned by 180°": _turned(180),
}


def match_table(source: Source, report: Report) -> dict:
    """Return for each layer and change the share of patches whose hottest one in the changed copy is the right one."""
    pictures = [_square(Image.open(file), source.image.width) for file in PHOTOS]
    plain = [states_of(source, one) for one in pictures]
    looked_for = [_textured(one, source, PATCHES // len(pictures)) for one in pictures]
    found: dict = {str(layer): {} for layer in LAYERS}
    for name, (change, moved) in CHANGES.items():
        report(f"matches: {name}")
        changed = [states_of(source, change(one)) for one in pictures]
        for layer in LAYERS:
            hits = [
                _hits(own[layer], other[layer], patches, source, moved)
                for own, other, patches in zip(plain, changed, looked_for, strict=True)
            ]
            found[str(layer)][name] = float(np.concatenate(hits).mean())
    return {"patches": PATCHES, "layers": found}


def _square(image: Image.Image, side: int) -> Image.Image:
    """Return the middle square of a picture, so large that the model takes it as it is."""
    least = min(image.size)
    left, top = (image.width - least) // 2, (image.height - least) // 2
    middle = image.convert("RGB").crop((left, top, left + least, top + least))
    return middle.resize((side, side), Image.Resampling.BICUBIC)


def states_of(source: Source, image: Image.Image) -> list[np.ndarray]:
    """Return the states of the patches (patch, width) after each layer."""
    (kind,) = source.attention
    with torch.no_grad():
        states = source.traced.watched(torch.from_numpy(np.array(image))[None]).states
    return [states[name][0, kind.patches].double().numpy() for name in source.traced.returned_states]


def _textured(image: Image.Image, source: Source, count: int) -> np.ndarray:
    """Return patches by number, drawn from the half of them whose greys differ most."""
    rows, columns = source.attention[0].grid
    grey = np.asarray(image.convert("L"), float)
    spread = grey.reshape(rows, image.height // rows, columns, image.width // columns).std((1, 3)).ravel()
    half = np.flatnonzero(spread >= np.median(spread))
    return np.random.default_rng(0).choice(half, count, replace=False)


def _hits(
    own: np.ndarray, other: np.ndarray, patches: np.ndarray, source: Source, moved: Callable[[Points, int], Points]
) -> np.ndarray:
    """Return for each of the patches that are still in the picture whether the hottest one is where it went."""
    side, columns = source.image.width, source.attention[0].grid[1]
    cell = side / columns
    centres = np.stack([np.arange(len(own)) % columns, np.arange(len(own)) // columns], axis=1) * cell + cell / 2
    right = moved(centres[patches], side)
    inside = ((right > 0) & (right < side)).all(1)
    all_parts = np.ones(len(own), bool)
    middle = middle_of([(own, all_parts), (other, all_parts)])
    hottest = likeness(own[patches], other, middle).argmax(1)
    return (np.abs(centres[hottest] - right).max(1) <= NEAR * cell)[inside]
