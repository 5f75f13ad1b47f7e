"""The size of an AVIF is the largest that its boxes or the AV1 in them announce."""

import struct
import time

import pytest
from PIL import Image

from service.inputs.avif_header import MOST_STEPS, avif_size, still
from tests.samples.images import encoded

SMALL, LARGE = (encoded(Image.new("RGB", size), "AVIF", speed=10) for size in ((40, 30), (1000, 700)))


def box(kind, content):
    return struct.pack(">I4s", 8 + len(content), kind) + content


def announced(data, width, height):
    """An AVIF whose boxes say another size than its AV1."""
    place = data.index(b"ispe") + 8
    return data[:place] + struct.pack(">II", width, height) + data[place + 8 :]


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_boxes_cannot_make_the_av1_in_them_smaller(mode):
    data = encoded(Image.new(mode, (1000, 700)), "AVIF", speed=10)
    assert avif_size(announced(data, 64, 48)) == avif_size(data) == (1000, 700)
    assert avif_size(announced(data, 2000, 1500)) == (2000, 1500)


def bits(*fields):
    """Return numbers of some bits each, one behind another, as bytes."""
    text = "".join(f"{value:0{width}b}" for value, width in fields)
    return int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")


SIZE = ((15, 4), (15, 4), (4095, 16), (2047, 16))  # 16 bits each, and the sides less one
HEADERS = {
    "reduced": ((0, 3), (1, 1), (1, 1), (0, 5), *SIZE),
    "plain": ((0, 3), (0, 1), (0, 1), (0, 1), (0, 1), (0, 5), (0, 12), (5, 5), *SIZE),
    "two points, of a tier, with delays": (
        (0, 3), (0, 1), (0, 1), (0, 1), (1, 1), (1, 5),
        (0, 12), (9, 5), (1, 1), (1, 1), (3, 4), (0, 12), (5, 5), (0, 1), *SIZE,
    ),
    "timed": (
        (0, 3), (0, 1), (0, 1), (1, 1), (1, 32), (30, 32), (1, 1), (0, 2), (1, 1), (2, 2), (1, 1),
        (9, 5), (1, 32), (9, 5), (9, 5), (0, 1), (0, 5), (0, 12), (5, 5), (1, 1), (7, 10), (8, 10), (0, 1), *SIZE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", HEADERS)
@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("inside", [True, False])
def test_every_form_of_a_sequence_header_is_read(form, sized, inside):
    """AV1 specification, section 5.5; the item lies in the file, or in a box beside its place."""
    header = bits(*HEADERS[form])
    unit = b"\x12\x00" + (b"\x0a" + bytes([len(header)]) if sized else b"\x08") + header
    entry = box(b"infe", struct.pack(">B3xHH4s", 2, 7, 0, b"av01") + b"\0")
    parts = box(b"iinf", struct.pack(">B3xH", 0, 1) + entry)

    def place(offset):
        item = struct.pack(">HHHHII", 7, int(inside), 0, 1, offset, len(unit))
        return box(b"iloc", struct.pack(">B3xBBH", 1, 0x44, 0, 1) + item)

    if inside:
        meta = box(b"meta", bytes(4) + parts + place(0) + box(b"idat", unit))
        assert avif_size(meta) == (4096, 2048)
    else:
        meta = box(b"meta", bytes(4) + parts + place(0))
        assert avif_size(box(b"meta", bytes(4) + parts + place(len(meta) + 8)) + box(b"mdat", unit)) == (4096, 2048)


def test_an_item_in_pieces_is_not_guessed():
    item = struct.pack(">HHHHIIII", 7, 0, 0, 2, 0, 1, 1, 1)
    with pytest.raises(IndexError):
        avif_size(box(b"meta", bytes(4) + box(b"iloc", struct.pack(">B3xBBH", 1, 0x44, 0, 1) + item)))


def test_what_is_no_av1_is_not_read_as_such():
    data = encoded(Image.new("RGB", (40, 30)), "AVIF", speed=10, xmp=b"\x0a\x0b\x00\x00\x00\x02\xff\xff" * 9)
    assert avif_size(data) == (40, 30)


def test_boxes_without_end_are_given_up_at_once():
    begun = time.monotonic()
    for data in (
        box(b"free", b"") * 10**6,
        box(b"meta", bytes(4) + box(b"iprp", box(b"ipco", box(b"ispe", bytes(12)) * 10**5))),
        LARGE[:32] + struct.pack(">I", 4) + LARGE[36:],
        box(b"meta", bytes(4) + box(b"iloc", struct.pack(">B3xBBI", 2, 0, 0, 2**31) + bytes(10**6))),
    ):
        with pytest.raises(IndexError):
            avif_size(data)
    assert time.monotonic() - begun < MOST_STEPS / 1000
    assert avif_size(box(b"meta", bytes(4))) is None


def test_an_animation_is_that_of_its_picture():
    first, *others = (Image.new("RGB", (40, 30), colour) for colour in ("blue", "red", "green"))
    moving = encoded(first, "AVIF", save_all=True, append_images=others)
    assert moving[8:12] == b"avis"
    assert avif_size(moving) == (40, 30)
    assert still(moving)[8:12] == b"avif"
    assert still(SMALL) == SMALL
