"""Swin V2 against the reference library: logits, and the weights of every block."""

import pytest

from model.architectures.swin_v2 import SWIN_V2_SIZES, SwinV2Config, swin_v2
from tests.samples.attention_reference import assert_batch_is_its_rows, assert_same, assert_same_maps, randn, sharpen
from tests.samples.swin_reference import SMALL, answer_of, assert_every_map_has_a_gradient, pair_v2

CONFIGS_V2 = {
    "shifted twice": SwinV2Config(**vars(SMALL)),
    "windows larger than the last stage": SwinV2Config(
        **{**vars(SMALL), "depths": (2, 2, 2, 2), "heads": (2, 3, 4, 6)}
    ),
    "oblong": SwinV2Config(**{**vars(SMALL), "image": (32, 48)}),
    "without bias": SwinV2Config(**{**vars(SMALL), "bias": False}),
    "another activation, epsilon and ratio": SwinV2Config(
        **{**vars(SMALL), "activation": "silu", "epsilon": 0.1, "ratio": 1.7}
    ),
    "trained with other windows": SwinV2Config(**vars(SMALL), trained_windows=(6, 3)),
    "trained with other windows in one stage": SwinV2Config(**vars(SMALL), trained_windows=(0, 3)),
}


@pytest.mark.parametrize("config", CONFIGS_V2.values(), ids=CONFIGS_V2)
def test_logits_and_every_map_of_v2_are_those_of_the_reference_library(config):
    ours, theirs = pair_v2(config)
    pixels = randn(3, config.channels, *config.image)
    logits, maps = ours(pixels)
    wanted, weights = answer_of(theirs, pixels, "Swinv2Attention", output_attentions=True)
    assert_same_maps(maps, weights, 1e-5)  # its places are in float32
    assert_same(logits, wanted, 1e-5)


def test_a_batch_of_three_is_three_batches_of_one():
    assert_batch_is_its_rows(sharpen(swin_v2(SwinV2Config(**vars(SMALL)))), randn(3, 2, 32, 32))


def test_a_logit_has_a_gradient_for_every_map():
    assert_every_map_has_a_gradient(sharpen(swin_v2(SwinV2Config(**vars(SMALL)))))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((4,), "trained windows: must be given for each of 2 stages, given 1"),
        ((4, 1), "trained windows: must be 0, or 2 or more, given 1"),
        ((-4, 4), "trained windows: must be 0, or 2 or more, given -4"),
    ],
)
def test_trained_windows_that_say_nothing_are_refused(given, words):
    with pytest.raises(ValueError, match=f"^{words}$"):
        SwinV2Config(**vars(SMALL), trained_windows=given)


def test_sizes_of_v2_are_refused_as_those_of_v1_are():
    with pytest.raises(ValueError, match=r"^stage 1: sides must be multiples of the window's 4, given 6x6$"):
        SwinV2Config(**{**vars(SMALL), "image": (24, 24)})


def test_the_published_sizes_are_those_of_the_paper():
    config = SWIN_V2_SIZES["swin_v2_t"]
    assert config.grids == ((64, 64), (32, 32), (16, 16), (8, 8))
    assert [[own.shift for own in row[:2]] for row in config.windows] == [[0, 4], [0, 4], [0, 4], [0, 0]]
