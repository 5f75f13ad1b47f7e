import base64
import io
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
import regard
from PIL import Image
from regard.figures import Cell, Figure, Picture, Words, width_of

SVG = "{http://www.w3.org/2000/svg}"
RED = Image.new("RGB", (2, 1), "red")
HOSTILE = "<script>&\"'\x00\x1b\ud800$x$"


def figure(text="a b"):
    return Figure(
        100, 50, [Cell(10, 5, 30, 20, "#00ff00", "#0000ff"), Words(50, 15, text, 9), Picture(60, 20, 20, 10, RED)]
    )


def test_svg_has_every_shape_and_needs_no_other_file():
    root = ElementTree.fromstring(figure().svg())
    assert (root.get("width"), root.get("viewBox")) == ("100pt", "0 0 100 50")
    ground, cell = root.findall(f"{SVG}rect")
    assert ground.get("fill") == "#ffffff"
    assert [cell.get(name) for name in ("x", "y", "width", "height", "fill", "stroke")] == [
        "10", "5", "30", "20", "#00ff00", "#0000ff"
    ]  # fmt: skip
    assert root.find(f"{SVG}text").text == "a b"
    assert float(root.find(f"{SVG}text").get("textLength")) == pytest.approx(width_of("a b", 9), abs=0.01)
    data = root.find(f"{SVG}image").get("href").removeprefix("data:image/png;base64,")
    assert Image.open(io.BytesIO(base64.b64decode(data))).getpixel((0, 0)) == (255, 0, 0)


def test_letters_of_any_text_are_letters():
    root = ElementTree.fromstring(figure(HOSTILE).svg())
    assert root.find(f"{SVG}text").text == "<script>&\"'\ufffd\ufffd\ufffd$x$"


def test_a_moved_shape_is_another():
    assert Words(1, 2, "a", 9).moved(3, 4) == Words(4, 6, "a", 9)


def test_axes_of_matplotlib_take_it_as_large_as_they_are():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    page, (left, right) = pyplot.subplots(1, 2, figsize=(2, 1))
    assert figure("$x^2$").plot(right) is right
    assert not left.patches
    assert (right.get_xlim(), right.get_ylim()) == ((0, 100), (50, 0))
    (text,) = right.texts
    assert text.get_fontsize() == pytest.approx(9 * 0.507, rel=0.01), "it shrinks with its axes"
    assert not text.get_parse_math()
    assert right.patches[0].get_width() == 30
    page.canvas.draw()
    pyplot.close(page)


def drawn(pdf, tmp_path):
    """Return the pixels that poppler draws of a PDF, one a point."""
    subprocess.run(["pdftoppm", "-r", "72", "-png", "-singlefile", pdf, tmp_path / "page"], check=True)
    return np.asarray(Image.open(tmp_path / "page.png").convert("RGB"))


@pytest.mark.skipif(not shutil.which("pdftoppm"), reason="poppler is not installed: apt-get install poppler-utils")
def test_poppler_draws_the_pdf_and_reads_its_letters(tmp_path):
    pytest.importorskip("matplotlib")
    figure("hammer").save(tmp_path / "figure.pdf")
    pixels = drawn(tmp_path / "figure.pdf", tmp_path)
    assert pixels.shape == (50, 100, 3)
    assert pixels[15, 25].tolist() == [0, 255, 0]
    assert pixels[25, 70].tolist() == [255, 0, 0]
    assert pixels[45, 95].tolist() == [255, 255, 255]
    said = subprocess.run(["pdftotext", tmp_path / "figure.pdf", "-"], check=True, capture_output=True, text=True)
    assert said.stdout.split() == ["hammer"]


def test_without_matplotlib_it_says_what_needs_none(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    figure().save(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text() == figure()._repr_svg_()
    with pytest.raises(regard.NotInstalled, match="need matplotlib for axes and PDF; SVG needs nothing"):
        figure().save(tmp_path / "figure.pdf")
    assert repr(figure()) == "<figure of 100 x 50 points>"
