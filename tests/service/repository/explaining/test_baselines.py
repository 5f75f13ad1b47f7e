"""Baselines: what is replaced in an input, and what stays."""

import numpy as np
import pytest

from contract.input_rules import TextRule
from service.inputs.model_input import ModelInput
from service.repository.explaining.baselines import baseline_controls
from tests.samples.attention_queries import continuer, embedder, graphs, translator, vit

TEXT = TextRule(tokenizer="tokenizer.json", max_tokens=8, mask=1, padding=0)


def text_input(**more):
    """An input of five tokens, the first and the last of which are special."""
    special = np.array([True, False, False, False, True])
    return ModelInput({"source": np.array([7, 3, 4, 3, 8]), **more}, {"source": 5}, {"source": special})


def test_a_picture_becomes_black_pixels_of_its_type():
    pixels = np.random.default_rng(0).integers(1, 256, (4, 4, 1)).astype(np.uint8)
    controls = baseline_controls(ModelInput({"pixels": pixels}, {}, {}), "empty", vit())
    assert controls["blank"].tolist() == 1.0
    assert controls["blank"].dtype == np.float32
    assert controls["baseline.pixels"].dtype == np.uint8
    assert not controls["baseline.pixels"].any()
    assert controls["baseline.pixels"].shape == pixels.shape


@pytest.mark.parametrize(("baseline", "wanted"), [("mask", [7, 1, 1, 1, 8]), ("padding", [7, 0, 0, 0, 8])])
def test_tokens_are_replaced_except_special_ones(baseline, wanted):
    item = text_input()
    assert baseline_controls(item, baseline, embedder())["baseline.source"].tolist() == wanted
    assert item.arrays["source"].tolist() == [7, 3, 4, 3, 8]


def test_the_masks_that_are_asked_about_stay():
    item = text_input(masked=np.array([2]))
    assert baseline_controls(item, "padding", embedder())["baseline.source"].tolist() == [7, 0, 4, 0, 8]


def test_states_of_zeros_need_no_tokens_of_their_own():
    controls = baseline_controls(text_input(), "zero", embedder())
    assert controls["blank"].tolist() == 0.0
    assert controls["baseline.source"].tolist() == [7, 3, 4, 3, 8]


@pytest.mark.parametrize(
    ("own", "padding", "wanted"), [(None, None, [2, 1, 1]), (None, 9, [2, 1, 1]), ("tokenizer.json", 9, [2, 9, 9])]
)
def test_targets_with_a_tokenizer_of_their_own_are_replaced_by_its_padding(own, padding, wanted):
    generation = continuer().generation.model_copy(update={"start": 2, "tokenizer": own, "padding": padding})
    both = graphs("logits", 10, "source", 1, ["cross", "decoder"], "target")
    blanks = tuple(
        both["integrated"].inputs[0].model_copy(update={"name": f"baseline.{axis}"}) for axis in ("source", "target")
    )
    both["integrated"] = both["integrated"].model_copy(update={"inputs": blanks})
    model = translator().model_copy(update={"inputs": (TEXT,), "generation": generation, "graphs": both})
    item = text_input(target=np.array([2, 5, 6]))
    item.special["target"] = np.array([True, False, False])
    controls = baseline_controls(item, "mask", model)
    assert controls["baseline.source"].tolist() == [7, 1, 1, 1, 8]
    assert controls["baseline.target"].tolist() == wanted


def test_what_continues_its_source_is_replaced_by_the_token_of_the_text():
    item = ModelInput({"target": np.array([7, 3, 4])}, {}, {"target": np.array([True, False, False])})
    assert baseline_controls(item, "padding", continuer())["baseline.target"].tolist() == [7, 9, 9]


def test_a_baseline_without_a_token_is_an_error():
    with pytest.raises(ValueError, match="source: the baseline mask needs a token, given none"):
        baseline_controls(text_input(), "mask", translator())
