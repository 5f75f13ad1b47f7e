"""The size of a TIFF is that of its image, or of its tiles if they are larger: these are decoded whole."""

import struct

import numpy as np
import pytest

from service.inputs.tiff_header import MOST_ENTRIES, tiff_size
from tests.samples.image_files import tiff

IMAGE = np.zeros((30, 40), int)


@pytest.mark.parametrize("order", ["<", ">"])
def test_larger_tiles_count(order):
    assert tiff_size(tiff(IMAGE, 1, order=order)) == (40, 30)
    tiles = [(322, 4, [512]), (323, 3, [256])]
    assert tiff_size(tiff(IMAGE, 1, order=order, more=tiles)) == (512, 256)
    assert tiff_size(tiff(IMAGE, 1, order=order, more=[(322, 4, [16]), (323, 3, [32])])) == (40, 30)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_big_tiff_has_wider_entries(order):
    entries = [struct.pack(f"{order}HHQ", 256, 16, 1) + struct.pack(f"{order}Q", 40)]
    entries += [struct.pack(f"{order}HHQ", 257, 3, 1) + struct.pack(f"{order}H6x", 30)]
    head = (b"II+\0" if order == "<" else b"MM\0+") + struct.pack(f"{order}HHQ", 8, 0, 16)
    assert tiff_size(head + struct.pack(f"{order}Q", 2) + b"".join(entries)) == (40, 30)


def test_of_many_entries_the_first_are_read():
    size = b"".join(struct.pack("<HHII", tag, 4, 1, side) for tag, side in ((256, 40), (257, 30)))
    other = struct.pack("<HHII", 700, 4, 1, 9)
    for before, found in ((MOST_ENTRIES - 2, (40, 30)), (MOST_ENTRIES - 1, None)):
        head = b"II*\0\x08\0\0\0" + struct.pack("<H", before + 2)
        assert tiff_size(head + other * before + size) == found


def test_a_size_of_another_type_is_none():
    assert tiff_size(tiff(IMAGE, 1).replace(struct.pack("<HH", 257, 4), struct.pack("<HH", 257, 5))) is None
