"""What a user reads and draws of answers, as a user would write it: at most fifteen lines each."""

import numpy as np
import pytest
import regard
from PIL import Image

from tests.client.conftest import SEVEN
from tests.conftest import ROOT
from tests.samples.in_process import in_process

FOUR = ROOT / "tests/data/digits/four.webp"
DATE = "23 mar 2021"


def test_what_makes_two_pictures_alike(dino):
    with in_process(dino) as client, regard.connect(str(client.base_url)) as service:
        seven, again, four = service["digits-dino"].embed_batch([SEVEN, SEVEN, FOUR])
        assert seven.similarity(again) > 0.999 > seven.similarity(four)
        pictures = [one.overlay("libra", against=four) for one in (seven, again)]
        sheet = regard.side_by_side([*pictures, four.overlay("libra", against=seven)], ["seven", "again", "four"])
        assert sheet.width > 3 * 100
        np.testing.assert_array_equal(pictures[0], pictures[1])


def test_which_character_of_a_text_each_written_one_was_read_from(dates):
    written = dates.generate(DATE)
    table = written.table("raw", kind="cross")
    read = {}
    for row in sorted(table, key=lambda row: row["raw"]):
        read[row["of"]] = row["text"]
    assert (read["3"], read["1"]) == ("3", "1")
    assert [row["text"] for row in table[: len(DATE)]] == list(DATE)
    assert "█" in str(table)


def test_a_folder_of_pictures_becomes_a_folder_of_overlays(digits, tmp_path):
    for path in (SEVEN, FOUR):
        seen = digits.classify(path)
        seen.overlay("libra").save(tmp_path / f"{path.stem}.png")
        seen.save(tmp_path / f"{path.stem}.svg", "libra")
        with Image.open(path) as sent, Image.open(tmp_path / f"{path.stem}.png") as drawn:
            assert drawn.size == sent.size
    assert len(list(tmp_path.iterdir())) == 4


def test_an_overlay_is_the_picture_that_the_service_draws(digits):
    seen = digits.classify(SEVEN)
    for method in ("libra", "raw", "parts"):
        ours, theirs = np.asarray(seen.overlay(method), int), np.asarray(seen.image(method), int)
        assert np.abs(ours - theirs).max() <= 6
        assert (np.abs(ours - theirs) <= 1).mean() > 0.97


def test_what_is_printed_is_short_and_says_shapes(digits, dates, service):
    seen = digits.classify(SEVEN, attention={"method": "raw", "layers": "all", "queries": "all"})
    assert repr(seen.attention).startswith("<attention by raw: 4 maps, heads, queries, keys: encoder (1, 50, 50), ")
    assert repr(seen.attention.maps[0]) == "<map encoder.blocks.0.attention: values (1, 50, 50), heads, queries, keys>"
    assert np.asarray(seen.attention).shape == (4, 1, 50, 50)
    np.testing.assert_array_equal(seen.attention.maps[1], seen.attention.maps[1].values)
    assert repr(dates.stream(DATE)) == "<regard stream: 0 letters>"
    assert [line.split()[0] for line in repr(service.models()).splitlines()] == ["digits", "dates"]
    assert "<td>digits</td>" in service.models()._repr_html_()
    assert len(repr(digits.description)) < 100
    assert len(repr(seen)) < 1500


def test_axes_of_matplotlib_show_it_beside_other_plots(digits, dates):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    page, (left, right) = pyplot.subplots(1, 2)
    assert digits.classify(SEVEN).plot("libra", ax=left) is left
    assert len(left.images) == 1
    dates.generate(DATE).plot("raw", kind="cross", ax=right)
    assert {text.get_text() for text in right.texts} >= set("mar2")
    page.canvas.draw()
    pyplot.close("all")


def test_what_an_answer_cannot_draw_says_what_can(digits, dates):
    with pytest.raises(regard.BadInput, match="overlay: must be of a picture, given an answer to another input"):
        dates.generate(DATE).overlay("raw")
    with pytest.raises(regard.BadInput, match="object: must be of a detector's answer"):
        digits.classify(SEVEN).overlay("raw", object=1)
