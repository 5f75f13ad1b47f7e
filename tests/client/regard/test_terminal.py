import base64
import io
import re

import numpy as np
import pytest
from PIL import Image
from regard import terminal
from regard.terminal import can_show, drawn

PIXELS = np.random.default_rng(0).integers(0, 256, (80, 60, 3), dtype=np.uint8)
PICTURE = Image.fromarray(PIXELS)
KITTY, ITERM, COLOURS = {"KITTY_WINDOW_ID": "1"}, {"TERM_PROGRAM": "iTerm.app"}, {"COLORTERM": "truecolor"}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(content):
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image)


def test_kitty_gets_the_picture_in_chunks():
    chunks = re.findall(r"\x1b_G(.*?);(.*?)\x1b\\", drawn(PICTURE, KITTY))
    assert len(chunks) > 1
    assert all(len(data) <= terminal.CHUNK for _, data in chunks)
    assert [head[-3:] for head, _ in chunks] == [*["m=1"] * (len(chunks) - 1), "m=0"]
    np.testing.assert_array_equal(shown(base64.b64decode("".join(data for _, data in chunks))), PIXELS)


def test_iterm_gets_the_picture_with_its_size():
    size, data = re.search(r"size=(\d+);width=\d+:(.*)\a", drawn(PICTURE, ITERM)).groups()
    content = base64.b64decode(data)
    assert len(content) == int(size)
    np.testing.assert_array_equal(shown(content), PIXELS)


def test_blocks_have_the_colours_of_two_pixels_each(monkeypatch):
    monkeypatch.setattr(terminal, "_columns", lambda: 60)
    lines = drawn(PICTURE, COLOURS).splitlines()
    found = np.array(
        [
            [list(map(int, cell)) for cell in re.findall(r"38;2;(\d+);(\d+);(\d+);48;2;(\d+);(\d+);(\d+)m", line)]
            for line in lines
        ]
    )
    np.testing.assert_array_equal(found[..., :3], PIXELS[::2])
    np.testing.assert_array_equal(found[..., 3:], PIXELS[1::2])
    assert all(line.endswith("\x1b[0m") for line in lines), "colours end with each line"


def test_a_thin_picture_has_a_line(monkeypatch):
    monkeypatch.setattr(terminal, "_columns", lambda: 8)
    assert drawn(PICTURE.resize((500, 1)), COLOURS).count("\n") == 1


@pytest.mark.parametrize(
    ("environment", "can"),
    [
        (KITTY, True),
        ({"TERM_PROGRAM": "ghostty"}, True),
        (ITERM, True),
        ({"TERM_PROGRAM": "WezTerm"}, True),
        (COLOURS, True),
        ({}, False),
        ({**KITTY, "TMUX": "/tmp/tmux"}, False),
        ({**KITTY, **COLOURS, "TMUX": "/tmp/tmux"}, True),
        ({**COLOURS, "NO_COLOR": "1"}, False),
        ({**COLOURS, "NO_COLOR": ""}, True),
        ({**KITTY, "NO_COLOR": "1"}, False),
        ({**COLOURS, "TERM": "dumb"}, False),
    ],
)
def test_pictures_are_shown_where_the_terminal_can(environment, can):
    assert can_show(Terminal(), environment) is can
    assert not can_show(io.StringIO(), environment), "a file is no terminal"
    assert bool(drawn(PICTURE, environment)) is can


@pytest.mark.parametrize(("encoding", "can"), [("utf-8", True), ("ascii", False), ("latin-1", False)])
def test_blocks_are_shown_where_the_encoding_has_their_letter(monkeypatch, encoding, can):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding, errors="replace")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    assert can_show(terminal, COLOURS) is can
    assert can_show(terminal, KITTY), "its codes are of ASCII"


def test_a_stream_that_is_closed_shows_nothing(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    assert not can_show(environment=COLOURS)


def test_within_tmux_it_is_blocks():
    assert "▀" in drawn(PICTURE, {**KITTY, **COLOURS, "TMUX": "/tmp/tmux"})
