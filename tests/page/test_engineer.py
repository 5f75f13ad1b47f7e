"""For whoever debugs a checkpoint: what was fed, a set with its labels, figures of heads, two models, the matrix."""

import csv

import numpy as np
import pytest
from PIL import Image

from tests.conftest import ROOT
from tests.page.conftest import DROP, canvas_of, drawn, settled

SEVEN = ROOT / "tests/data/digits/seven.png"


def test_what_was_fed_is_shown_as_pixels_with_their_numbers_and_logits(go):
    page = go(model="digits")
    page.click("#fed summary")
    page.wait_for_selector("#fed img")
    assert page.evaluate("(({ naturalWidth }) => naturalWidth)(document.querySelector('#fed img'))") == 28
    page.wait_for_selector("#fed caption:text('Labels')")
    said = page.inner_text("#fed")
    assert "28 \u00d7 28 pixels" in said
    assert "SHA-256" in said
    logits = [float(one.inner_text()) for one in page.locator("#fed .figures >> nth=1 >> td:nth-child(2)").all()]
    shares = [
        float(one.inner_text()[:-1]) / 100 for one in page.locator("#fed .figures >> nth=1 >> td:nth-child(3)").all()
    ]
    assert logits[0] - logits[1] == pytest.approx(np.log(shares[0] / shares[1]), abs=0.2)


def test_the_tokens_that_were_fed_have_their_ids(go):
    page = go(model="minilm", text="the cat")
    page.click("#fed summary")
    page.wait_for_selector("#fed td")
    cells = page.locator("#fed td").all_inner_texts()
    assert [cells[at + 2] for at in range(0, len(cells), 4)] == ["[CLS]", "the", "cat", "[SEP]"]
    assert [cells[at + 1] for at in range(0, len(cells), 4)] == ["101", "1996", "4937", "102"]
    assert cells[3] == "special"


def test_several_pictures_are_a_table_beside_the_labels_of_their_folders(go, tmp_path):
    for folder, name in (("7", "seven.png"), ("3", "other.png")):
        (tmp_path / "set" / folder).mkdir(parents=True)
        Image.open(SEVEN).save(tmp_path / "set" / folder / name)
    page = go(model="digits")
    page.set_input_files("#folder-file", tmp_path / "set")
    page.wait_for_selector("#several :text('2 asked')")
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#several tbody tr").all()]
    assert [[name.strip(), answer, label] for name, answer, _, label, _ in rows] == [
        ["other.png", "7", "3"], ["seven.png", "7", "7"],
    ]  # fmt: skip # what is wrong comes first
    assert "1 of 2 as their labels say" in page.inner_text("#several [role=status]")
    assert page.locator("#several img").count() == 2
    with page.expect_download() as download:
        page.click("#save-csv")
    download.value.save_as(tmp_path / "set.csv")
    saved = list(csv.DictReader((tmp_path / "set.csv").read_text(encoding="utf-8-sig").splitlines()))
    assert [(one["name"], one["right"]) for one in saved] == [("other.png", "no"), ("seven.png", "yes")]
    page.click("#several tbody button >> nth=0")
    settled(page)
    assert "other.png" in page.inner_text("#input")
    page.click("#close-several")
    assert page.locator("#several").count() == 0


def test_a_table_of_texts_is_asked_line_by_line(go):
    page = go(model="dates")
    table = 'text,label\n3 May 2020,2020-05-03\n"4 May, 2021",2021-05-05\n\n'
    page.evaluate(DROP, [["dates.csv", "text/csv", table]])
    page.wait_for_selector("#several :text('2 asked')")
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#several tbody tr").all()]
    assert [(row[0].strip(), row[1], row[-1]) for row in rows] == [
        ("4 May, 2021", "2021-05-04", "✗ wrong"), ("3 May 2020", "2020-05-03", "✓"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("a,b\nc,d", [["a", "b"], ["c", "d"]]),
        ('"a, ""b""",c\r\n', [['a, "b"', "c"]]),
        ('"two\nlines",x\n,y', [["two\nlines", "x"], ["", "y"]]),
        ('A "good" film,pos\nbad,neg', [['A "good" film', "pos"], ["bad", "neg"]]),
        ('"open,pos\rbad,neg', [['"open', "pos"], ["bad", "neg"]]),
        ("", []),
    ],
)
def test_tables_are_read_as_spreadsheets_write_them(visit, text, fields):
    page = visit().open()
    found = page.evaluate("async (text) => (await import('/page/several.js')).fieldsOf(text, ',')", text)
    assert found == fields
    tabs = page.evaluate("async () => (await import('/page/several.js')).fieldsOf('a\\t\"b\\n\"c\"\\td', '\\t')")
    assert tabs == [["a", '"b'], ['"c"', "d"]]


def test_a_set_begins_anew_with_a_model_that_reads_other_things_and_says_what_it_does_not_ask(go):
    page = go(model="dates")
    posted = []
    page.on("request", lambda request: request.method == "POST" and posted.append(request.headers["content-type"]))
    page.evaluate(DROP, [["many.csv", "text/csv", "text\n" + "".join(f"{at} May 2020\n" for at in range(1, 4))]])
    page.wait_for_selector("#several :text('3 asked')")
    page.evaluate(DROP, [["formulas.csv", "text/csv", "text\n=1+1\n"]])
    page.wait_for_selector("#several :text('1 asked')")
    with page.expect_download() as download:
        page.click("#save-csv")
    assert b"'=1+1" in download.value.path().read_bytes()
    page.evaluate(DROP, [["empty.csv", "text/csv", ""]])
    page.wait_for_selector("#several :text('None of these files')")
    posted.clear()
    page.evaluate(DROP, [["dates.csv", "text/csv", "text\n3 May 2020\n"]])
    page.wait_for_selector("#several :text('1 asked')")
    page.select_option("#model", "digits")
    settled(page)
    assert "None of these files holds a picture" in page.inner_text("#several")
    assert set(posted) == {"application/json", "image/png"}
    assert posted.count("image/png") == 1, "the example, and no text as a picture"


def test_figures_of_heads_are_a_table_that_is_sorted_and_leads_to_a_head(go):
    page = go(model="digits", method="raw")
    page.click("#heads .as-table summary")
    page.wait_for_selector("#heads .as-table tbody")
    assert page.locator("#heads .as-table tbody tr td:first-child button").count() == 16
    page.click("#heads .as-table th button:text-is('entropy')")
    column = [float(one) for one in page.locator("#heads .as-table tbody td:nth-child(2)").all_inner_texts()]
    assert column == sorted(column)
    page.click("#heads .as-table th button:text-is('head')")
    names = page.locator("#heads .as-table tbody button").all_inner_texts()
    assert names == [f"L{layer} H{head}" for layer in range(4) for head in range(4)]
    page.click("#heads .as-table th button:text-is('head')")
    name = page.locator("#heads .as-table tbody button").first.inner_text()
    assert name == "L3 H3"
    page.locator("#heads .as-table tbody button").first.click()
    settled(page)
    layer, head = name.replace("L", "").replace("H", "").split()
    assert f"layer={layer}" in page.url or layer == "3"
    assert f"heads={head}" in page.url


def test_two_models_of_different_tasks_stand_side_by_side(go):
    page = go(model="captions-soft", compare="model:scenes-detr")
    assert page.locator("#answer .words").count() == 1
    assert page.locator("#answer .found li, #answer .nothing").count() >= 1
    assert page.locator("#picture canvas").count() >= 2


def test_the_matrix_is_zoomed_has_logarithmic_colours_and_is_copied(visit):
    seen = visit(permissions=["clipboard-read", "clipboard-write"])
    page = seen.at(model="minilm", view="matrix", method="raw", text="the cat sat on the mat " * 6)
    before = canvas_of(page.locator(".matrix canvas"))
    wide = page.locator(".matrix-cells").bounding_box()["width"]
    page.locator("#zoom").fill("3")
    drawn(page)
    assert page.locator(".matrix-cells").bounding_box()["width"] > 1.5 * wide
    assert page.locator(".matrix.labelled").count() == 1
    page.check("[name=log]")
    assert canvas_of(page.locator(".matrix canvas")).mean() > before.mean() + 5  # small values are seen
    low, high = (float(page.locator(f".legend div span >> nth={at}").inner_text()) for at in (3, 4))
    assert high / low == pytest.approx(10, rel=0.02)
    page.click("#look .as-table summary")
    page.click("#look .as-table button:text('Copy as a table')")
    page.wait_for_selector("#look .as-table :text('Copied.')")
    lines = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert len(lines) == len(lines[0].split("\t")) == page.locator(".matrix-rows span").count() + 1
