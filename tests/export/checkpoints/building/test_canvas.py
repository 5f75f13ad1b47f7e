"""What the canvas of a detector shows of pictures, by numbers worked out by hand."""

import pytest

from contract.input_rules import ImageRule
from export.checkpoints.building.canvas import about_canvas, share_shown


def rule(height, width, **more):
    return ImageRule(height=height, width=width, channels=3, locate="fit", mean=(0.5,) * 3, std=(0.5,) * 3, **more)


PUBLISHED = {"resize": 800, "longest": 1333}


def test_a_landscape_canvas_shows_less_of_a_portrait():
    """Of 600 x 800 pixels in place of 800 x 1066; of 1088 x 612 in place of 1333 x 750; of 450 x 800."""
    assert share_shown(rule(800, 1088, **PUBLISHED)) == {
        "1:1": 1, "4:3": 1, "3:4": 600 * 800 / (800 * 1066), "16:9": 1088 * 612 / (1333 * 750),
        "9:16": 450 * 800 / (1333 * 750),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (
            rule(800, 1088, **PUBLISHED),
            ["1:1 100%, 4:3 100%, 3:4 56%, 16:9 67%, 9:16 36%", "1333x1333 shows all, with 1764 cells in place of 850"],
        ),
        (rule(1344, 1344, **PUBLISHED), ["1:1 100%, 4:3 100%, 3:4 100%, 16:9 100%, 9:16 100%"]),
        (
            rule(64, 96, resize=(90, 120)),
            ["1:1 51%, 4:3 50%, 3:4 51%, 16:9 64%, 9:16 51%", "90x120 shows all, with 12 cells in place of 6"],
        ),
        (rule(64, 96), ["1:1 100%, 4:3 100%, 3:4 100%, 16:9 100%, 9:16 100%"]),  # where nothing else bounds it
    ],
)
def test_who_exports_is_told_what_is_shown_and_what_shows_all(given, lines):
    grid = given.height // 32, given.width // 32
    said = list(about_canvas(given, grid))
    assert len(said) == len(lines)
    for line, words in zip(said, lines, strict=True):
        assert line.endswith(words)
