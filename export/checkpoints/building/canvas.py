"""What the canvas of a detector shows of pictures, for those who export one."""

import math
from collections.abc import Iterator, Mapping

from contract.input_rules import ImageRule

SHAPES: Mapping[str, tuple[int, int]] = {"1:1": (1, 1), "4:3": (4, 3), "3:4": (3, 4), "16:9": (16, 9), "9:16": (9, 16)}
"""The usual shapes of pictures: width to height."""
LARGE = 1000
"""Pictures of this number of times the numbers of SHAPES are larger than any canvas."""


def share_shown(rule: ImageRule) -> dict[str, float]:
    """Return the share of the pixels that its processor leaves a picture which the canvas shows, for each of SHAPES."""
    sides = {shape: (LARGE * width, LARGE * height) for shape, (width, height) in SHAPES.items()}
    return {
        shape: math.prod(rule.fitted(*size)) / math.prod(rule.wanted(*size) or rule.fitted(*size))
        for shape, size in sides.items()
    }


def about_canvas(rule: ImageRule, grid: tuple[int, int]) -> Iterator[str]:
    """Yield lines that say what the canvas of a rule that fits pictures in shows, and which one shows all of them."""
    shares = share_shown(rule)
    shown = ", ".join(f"{shape} {share:.0%}" for shape, share in shares.items())
    yield f"canvas {rule.height}x{rule.width}, which shows of the pixels that the processor leaves a picture: {shown}"
    height, width = rule.resize if isinstance(rule.resize, tuple) else (rule.longest or 0,) * 2
    if min(shares.values()) < 1 and height:
        cells = [side // count for side, count in zip((rule.height, rule.width), grid, strict=True)]
        tokens = math.prod(-(-side // cell) for side, cell in zip((height, width), cells, strict=True))
        yield f"--image-size {height}x{width} shows all, with {tokens} cells in place of {math.prod(grid)}"
