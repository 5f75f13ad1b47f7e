"""Checkpoints of Swin give our definition the answers of the reference library."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file

from export.checkpoints.families.swin import SWIN
from export.errors import CheckpointError
from tests.samples.swin_checkpoints import differ, read, saved

KEYS = {
    "image_size": 32,
    "patch_size": 2,
    "num_channels": 3,
    "embed_dim": 12,
    "depths": [2, 3],
    "num_heads": [2, 3],
    "window_size": 4,
    "mlp_ratio": 2.5,
    "hidden_act": "gelu_new",
    "layer_norm_eps": 0.01,
    "num_labels": 5,
}
PIXELS = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "changed", [{}, {"qkv_bias": False, "use_absolute_embeddings": True}, {"image_size": [32, 32], "mlp_ratio": 3}]
)
def test_a_classifier_is_read_with_every_tensor(tmp_path, changed):
    theirs = saved(transformers.SwinForImageClassification(transformers.SwinConfig(**{**KEYS, **changed})), tmp_path)
    as_on_the_hub = "swin.encoder.layers.0.blocks.1.attention.self.relative_position_bias_table"
    assert as_on_the_hub in load_file(tmp_path / "model.safetensors")
    ours, unused = read(SWIN, tmp_path)
    assert unused == []
    assert differ(ours, theirs, PIXELS) < 1e-5


def test_features_are_the_mean_of_the_last_states_with_a_head_or_without(tmp_path):
    config = transformers.SwinConfig(**KEYS)
    theirs = saved(transformers.SwinModel(config), tmp_path / "body")
    ours, unused = read(SWIN, tmp_path / "body")
    assert unused == []
    assert ours.width == 24
    assert differ(ours, theirs, PIXELS) < 1e-5
    theirs = saved(transformers.SwinForImageClassification(config), tmp_path / "headed").swin
    ours, unused = read(SWIN, tmp_path / "headed", "feature-extraction")
    assert unused == ["classifier.bias", "classifier.weight"]
    assert differ(ours, theirs, PIXELS) < 1e-5


def test_indices_that_older_checkpoints_hold_are_not_used(tmp_path):
    name = "swin.encoder.layers.0.blocks.0.attention.self.relative_position_index"
    theirs = transformers.SwinForImageClassification(transformers.SwinConfig(**KEYS))
    saved(theirs, tmp_path, **{name: torch.zeros(16, 16, dtype=torch.int64)})
    ours, unused = read(SWIN, tmp_path)
    assert unused == [name]
    assert differ(ours, theirs, PIXELS) < 1e-5


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"window_size": 0}, "config.json: window_size: Input should be greater than 0, given '0'"),
        ({"pretrained_window_sizes": [4, 4]}, "config.json: pretrained_window_sizes: not known of swin"),
        ({"hidden_act": "mish"}, "config.json: hidden_act: must be one of gelu"),
    ],
)
def test_a_key_that_is_not_supported_is_refused_by_name(tmp_path, changed, words):
    saved(transformers.SwinForImageClassification(transformers.SwinConfig(**KEYS)), tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))
    with pytest.raises(CheckpointError, match=words):
        read(SWIN, tmp_path)


def test_an_image_that_windows_do_not_fill_is_refused(tmp_path):
    saved(transformers.SwinForImageClassification(transformers.SwinConfig(**{**KEYS, "image_size": 40})), tmp_path)
    with pytest.raises(ValueError, match=r"^stage 1: sides must be multiples of the window's 4, given 10x10$"):
        read(SWIN, tmp_path)
