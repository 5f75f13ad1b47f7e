import re

import numpy as np
import pytest

from service.api.page import colours
from service.explanations.colormaps import AGAINST_AND_FOR, COLORMAPS, SIGNED


def table(text, name):
    """Return the colours that a script gives a name, (levels, 3)."""
    strings = re.search(rf"\b{name}(?::| =)\n((?:\s+'[0-9a-f]+'(?: \+)?,?\n?)+)", text)[1]
    return np.frombuffer(bytes.fromhex("".join(re.findall("[0-9a-f]+", strings))), np.uint8).reshape(-1, 3)


def test_the_pages_file_is_what_the_command_writes():
    assert colours.FILE.read_text() == colours.script(), "run: python -m service.api.page.colours"


@pytest.mark.parametrize("name", COLORMAPS)
def test_a_colour_map_of_the_page_is_the_services(name):
    assert (table(colours.FILE.read_text(), name) == COLORMAPS[name]).all()


def test_signed_colours_of_the_page_are_the_services():
    text = colours.FILE.read_text()
    assert (table(text, "SIGNED") == SIGNED).all()
    two = re.findall("'([0-9a-f]{6})'", text.partition("AGAINST_AND_FOR")[2])
    assert [list(bytes.fromhex(one)) for one in two] == [AGAINST_AND_FOR[0].tolist(), AGAINST_AND_FOR[127].tolist()]
