"""What configurations of decoders say of angles and windows, in the spelling of releases 4 and 5."""

import math

import pytest
from pydantic import ConfigDict, ValidationError

from export.checkpoints.building.decoder_keys import LlamaKeys, WindowKeys, near_layers
from export.errors import CheckpointError
from model.architectures.gpt_variants import LlamaConfig
from model.parts.stretch import Llama3, Stretch, Yarn

LLAMA3 = {"factor": 8, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


class Windows(WindowKeys):
    model_config = ConfigDict(strict=True, extra="forbid")


def read(**keys):
    return LlamaConfig(**LlamaKeys(vocab_size=300, max_position_embeddings=48, **keys).common)


@pytest.mark.parametrize(
    ("keys", "theta", "stretch"),
    [
        ({}, 10_000.0, Stretch()),
        ({"rope_theta": 500}, 500.0, Stretch()),
        ({"rope_parameters": {"rope_theta": 30.5}}, 30.5, Stretch()),
        ({"rope_theta": 7.0, "rope_scaling": {"type": "linear", "factor": 4}}, 7.0, Stretch(4.0)),
        ({"rope_scaling": {"rope_type": "llama3", **LLAMA3}}, 10_000.0, Llama3(8.0, length=48)),
        (
            {"rope_parameters": {"rope_type": "llama3", "original_max_position_embeddings": 16, **LLAMA3}},
            10_000.0,
            Llama3(8.0, length=16),
        ),
        (
            {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 12}},
            10_000.0,
            Yarn(4.0, 0.1 * math.log(4) + 1, length=12),
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.5, "truncate": False}},
            10_000.0,
            Yarn(4.0, 1.5, length=48, whole=False),
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "mscale": 2.0, "mscale_all_dim": 1.0}},
            10_000.0,
            Yarn(4.0, (0.2 * math.log(4) + 1) / (0.1 * math.log(4) + 1), length=48),
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 1.0, "beta_fast": 8.0, "beta_slow": 2.0}},
            10_000.0,
            Yarn(1.0, 1.0, length=48, fast=8.0, slow=2.0),
        ),
    ],
)
def test_angles_are_read_in_both_spellings(keys, theta, stretch):
    config = read(**keys)
    assert (config.theta, config.stretch) == (theta, stretch)


@pytest.mark.parametrize(
    ("angles", "words"),
    [
        ({"type": "dynamic", "factor": 2.0}, "'dynamic' found using 'rope_type' does not match any of the expected"),
        ({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}, "'longrope' found using 'rope_type'"),
        ({"rope_type": "default", "partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_type": "linear"}, "factor"),
        ({"rope_type": "linear", "factor": 0}, "greater than 0"),
        ({"rope_type": "llama3", "factor": 2.0}, "low_freq_factor"),
        ("yarn", "dictionary"),
    ],
)
def test_other_angles_are_refused_by_name(angles, words):
    with pytest.raises(ValidationError, match=words):
        read(rope_scaling=angles)


def test_a_band_of_angles_must_have_a_width():
    with pytest.raises(CheckpointError, match=r"config.json: high_freq_factor must be above low_freq_factor, 4.0"):
        read(rope_scaling={"rope_type": "llama3", **LLAMA3, "low_freq_factor": 4.0})


NEAR = ["full_attention", "sliding_attention", "sliding_attention"]


@pytest.mark.parametrize(
    ("keys", "near", "window"),
    [
        ({}, None, None),
        ({"sliding_window": 8}, None, None),
        ({"use_sliding_window": True, "max_window_layers": 1}, (1, 2), 4096),
        ({"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2}, (2,), 8),
        ({"use_sliding_window": True, "sliding_window": None, "max_window_layers": 0}, None, None),
        ({"use_sliding_window": True, "sliding_window": 8, "layer_types": NEAR}, (1, 2), 8),
        ({"layer_types": ["full_attention"] * 3}, None, None),
    ],
)
def test_the_layers_that_see_the_last_tokens_are_read_in_both_spellings(keys, near, window):
    wanted = {"near": near, "window": window} if near else {}
    assert Windows(num_hidden_layers=3, **keys).windows == wanted


def test_layers_that_contradict_each_other_are_refused():
    with pytest.raises(CheckpointError, match=r"config.json: layer_types must be of 2 layers, given 3"):
        near_layers(NEAR, 2, 8)
    with pytest.raises(CheckpointError, match=r"config.json: sliding_window must be set, since layer_types name slid"):
        near_layers(NEAR, 3, None)
