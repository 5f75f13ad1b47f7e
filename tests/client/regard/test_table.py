import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import regard
from regard import table
from regard.reading import read_attention

from tests.client.conftest import looked, mapped

TOKENS = {"source": [{"text": text, "span": span, "special": span is None} for text, span in
                     (("[CLS]", None), ("ab", [0, 2]), (" ", [2, 3]))]}  # fmt: skip


def look(values, method="libra", **changed):
    return read_attention(
        {"method": method, "maps": [mapped(np.array(values), "encoder", **changed)], "tokens": TOKENS}
    )


def test_a_row_is_a_token_with_its_share_of_each_method():
    looks = {"libra": look([[[1.0, -3.0, 4.0]]]), "raw": look([[[0.5, 0.25, 0.25]]], "raw")}
    found = table.table_of(looks)
    assert found == [
        {"text": "[CLS]", "start": None, "end": None, "libra": 0.125, "raw": 0.5},
        {"text": "ab", "start": 0, "end": 2, "libra": -0.375, "raw": 0.25},
        {"text": " ", "start": 2, "end": 3, "libra": 0.5, "raw": 0.25},
    ]
    assert repr(found) == "<table of 3 rows: text, start, end, libra, raw>"


def test_heads_are_averaged_or_chosen_and_so_are_rows():
    values = np.random.default_rng(0).random((2, 3, 3))
    shares = values.mean(0) / values.mean(0).sum(1, keepdims=True)
    found = look(values, "raw").table()
    assert [row["of"] for row in found[::3]] == ["[CLS]", "ab", " "]
    np.testing.assert_allclose([row["raw"] for row in found], shares.ravel(), rtol=1e-5)
    (chosen,) = values[1:, 2]
    found = look(values, "raw").table(head=1, row=-1)
    assert "of" not in found[0]
    np.testing.assert_allclose([row["raw"] for row in found], chosen / chosen.sum(), rtol=1e-5)
    with pytest.raises(regard.BadInput, match="head: must be -2 to 1, given 2"):
        look(values).table(head=2)


def test_a_row_is_a_patch_of_a_picture_with_its_share_of_all_tokens():
    picture = read_attention(looked(mapped(np.arange(7.0)[None, None]), prefix=1))
    found = picture.table()
    assert found[5] == {"row": 1, "column": 2, "raw": pytest.approx(6 / 21)}
    assert len(found) == 6


def test_methods_of_other_rows_are_refused():
    with pytest.raises(regard.BadInput, match="methods: must have the same rows and columns, given raw with others"):
        table.table_of({"libra": look([[[1.0, 2.0, 3.0]]]), "raw": look(np.ones((1, 3, 3)), "raw")})


def test_it_is_drawn_with_bars_that_are_as_long_as_shares():
    lines = str(look([[[1.0, -2.0, 4.0]]])).splitlines()
    assert [line.split() for line in lines] == [
        ["libra"], ["[CLS]", "+0.143", "█" * 5], ["ab", "-0.286", "▒" * 10], ["␣", "+0.571", "█" * 20]
    ]  # fmt: skip
    assert table.bar(0.5 / 160, 1.0) == "▏" * 0
    assert table.bar(1 / 160, 1.0) == "▏"
    assert table.bar(float("nan"), 1.0) == ""


def test_a_long_one_is_printed_without_its_smallest_and_harmless():
    rows = table.Table({"text": f"\x1b[{at}\n", "raw": at / 100} for at in range(60))
    lines = str(rows).splitlines()
    assert len(lines) == 1 + table.MOST_LINES + 1
    assert lines[1].startswith("\\x1b[20\\n  ")
    assert lines[-1] == "and 20 smaller"


def test_pandas_has_it_as_a_frame_where_it_is(monkeypatch):
    found = look([[[1.0, 0.0, 1.0]]]).table()
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda rows: rows))
    assert importlib.import_module("pandas").DataFrame is not None
    assert found.to_pandas() == list(found)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(regard.NotInstalled, match="to_pandas: needs pandas"):
        found.to_pandas()


def test_a_notebook_shows_it_escaped():
    shown = table.Table([{"text": "<b>", "start": None, "raw": 0.123456}])._repr_html_()
    assert shown == (
        "<table><tr><th>text</th><th>start</th><th>raw</th></tr><tr><td>&lt;b&gt;</td><td></td><td>0.1235</td></tr></table>"
    )
