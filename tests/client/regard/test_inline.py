import base64
import html
import re

import pytest
from regard import inline
from regard.inline import document, frame

from tests.client.conftest import data_of

SEEN = {"model": "m", "task": "t", "about": "", "result": {}, "attention": None, "heads": None}
HOSTILE = "</script><script>alert(1)</script><!-- <b>&amp;"


def test_a_document_holds_what_it_shows_whatever_that_is():
    seen = SEEN | {"text": HOSTILE, "model": HOSTILE}
    page = document(seen)
    assert data_of(page) == seen
    assert len(re.findall("<script", page)) == 2, "its data and its script"
    assert f"<title>{html.escape(HOSTILE)}: what it answered</title>" in page


def test_a_document_asks_nobody():
    page = document(SEEN)
    assert "default-src 'none'" in page
    assert re.findall(r"""(?:src|href)=["']?(?!data:|\$)""", page.split("<script>")[0]) == []
    assert "fetch(" not in page
    assert "XMLHttpRequest" not in page


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_what_json_cannot_hold_is_an_error(wrong):
    with pytest.raises(ValueError, match="JSON"):
        document(SEEN | {"result": {"probability": wrong}})
    with pytest.raises(TypeError):
        document(SEEN | {"result": b"bytes"})


def test_a_frame_is_sandboxed_and_lies_over_its_picture():
    found = frame(SEEN | {"model": HOSTILE, "picture": "data:image/png;base64,AA=="}, b"\x89PNG", height=123)
    assert re.findall(r'sandbox="(.*?)"', found) == ["allow-scripts"]
    assert "height:123px" in found
    picture = re.search(r'<img src="data:image/png;base64,(.*?)" alt="(.*?)"', found)
    assert base64.b64decode(picture[1]) == b"\x89PNG"
    assert html.unescape(picture[2]) == f"{HOSTILE}: what it answered"
    assert found.index("<img") < found.index("<iframe")
    inner = html.unescape(re.search(r'srcdoc="(.*?)"', found, re.DOTALL)[1])
    assert data_of(inner)["model"] == HOSTILE
    assert "<img" not in frame(SEEN)


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        ({}, "alone"),
        ({"attention": {"maps": []}, "text": "a"}, "text"),
        ({"attention": {"maps": []}, "picture": "data:"}, "image"),
        ({"attention": {"maps": [], "graph": {}}}, "graph"),
        ({"heads": {"maps": [{"shape": [2, 1, 1]}], "graph": {}}}, "graph"),
        ({"attention": {"maps": []}, "heads": {"maps": [{"shape": [12, 1, 1]}]}}, "heads"),
        ({"attention": {"maps": []}, "heads": {"maps": [{"shape": [2, 1, 1]}]}, "picture": "data:"}, "image"),
    ],
)
def test_a_frame_is_as_high_as_what_it_shows(seen, kind):
    assert f"height:{inline.HEIGHTS[kind]}px" in frame(SEEN | seen)
