"""A PNG without what no pixel depends on: the same image, whatever its texts and profiles are."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from service.inputs import png_chunks
from service.inputs.image_preprocessing import open_image
from service.inputs.png_chunks import needed_chunks
from tests.samples.images import encoded

IMAGE = Image.fromarray(np.arange(600, dtype=np.uint8).reshape(20, 30))
PNG = encoded(IMAGE)
FIRST = 8 + 25
"""Bytes before what may follow the header."""
LARGE = zlib.compress(b"x" * 1_500_000)


def chunk(name, data, checksum=None):
    found = zlib.crc32(name + data) if checksum is None else checksum
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", found)


def with_chunk(made):
    return PNG[:FIRST] + made + PNG[FIRST:]


@pytest.mark.parametrize(
    "made",
    [
        chunk(b"zTXt", b"a\0\0" + LARGE), chunk(b"iTXt", b"a\0\1\0\0\0" + LARGE), chunk(b"iCCP", b"a\0\0" + LARGE),
        chunk(b"tEXt", b"a\0b", 7), chunk(b"tRNS", b"\0\0", 7), chunk(b"prVt", b""),
    ],
    ids=["zTXt", "iTXt", "iCCP", "wrong text", "wrong transparency", "private"],
)  # fmt: skip
def test_an_image_is_the_same_with_any_chunk_that_says_nothing_of_its_pixels(made):
    assert needed_chunks(with_chunk(made)) == PNG
    assert np.array_equal(np.asarray(open_image(with_chunk(made), 10**6)), np.asarray(IMAGE))


def test_transparency_and_orientation_stay():
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    IMAGE.save(file, "PNG", transparency=3, exif=exif)
    assert needed_chunks(file.getvalue()) == file.getvalue()


@pytest.mark.parametrize("length", [0, 8, 20, FIRST + 3, len(PNG) - 5])
def test_what_is_no_whole_chunk_stays_as_it_is(length):
    assert needed_chunks(PNG[:length]) == PNG[:length]


def test_a_length_beyond_the_end_is_left_to_the_decoder():
    broken = PNG[:FIRST] + b"\xff\xff\xff\xff" + b"tEXt" + PNG[FIRST:]
    assert needed_chunks(broken) == broken


def test_no_more_than_a_number_of_chunks_is_looked_at(monkeypatch):
    monkeypatch.setattr(png_chunks, "MOST_CHUNKS", 3)
    many = with_chunk(chunk(b"tEXt", b"a\0b") * 5)
    assert needed_chunks(many).count(b"tEXt") == 3
