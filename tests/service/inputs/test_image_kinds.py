"""A file is told by its first bytes, and what is not decoded is named."""

import io

import pytest
from PIL import Image

from service.inputs.image_kinds import FORMATS, INSTEAD, kind_of
from tests.samples.images import encoded


def box(*brands):
    return (8 + 4 * (len(brands) + 1)).to_bytes(4, "big") + b"ftyp" + brands[0] + bytes(4) + b"".join(brands[1:])


@pytest.mark.parametrize("kind", FORMATS)
def test_what_pillow_writes_is_of_its_kind(kind):
    assert kind_of(encoded(Image.new("RGB", (9, 7)), kind)) == kind
    assert Image.open(io.BytesIO(encoded(Image.new("RGB", (9, 7)), kind))).format == kind


OTHERS = {
    "HEIC": [box(b"heic", b"mif1", b"heic"), box(b"mif1", b"mif1", b"heix"), box(b"hevc", b"msf1")],
    "AVIF": [box(b"mif1", b"mif1", b"miaf", b"avif"), box(b"avis", b"avif"), box(b"miaf", b"avif")],
    "video": [box(b"isom", b"isom", b"mp42"), box(b"qt  "), b"\x1aE\xdf\xa3webm", b"RIFF\1\2\3\4AVI LIST"],
    "JPEG 2000": [
        encoded(Image.new("L", (9, 7)), "JPEG2000"),
        encoded(Image.new("L", (9, 7)), "JPEG2000", no_jp2=True),
    ],
    "JPEG XL": [b"\xff\x0a\x17", b"\0\0\0\x0cJXL \r\n\x87\n"],
    "ICO": [encoded(Image.new("L", (16, 16)), "ICO"), b"\0\0\2\0\1\0"],
    "PSD": [b"8BPS\0\1"],
    "PDF": [encoded(Image.new("L", (9, 7)), "PDF")],
    "SVG": [b"<svg xmlns='a'>", b"\xef\xbb\xbf \n<?xml version='1.0'?><!-- drawn --><svg>", b"<!-- a --><svg>"],
    "HTML": [b"<!doctype html><p>", b"\n<html lang=en>", b"<!DOCTYPE html><body><svg>"],
    "data: URL": [b"data:image/png;base64,iVBORw0"],
    None: [b"", b"hello", b"<p>", b"<svgs>", b"RIFF\0\0\0\0WAVE", b"BM", b"GIF88a", b"P6 3 3 255 ", b"IIRO\x08\0\0\0"],
}


@pytest.mark.parametrize("kind", OTHERS)
def test_others_are_told_too(kind):
    for data in OTHERS[kind]:
        assert kind_of(data) == kind
    assert kind is None or kind in FORMATS or INSTEAD[kind].startswith("send ")


def test_every_kind_is_decoded_or_has_something_in_its_place():
    assert {*OTHERS} - {None, "AVIF"} == INSTEAD.keys()
