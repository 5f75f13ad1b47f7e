"""The size that a header announces is the one that Pillow reads, and hostile headers cost nothing."""

import io
import struct

import numpy as np
import pytest
from PIL import ExifTags, Image

from service.inputs.image_header import MOST_SEGMENTS, read_size
from tests.samples.images import encoded

SIZES = [(1, 1), (1, 300), (40, 30), (257, 513), (1023, 2), (16383, 3)]
WAYS = {
    "baseline": ("JPEG", "RGB", {}),
    "grey": ("JPEG", "L", {}),
    "cmyk": ("JPEG", "CMYK", {}),
    "progressive": ("JPEG", "RGB", {"progressive": True}),
    "restarts": ("JPEG", "RGB", {"restart_marker_rows": 1}),
    "a JPEG with a profile": ("JPEG", "RGB", {"icc_profile": bytes(200_000), "comment": b"\xff\xc0" * 100}),
    "png": ("PNG", "RGB", {}),
    "bits": ("PNG", "1", {}),
    "a PNG with a profile": ("PNG", "RGBA", {"icc_profile": bytes(20_000)}),
    "lossy": ("WEBP", "RGB", {}),
    "lossless": ("WEBP", "RGB", {"lossless": True}),
    "transparent": ("WEBP", "RGBA", {}),
    "a WebP with a profile": ("WEBP", "RGB", {"icc_profile": bytes(100)}),
    "animated": ("WEBP", "RGB", {"save_all": True, "append_images": "another"}),
    "several": ("MPO", "RGB", {"save_all": True, "append_images": "another"}),
    "gif": ("GIF", "P", {}),
    "gif that moves": ("GIF", "L", {"save_all": True, "append_images": "another", "comment": b"," * 2000}),
    "bitmap": ("BMP", "RGB", {}),
    "tiff": ("TIFF", "RGB", {}),
    "deflated": ("TIFF", "I;16", {"compression": "tiff_adobe_deflate"}),
    "big": ("TIFF", "L", {"big_tiff": True}),
    "a plain AVIF": ("AVIF", "RGB", {"speed": 10}),
    "a transparent AVIF": ("AVIF", "RGBA", {"speed": 10}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", SIZES)
def test_the_size_is_the_one_that_pillow_reads(way, size):
    kind, mode, options = WAYS[way]
    image = Image.new(mode, size)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    if "append_images" in options:
        options = options | {"append_images": [image.rotate(180)]}
    if kind not in ("MPO", "TIFF"):  # the first cannot be written so, the second is turned as it is opened
        options = options | {"exif": exif}
    data = encoded(image, kind, **options)
    assert read_size(data) == Image.open(io.BytesIO(data)).size == size


def test_fill_bytes_before_a_marker_are_skipped():
    data = encoded(Image.new("L", (40, 30)), "JPEG")
    filled = data[:2] + b"\xff\xff" + data[2:]
    assert read_size(filled) == Image.open(io.BytesIO(filled)).size == (40, 30)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff", b"\xff\xd8\xff", b"none of them", b"GIF89a" + bytes(50), b"GIF89a" + b"!" * 9000,
        b"RIFF\0\0\0\0WAVE" + bytes(50),
        b"RIFF\0\0\0\0WEBPVP8 " + bytes(50), b"RIFF\0\0\0\0WEBPVP8L" + bytes(50), b"RIFF\0\0\0\0WEBPALPH" + bytes(50),
        b"\x89PNG\r\n\x1a\n" + bytes(50), b"\xff\xd8\xff\xd9" + bytes(50), b"\xff\xd8\xff\xda" + bytes(50),
        b"\xff\xd8\xff\xe0\0\x04\0\0\0", b"BM" + bytes(50), b"BM" + bytes(12) + b"\x0c\0\0\0", b"II*\0" + bytes(50),
        b"MM\0*\0\0\xff\xff" + bytes(50), b"\0\0\0\x18ftypavif" + bytes(50), b"\xff\xd8\xff\xd8\xff\xc0" + bytes(50),
    ],
)  # fmt: skip
def test_what_is_no_usual_header_has_no_size(data):
    assert read_size(data) is None


def test_a_header_of_many_segments_is_given_up():
    segments = b"\xff\xe1\0\x02"
    frame = b"\xff\xc0\0\x0b\x08" + struct.pack(">HH", 30, 40) + bytes(9)
    assert read_size(b"\xff\xd8" + segments * (MOST_SEGMENTS - 1) + frame) == (40, 30)
    assert read_size(b"\xff\xd8" + segments * MOST_SEGMENTS + frame) is None
    assert read_size(b"\xff\xd8" + b"\xff" * (10 << 20)) is None


def test_a_gif_of_many_blocks_is_given_up():
    screen, image = b"GIF89a" + struct.pack("<HHBBB", 40, 30, 0, 0, 0), b"," + struct.pack("<HHHH", 0, 0, 40, 30)
    assert read_size(screen + b"!\xfe" + b"\x01," * (MOST_SEGMENTS - 4) + b"\0" + image) == (40, 30)
    assert read_size(screen + b"!\xfe" + b"\x01," * (MOST_SEGMENTS) + b"\0" + image) is None


def test_a_gif_is_as_large_as_its_first_image_and_its_screen_together():
    image = b"," + struct.pack("<HHHH", 30, 1, 40, 9)
    assert read_size(b"GIF87a" + struct.pack("<HHBBB", 50, 30, 0x81, 0, 0) + bytes(12) + image) == (70, 30)


@pytest.mark.parametrize(
    "header", [struct.pack("<IHH", 12, 70, 30), struct.pack("<Iii", 40, 70, 30), struct.pack("<Iii", 124, 70, -30)]
)
def test_a_bitmap_may_be_of_os2_and_from_top_to_bottom(header):
    assert read_size(b"BM" + bytes(12) + header) == (70, 30)


@pytest.mark.parametrize("way", WAYS)
def test_no_header_makes_it_fail(way):
    kind, mode, options = WAYS[way]
    options = {name: value for name, value in options.items() if name != "append_images"}
    whole, random = encoded(Image.new(mode, (40, 30)), kind, **options)[:2000], np.random.default_rng(0)
    for length in range(60):
        read_size(whole[:length])
    for _ in range(500):
        data = bytearray(whole)
        for place in random.integers(0, min(len(data), 200), random.integers(1, 9)):
            data[place] = random.integers(256)
        size = read_size(bytes(data))
        assert size is None or all(0 <= side < 2**32 for side in size)
