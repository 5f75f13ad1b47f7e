"""What a notebook and a file show of real answers; tests/page shows it in a browser."""

import base64
import io
import json
import re

import numpy as np
import pytest
import regard
from PIL import Image
from regard import results, showing

from service.inputs.image_preprocessing import open_image
from tests.client.conftest import SEVEN, answer, data_of, detected, detector, filed, problem, told
from tests.samples.in_process import in_process

DATE = "3/23/21"


def shown(result):
    return result._repr_mimebundle_()


def picture(content):
    with Image.open(io.BytesIO(content)) as image:
        image.load()
        return image


def test_a_classified_picture_is_shown_with_what_the_model_looked_at(digits):
    found = shown(digits.classify(SEVEN))
    assert found["text/plain"].startswith("digits: 7 9")
    drawn = picture(base64.b64decode(found["image/png"]))
    with Image.open(SEVEN) as sent:
        assert drawn.width >= sent.width
    assert len(drawn.convert("RGB").getcolors(1 << 16)) > 16, "heat lies over it"
    assert '<iframe sandbox="allow-scripts"' in found["text/html"]


def test_what_is_shown_is_what_was_sent_and_answered(digits, dates, tmp_path):
    found = digits.classify(SEVEN)
    found.save(tmp_path / "seven.html")
    seen = data_of((tmp_path / "seven.html").read_text())
    assert base64.b64decode(seen["picture"].partition(",")[2]) == SEVEN.read_bytes()
    assert [one["label"] for one in seen["result"]["labels"]] == [one.label for one in found.labels]
    assert seen["attention"]["method"] == digits.description.best
    kind = digits.description.kinds["encoder"]
    assert [one["shape"][0] for one in seen["heads"]["maps"]] == [kind["heads"]] * kind["layers"]
    dates.generate(DATE).save(tmp_path / "date.html")
    seen = data_of((tmp_path / "date.html").read_text())
    assert (seen["text"], seen["result"]["text"], seen["picture"]) == (DATE, "2021-03-23", None)
    assert {one["kind"] for one in seen["heads"]["maps"]} == {"encoder", "decoder", "cross"}


def test_an_answer_that_cannot_be_saved_is_refused_before_anything_is_asked(dates, tmp_path, monkeypatch):
    found = dates.generate(DATE)
    found.save(str(tmp_path / "DATE.HTM"))
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(regard.BadInput, match="path: cannot be written: "):
        found.save(tmp_path / "folder.html")
    monkeypatch.setattr(results, "asked_for", None)
    with pytest.raises(
        regard.BadInput, match=r"path: must end in \.html, \.htm, \.png, \.svg or \.pdf, given 'date\.gif'"
    ):
        found.save(tmp_path / "date.gif")
    with pytest.raises(regard.BadInput, match=r"path: must be in a folder that exists, given '.*/none'"):
        found.save(tmp_path / "none" / "date.html")


def test_an_answer_is_saved_by_a_method_in_the_form_that_the_path_ends_in(dates, tmp_path):
    found = dates.generate(DATE)
    found.save(tmp_path / "date.html", "raw", kind="cross")
    assert data_of((tmp_path / "date.html").read_text())["attention"]["method"] == "raw"
    assert [one["kind"] for one in data_of((tmp_path / "date.html").read_text())["attention"]["maps"]] == ["cross"]
    found.save(tmp_path / "date.png", "raw", width=300)
    with Image.open(tmp_path / "date.png") as image:
        assert image.width == 300
    found.save(tmp_path / "date.svg", method="raw")
    found.figure("raw").save(tmp_path / "figure.svg")
    assert (tmp_path / "date.svg").read_text() == (tmp_path / "figure.svg").read_text()


def test_without_a_method_every_form_shows_the_usual_one(digits, tmp_path):
    """As the page does, which the service tells it too."""
    found, usual = digits.classify(SEVEN), digits.description.usual
    found.save(tmp_path / "seven.html")
    assert data_of((tmp_path / "seven.html").read_text())["attention"]["method"] == usual["method"]
    assert found.look().method == found.table().methods[0] == usual["method"]
    assert found.image().tobytes() == found.image(**usual).tobytes()
    assert found.figure().svg() == found.figure(**usual).svg()


def test_attention_that_was_asked_for_is_what_is_shown(digits):
    found = digits.classify(SEVEN, attention="norm")
    assert results.asked_for(found)["attention"] == found.attention.json
    assert digits.attention(SEVEN, method="raw").attention.method == "raw"
    assert shown(digits.attention(SEVEN, method="raw"))["text/plain"] == "digits: raw attention"


def test_every_kind_of_answer_has_words(dates):
    assert results.described(dates.generate(DATE)) == "dates: 2021-03-23"


def test_an_answer_is_shown_when_the_service_is_gone(artifacts):
    with in_process(artifacts) as client, regard.connect(str(client.base_url), patience=0) as service:
        found = service["digits"].classify(SEVEN)
    shown_after = shown(found)
    assert shown_after["text/plain"].startswith("digits: 7")
    sent = picture(base64.b64decode(shown_after["image/png"]))
    with Image.open(SEVEN) as image:
        np.testing.assert_array_equal(np.asarray(sent), np.asarray(image.convert("RGB")))
    inner = re.search(r'srcdoc="(.*?)"', shown_after["text/html"], re.DOTALL)[1]
    assert "&quot;attention&quot;:null" in inner


def test_a_large_picture_is_kept_small_and_upright(monkeypatch):
    noise = np.random.default_rng(0).integers(0, 256, (400, 1500, 3), dtype=np.uint8)
    file = filed(Image.fromarray(noise), "JPEG", turned=6, quality=95)
    monkeypatch.setattr(showing, "PICTURE_BYTES", len(file) - 1)
    address = showing.data_url(file, "image/jpeg")
    small = picture(base64.b64decode(address.removeprefix("data:image/jpeg;base64,")))
    assert max(small.size) == showing.PICTURE_SIDE
    assert small.getexif()[0x0112] == 6
    monkeypatch.setattr(showing, "PICTURE_BYTES", len(file))
    assert base64.b64decode(showing.data_url(file, "image/jpeg").partition(",")[2]) == file


def test_what_is_transparent_is_shown_white_as_the_model_sees_it(monkeypatch):
    file = filed(Image.new("RGBA", (600, 500), (255, 0, 0, 0)))
    monkeypatch.setattr(showing, "PICTURE_BYTES", 10)
    small = picture(base64.b64decode(showing.data_url(file, "image/png").partition(",")[2]))
    assert small.getpixel((5, 5)) == (255, 255, 255)


def test_white_ink_on_a_transparent_ground_is_seen_in_a_small_picture_too():
    ink = Image.new("RGBA", (60, 50), (255, 255, 255, 0))
    ink.paste((255, 255, 255, 255), (20, 10, 40, 40))
    address = showing.data_url(filed(ink, turned=6), "image/png")
    small = picture(base64.b64decode(address.removeprefix("data:image/png;base64,")))
    assert (small.getpixel((5, 5)), small.getpixel((30, 20))) == ((0, 0, 0), (255, 255, 255))
    assert (small.size, small.getexif()[0x0112]) == ((60, 50), 6)


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        (Image.fromarray(np.full((6, 5), 257 * 40, np.uint16)), (40, 40, 40)),
        (Image.new("RGBA", (6, 5), (250, 250, 250, 255)), (250, 250, 250)),
    ],
)
def test_a_picture_is_shown_as_the_service_reads_it(image, wanted):
    if image.mode == "RGBA":
        image.putpixel((0, 0), (0, 0, 0, 0))
        assert showing._opaque(image).getpixel((0, 0)) == (0, 0, 0), "what is nearly white stands on black"
    assert showing._opaque(image).getpixel((3, 3)) == wanted
    read = open_image(filed(image), 1000)
    assert np.array_equal(np.asarray(showing._opaque(image).convert("L")), np.asarray(read.convert("L")))


def test_a_picture_without_a_service_is_upright():
    file = filed(Image.new("RGB", (60, 100)), "JPEG", turned=6)
    assert picture(showing.as_png(file)).size == (100, 60)


def test_maps_of_too_many_heads_are_left_out(digits, monkeypatch):
    found = digits.classify(SEVEN)
    monkeypatch.setattr(results, "HEADS_VALUES", 10)
    assert results.asked_for(found)["heads"] is None
    assert results.asked_for(found)["attention"]


def test_what_json_cannot_hold_is_shown_in_words(digits):
    found = digits.classify(SEVEN)
    broken = regard.Classification(
        attention=None, json={"labels": [{"probability": float("nan")}]}, asked=found.asked, labels=found.labels
    )
    assert shown(broken)["text/html"].startswith("<pre>digits: 7")


def test_nothing_of_a_key_is_in_a_saved_file(artifacts, tmp_path):
    from tests.samples.api_keys import line

    keys = tmp_path / "keys.txt"
    keys.write_text(line("a-secret-key"))
    with (
        in_process(artifacts, api_keys=keys) as client,
        regard.connect(str(client.base_url), "a-secret-key") as service,
    ):
        found = service["digits"].classify(SEVEN)
        assert "a-secret-key" not in json.dumps(shown(found))
        assert "a-secret-key" not in repr(found) + repr(service) + repr(found.asked)


def test_objects_are_shown_in_words_and_as_the_service_draws_them():
    file = filed(Image.new("RGB", (30, 20), "red"))
    found = {"id": "i", "results": [{"objects": [detected(3)]}]}
    nothing = problem(404, "model: is none")
    said = (answer(200, json.dumps(found).encode()), nothing, nothing, answer(200, file, "image/png"))
    with told(*said) as (url, asked):
        result = regard.Model(regard.Service(url)._transport, detector()).detect(SEVEN)
        seen = shown(result)
    assert seen["text/plain"] == "m: cat 90.0% at 3,1 to 6,6"
    assert picture(base64.b64decode(seen["image/png"])).size == (30, 20)
    assert b"kind=cross&method=raw&format=png" in asked[-1], "every object that was found, with its box"
    assert results.asked_for(result)["result"] == {"objects": [detected(3)]}
