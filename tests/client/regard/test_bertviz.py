"""The hand-over to BertViz, drawn by BertViz itself."""

import json
import re
import sys

import numpy as np
import pytest
import regard

from tests.client.conftest import SEVEN

DATE = "3/23/21"

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""BertViz leaves files of its own open."""


def drawn(page):
    """Return what BertViz gives its script."""
    return json.loads(re.search(r"const params = (\{.*?\}); //", page.data)[1])


def test_an_encoder_is_drawn_with_all_its_layers_and_heads(digits):
    bertviz = pytest.importorskip("bertviz")
    found = digits.classify(SEVEN)
    given = found.bertviz()
    maps = found.maps(layers="all", heads="all", queries="all")
    assert [tuple(layer.shape) for layer in given["attention"]] == [(1, *one.values.shape) for one in maps]
    np.testing.assert_array_equal(given["attention"][1][0].numpy(), maps[1].values)
    assert len(given["tokens"]) == maps[0].values.shape[2]
    assert given["tokens"][:2] == ["[0]", "0,0"]
    (shown,) = drawn(bertviz.head_view(**given, html_action="return"))["attention"]
    np.testing.assert_allclose(shown["attn"], [one.values for one in maps], atol=1e-6)
    assert "0,1" in "".join(shown["right_text"])
    assert drawn(bertviz.model_view(**given, html_action="return"))["attention"]


def test_an_encoder_and_a_decoder_are_drawn_with_their_cross_attention(dates):
    bertviz = pytest.importorskip("bertviz")
    found = dates.generate(DATE)
    given = found.bertviz()
    shown = {one["name"]: one for one in drawn(bertviz.head_view(**given, html_action="return"))["attention"]}
    assert set(shown) == {"Encoder", "Decoder", "Cross"}
    cross = [one.values for one in found.maps(kind="cross", layers="all", heads="all", queries="all")]
    np.testing.assert_allclose(shown["Cross"]["attn"], cross, atol=1e-6)
    assert "".join(given["encoder_tokens"]).startswith(DATE)
    assert "".join(given["decoder_tokens"]).endswith(found.text)


@pytest.mark.parametrize(
    "asked",
    [
        {"heads": "mean"},
        {"layers": [1]},
        {"method": "rollout", "heads": "mean"},
        {"heads": "all", "layers": "all", "queries": [0]},
    ],
)
def test_other_maps_are_refused(digits, asked):
    with pytest.raises(regard.BadInput, match="bertviz: must be of raw maps"):
        digits.attention(SEVEN, **{"method": "raw", "layers": "all", "heads": "all", **asked}).attention.bertviz()


def test_without_torch_it_says_what_to_install(digits, monkeypatch):
    found = digits.classify(SEVEN)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(regard.NotInstalled, match="pip install bertviz"):
        found.bertviz()
