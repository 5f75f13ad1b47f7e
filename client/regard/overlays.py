"""Heat laid over a picture by the rule of the service's pictures, and pictures side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from regard.colours import AGAINST_AND_FOR, HEAT, levels_of
from regard.errors import BadInput

Ground: TypeAlias = Literal["grey", "photo"]
"""What is under the heat: the picture in grey, darker where the model does not look, or as it was sent."""
OPACITY = 0.8
"""Of heat where it is hottest."""
GREY = np.array([0.30, 0.59, 0.11], np.float32)
"""What red, green and blue add to a grey."""
SEEN, UNSEEN = 0.8, 0.4
"""Brightness of a grey ground, where the model looks and beside it."""
COLOURED = 3
"""The axes of heat that is colours."""
TITLE, GAP = 14, 8
"""Pixels: the height of a title's text, and the space between pictures."""


def laid_over(
    picture: Image.Image,
    heat: npt.NDArray[np.float32],
    *,
    signed: bool = False,
    opacity: float = OPACITY,
    ground: Ground = "grey",
) -> Image.Image:
    """Return a picture under heat, as the service draws it. Raises BadInput if they differ in size.

    `heat` is (height, width), from 0 to 1, or -1 to 1 where it is `signed`, as `heat(scale=True)` returns it; or
    colours from 0 to 1, (height, width, 3). It is NaN where the model did not look.
    """
    if heat.shape[:2] != (picture.height, picture.width):
        given = f"{picture.width} x {picture.height}"
        raise BadInput(f"picture: must be as large as its heat, {heat.shape[1]} x {heat.shape[0]}, given {given}")
    pixels: npt.NDArray[np.floating] = np.asarray(picture.convert("RGB"), np.float32)
    seen = ~np.isnan(heat if heat.ndim < COLOURED else heat[..., 0])
    if ground == "grey":
        pixels = np.repeat((pixels @ GREY * np.where(seen, np.float32(SEEN), np.float32(UNSEEN)))[..., None], 3, axis=2)
    if heat.ndim == COLOURED:
        colours, share = (
            np.float32(255) * np.nan_to_num(heat),
            np.where(seen, np.float32(opacity), np.float32(0))[..., None],
        )
    else:
        table = AGAINST_AND_FOR if signed else HEAT
        levels = levels_of(np.nan_to_num((heat + 1) / 2 if signed else heat), table)
        colours = table[levels].astype(np.float32)
        growing = np.abs(np.linspace(-opacity if signed else 0, opacity, len(table), dtype=np.float32))
        share = np.where(seen, growing[levels], np.float32(0))[..., None]
    return Image.fromarray((pixels + share * (colours - pixels) + np.float32(0.5)).astype(np.uint8))


def side_by_side(pictures: Iterable[Image.Image | npt.NDArray[np.uint8]], titles: Sequence[str] = ()) -> Image.Image:
    """Return pictures as one, from left to right, each under its title where there are titles.

    They are Pillow images or arrays of bytes. Raises BadInput for none, and for other numbers of titles.
    """
    shown = [one if isinstance(one, Image.Image) else Image.fromarray(one) for one in pictures]
    if not shown:
        raise BadInput("pictures: must be at least one, given none")
    if titles and len(titles) != len(shown):
        raise BadInput(f"titles: must be as many as pictures, {len(shown)}, given {len(titles)}")
    above = TITLE + GAP if titles else 0
    width = sum(one.width for one in shown) + GAP * (len(shown) - 1)
    sheet = Image.new("RGB", (width, max(one.height for one in shown) + above), "white")
    pen, font, left = ImageDraw.Draw(sheet), ImageFont.load_default(TITLE), 0
    for at, one in enumerate(shown):
        sheet.paste(one.convert("RGB"), (left, above))
        if titles:
            pen.text((left, GAP // 2), titles[at], "black", font)
        left += one.width + GAP
    return sheet
