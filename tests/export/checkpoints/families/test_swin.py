"""Checkpoints of Swin and of Swin V2 give our definitions the answers of the reference library."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file

from export.checkpoints.families.swin import SWIN
from export.checkpoints.families.swinv2 import SWINV2, Config, sizes
from export.errors import CheckpointError
from tests.samples.swin_checkpoints import differ, read, saved

KEYS = {
    "image_size": 32,
    "patch_size": 2,
    "embed_dim": 12,
    "window_size": 4,
    "mlp_ratio": 2.5,
    "layer_norm_eps": 0.01,
    "num_labels": 5,
}
OWN_KEYS = {
    "Swin": {"num_channels": 3, "depths": [2, 3], "num_heads": [2, 3], "hidden_act": "gelu_new"},
    "Swinv2": {"num_channels": 1, "depths": [2, 2, 2, 1], "num_heads": [2, 3, 4, 6], "hidden_act": "relu"},
}
FAMILIES = {"Swin": SWIN, "Swinv2": SWINV2}
of_each = pytest.mark.parametrize("name", FAMILIES)


def model(name, ending="ForImageClassification", **changed):
    """Return a model of the reference library."""
    config = getattr(transformers, f"{name}Config")(**{**KEYS, **OWN_KEYS[name], **changed})
    return getattr(transformers, f"{name}{ending}")(config)


def pixels(name):
    shape = 2, OWN_KEYS[name]["num_channels"], 32, 32
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def same(name, folder, theirs, task=None):
    """Hold a checkpoint against the reference library; return our model, and the tensors that it does not use."""
    ours, unused = read(FAMILIES[name], folder, task)
    assert differ(ours, theirs, pixels(name)) < 1e-5
    return ours, unused


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("Swin", {}),
        ("Swin", {"qkv_bias": False, "use_absolute_embeddings": True}),
        ("Swin", {"image_size": [32, 32], "mlp_ratio": 3}),
        ("Swinv2", {}),
        ("Swinv2", {"qkv_bias": False}),
        ("Swinv2", {"pretrained_window_sizes": [6, 6, 3, 0]}),
    ],
)
def test_a_classifier_is_read_with_every_tensor(tmp_path, name, changed):
    theirs = saved(model(name, **changed), tmp_path)
    as_on_the_hub = {"Swin": "relative_position_bias_table", "Swinv2": "logit_scale"}[name]
    path = f"{name.lower()}.encoder.layers.0.blocks.1.attention.self.{as_on_the_hub}"
    assert path in load_file(tmp_path / "model.safetensors")
    assert same(name, tmp_path, theirs)[1] == []


@of_each
def test_features_are_the_mean_of_the_last_states_with_a_head_or_without(tmp_path, name):
    ours, unused = same(name, tmp_path / "body", saved(model(name, "Model"), tmp_path / "body"))
    assert unused == []
    assert ours.width == {"Swin": 24, "Swinv2": 96}[name]
    headed = getattr(saved(model(name), tmp_path / "headed"), name.lower())
    _, unused = same(name, tmp_path / "headed", headed, "feature-extraction")
    assert unused == ["classifier.bias", "classifier.weight"]


@of_each
def test_tables_that_older_checkpoints_hold_are_not_used(tmp_path, name):
    path = f"{name.lower()}.encoder.layers.0.blocks.0.attention.self"
    more = {f"{path}.relative_position_index": torch.zeros(16, 16, dtype=torch.int64)}
    if name == "Swinv2":
        more[f"{path}.relative_coords_table"] = torch.zeros(1, 7, 7, 2)
    _, unused = same(name, tmp_path, saved(model(name), tmp_path, **more))
    assert sorted(unused) == sorted(more)


@pytest.mark.parametrize(
    ("name", "changed", "words"),
    [
        ("Swin", {"window_size": 0}, "window_size: Input should be greater than 0, given '0'"),
        ("Swin", {"pretrained_window_sizes": [4, 4]}, "pretrained_window_sizes: not known of swin"),
        ("Swin", {"hidden_act": "mish"}, "hidden_act: must be one of gelu"),
        ("Swinv2", {"use_absolute_embeddings": True}, "use_absolute_embeddings: Input should be False"),
    ],
)
def test_a_key_that_is_not_supported_is_refused_by_name(tmp_path, name, changed, words):
    saved(model(name), tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))
    with pytest.raises(CheckpointError, match=f"config.json: {words}"):
        read(FAMILIES[name], tmp_path)


def test_the_reference_library_cannot_run_v2_with_absolute_positions():
    with pytest.raises(RuntimeError, match="must match the size"):
        model("Swinv2", use_absolute_embeddings=True)(pixels("Swinv2"))
    assert model("Swinv2").config.use_absolute_embeddings is False


def test_an_image_that_windows_do_not_fill_is_refused(tmp_path):
    saved(model("Swin", image_size=40), tmp_path)
    with pytest.raises(ValueError, match=r"^stage 1: sides must be multiples of the window's 4, given 10x10$"):
        read(SWIN, tmp_path)


@pytest.mark.parametrize(("said", "trained"), [((0, 0, 0, 0), (16, 8, 4, 2)), ((12, 0, 6, 0), (12, 8, 6, 2))])
def test_for_a_larger_image_places_are_scaled_as_in_the_windows_of_the_checkpoint_s_own(said, trained):
    """There, a later stage has windows as large as its grid, which is larger in a larger image."""
    keys = {"image_size": 32, "patch_size": 2, "window_size": 16, "depths": (1,) * 4, "num_heads": (1,) * 4}
    found = sizes(Config(**keys, pretrained_window_sizes=said), (128, 128))
    assert found.trained_windows == trained
    assert [windows[0].side for windows in found.windows] == [16, 16, 16, 8]
