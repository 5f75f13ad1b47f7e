"""A second picture on the page: how alike two are, what speaks for it on both, and parts that find each other."""

import json

import pytest

from tests.conftest import ROOT, served
from tests.page.conftest import asked, settled

PIXELS = "(all) => all.map((canvas) => canvas.toDataURL())"


@pytest.fixture(scope="module")
def embedding(dino):
    with served(dino) as client:
        yield str(client.base_url).rstrip("/")


def drawn(page):
    page.wait_for_timeout(100)  # a frame
    return page.locator("#picture canvas").evaluate_all(PIXELS)


def at(page, picture, row, column):
    """Point at a patch of one of the pictures."""
    box = page.locator("#picture .cells").nth(picture).bounding_box()
    page.mouse.move(box["x"] + (column + 0.5) / 7 * box["width"], box["y"] + (row + 0.5) / 7 * box["height"])
    page.wait_for_timeout(100)


def test_the_part_that_is_pointed_at_in_one_picture_is_seen_in_the_other(visit, embedding):
    page = visit(base=embedding).at(method="similar", other="1")
    looks = [one for one in asked(page, "/v1/attention/") if one.get("attention") == "similar"]
    assert looks
    assert json.loads(looks[-1]["against"]).keys() == {"id"}
    assert (looks[-1]["queries"], looks[-1]["layers"]) == ("all", "2")
    assert page.locator("#picture canvas").count() == 2
    before = drawn(page)
    at(page, 0, 2, 3)
    there = drawn(page)
    assert [one == other for one, other in zip(before, there, strict=True)] == [False, False]
    assert "Like row 2, column 3 of the first picture." in page.inner_text(".readout")
    assert "Most alike in the second picture: row" in page.inner_text(".readout")
    at(page, 1, 4, 4)
    back = drawn(page)
    assert back[0] != there[0]
    assert "Like row 4, column 4 of the second picture." in page.inner_text(".readout")
    assert "Most alike in the first picture: row" in page.inner_text(".readout")
    assert len([one for one in asked(page, "/v1/attention/") if one.get("attention") == "similar"]) == len(looks)


def test_a_picture_beside_itself_finds_each_part_at_its_place(visit, embedding):
    page = visit(base=embedding).at(method="similar", example="0", other="0")
    at(page, 0, 3, 4)
    assert "Most alike in the second picture: row 3, column 4, cosine 1." in page.inner_text(".readout")
    at(page, 1, 2, 3)
    assert "Most alike in the first picture: row 2, column 3, cosine 1." in page.inner_text(".readout")


def test_a_part_that_is_clicked_stays(visit, embedding):
    page = visit(base=embedding).at(method="similar")
    assert page.locator("#picture canvas").count() == 1
    at(page, 0, 1, 1)
    page.mouse.down()
    page.mouse.up()
    page.mouse.move(0, 0)
    page.wait_for_timeout(100)
    assert "Like row 1, column 1." in page.inner_text(".readout")
    assert "row=8" in page.url


def test_the_cosine_is_said_and_what_speaks_for_it_is_drawn_on_both(visit, embedding):
    page = visit(base=embedding).at()
    assert page.locator(".likeness").count() == 0
    assert page.locator("[name=method][value=libra]").count() == 0
    page.locator("#second-1").click()
    settled(page)
    page.locator(".likeness").wait_for()
    cosine = float(page.locator(".likeness strong").inner_text())
    assert -1 <= cosine < 1
    page.locator("[name=method][value=libra]").check(force=True)
    settled(page)
    assert page.locator("#picture canvas").count() == 2
    (look,) = [one for one in asked(page, "/v1/attention/") if one.get("attention") == "libra"]
    assert look["sides"] == "both"
    page.locator("#no-second").click()
    settled(page)
    assert page.locator("#picture canvas").count() == 1
    assert page.locator(".likeness").count() == 0


def test_a_third_picture_is_what_it_is_not_like(visit, embedding):
    page = visit(base=embedding).at(method="libra", other="1")
    assert page.locator("#third-2").count() == 1
    page.locator("#third-2").click()
    settled(page)
    looks = [one for one in asked(page, "/v1/attention/") if one.get("attention") == "libra"]
    first, second = json.loads(looks[-1]["against"])
    assert first.keys() == second.keys() == {"id"}
    assert first != second
    assert "sides" not in looks[-1]
    assert page.locator("#picture canvas").count() == 1
    assert [one.split()[-3:] for one in page.locator(".likeness").all_inner_texts()] == [
        ["the", "second", "picture"], ["the", "third", "picture"],
    ]  # fmt: skip
    page.locator("#evaluation summary").click()
    page.get_by_text("leave out the third").wait_for()
    page.locator("[name=method][value=relevance]").check(force=True)
    settled(page)
    assert page.locator("#third-2").count() == 0, "its shares do not add up: it is of one likeness"
    assert page.locator("#picture canvas").count() == 2
    page.locator("[name=method][value=libra]").check(force=True)
    settled(page)
    page.locator("#no-third").click()
    settled(page)
    assert page.locator("#picture canvas").count() == 2


def test_a_third_text_is_what_it_is_not_like(go):
    page = go(
        model="minilm", text="The violin is on the table.", pair="She bought a violin.", method="libra", view="place"
    )
    assert page.locator("#opposite").count() == 1
    page.locator("#third input").fill("The chair is under the table.")
    page.locator("#third button").click()
    settled(page)
    looks = [one for one in asked(page, "/v1/attention/") if one.get("attention") == "libra"]
    assert json.loads(looks[-1]["against"]) == [
        {"text": "She bought a violin."}, {"text": "The chair is under the table."},
    ]  # fmt: skip
    assert page.locator("#opposite").count() == 0


def test_parts_are_coloured_in_both(visit, embedding):
    page = visit(base=embedding).at(method="parts", example="0", other="0")
    first, second = drawn(page)
    assert first == second, "a picture beside itself has the same colours"
    page.locator("#second-1").click()
    settled(page)
    changed = drawn(page)
    assert changed[0] != first, "the colours are those of both"
    assert changed[0] != changed[1]
    colours = page.evaluate(
        """() => {
          const canvas = document.querySelector('#picture canvas')
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
          return data.some((value, at) => at % 4 === 0 && Math.abs(value - data[at + 1]) > 60)
        }"""
    )
    assert colours, "they are no greys"


def test_one_s_own_second_picture_is_named_by_its_answer(visit, embedding):
    page = visit(base=embedding).at(method="similar")
    page.locator("#second input[type=file]").set_input_files(ROOT / "tests/data/digits/eight-scan.png")
    settled(page)
    page.locator("#picture canvas").nth(1).wait_for()
    assert "other=" in page.url
    assert "other=new" not in page.url


def test_words_of_two_texts_are_a_matrix(go):
    page = go(
        model="minilm", text="The violin is on the table.", pair="She bought a violin.", method="similar", view="matrix"
    )
    assert page.locator("#looks canvas").count() == 1
    page.locator("#view-place").click()
    assert "violin" in page.inner_text("#looks")


def test_what_speaks_for_a_likeness_and_what_is_alike_are_saved_as_pictures(visit, embedding):
    for method in ("libra", "similar", "parts"):
        page = visit(base=embedding).at(method=method, other="1")
        with page.expect_download() as saved:
            page.locator("#save-png").click()
        assert saved.value.suggested_filename == f"digits-dino-{method}.png"


def test_a_second_picture_that_is_gone_with_its_tab_is_none(visit, embedding):
    page = visit(base=embedding).at(method="similar", other="new")
    assert page.locator("#picture canvas").count() == 1
