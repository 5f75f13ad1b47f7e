"""Checkpoints of Swin V2 give our definition the answers of the reference library."""

import json

import pytest
import torch
import transformers

from export.checkpoints.families.swinv2 import SWINV2, Config, sizes
from export.errors import CheckpointError
from tests.samples.swin_checkpoints import differ, read, saved

KEYS = {
    "image_size": 32,
    "patch_size": 2,
    "num_channels": 1,
    "embed_dim": 12,
    "depths": [2, 2, 2, 1],
    "num_heads": [2, 3, 4, 6],
    "window_size": 4,
    "mlp_ratio": 2.5,
    "hidden_act": "relu",
    "layer_norm_eps": 0.01,
    "num_labels": 5,
}
PIXELS = torch.randn(2, 1, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("changed", [{}, {"qkv_bias": False}, {"pretrained_window_sizes": [6, 6, 3, 0]}])
def test_a_classifier_is_read_with_every_tensor(tmp_path, changed):
    config = transformers.Swinv2Config(**{**KEYS, **changed})
    theirs = saved(transformers.Swinv2ForImageClassification(config), tmp_path)
    ours, unused = read(SWINV2, tmp_path)
    assert unused == []
    assert differ(ours, theirs, PIXELS) < 1e-5


def test_features_are_the_mean_of_the_last_states(tmp_path):
    theirs = saved(transformers.Swinv2Model(transformers.Swinv2Config(**KEYS)), tmp_path)
    ours, unused = read(SWINV2, tmp_path)
    assert unused == []
    assert differ(ours, theirs, PIXELS) < 1e-5


def test_tables_that_older_checkpoints_hold_are_not_used(tmp_path):
    path = "swinv2.encoder.layers.0.blocks.0.attention.self"
    more = {
        f"{path}.relative_position_index": torch.zeros(16, 16, dtype=torch.int64),
        f"{path}.relative_coords_table": torch.zeros(1, 7, 7, 2),
    }
    theirs = saved(transformers.Swinv2ForImageClassification(transformers.Swinv2Config(**KEYS)), tmp_path, **more)
    ours, unused = read(SWINV2, tmp_path)
    assert sorted(unused) == sorted(more)
    assert differ(ours, theirs, PIXELS) < 1e-5


def test_absolute_positions_are_refused_because_the_reference_library_cannot_run_with_them(tmp_path):
    theirs = saved(transformers.Swinv2ForImageClassification(transformers.Swinv2Config(**KEYS)), tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "use_absolute_embeddings": True}))
    with pytest.raises(CheckpointError, match=r"config.json: use_absolute_embeddings: Input should be False"):
        read(SWINV2, tmp_path)
    broken = transformers.Swinv2Config(**KEYS, use_absolute_embeddings=True)
    with pytest.raises(RuntimeError, match="must match the size"):
        transformers.Swinv2ForImageClassification(broken)(PIXELS)
    assert theirs.config.use_absolute_embeddings is False


@pytest.mark.parametrize(("said", "trained"), [((0, 0, 0, 0), (16, 8, 4, 2)), ((12, 0, 6, 0), (12, 8, 6, 2))])
def test_for_a_larger_image_places_are_scaled_as_in_the_windows_of_the_checkpoint_s_own(said, trained):
    """There, a later stage has windows as large as its grid, which is larger in a larger image."""
    keys = {"image_size": 32, "patch_size": 2, "window_size": 16, "depths": (1,) * 4, "num_heads": (1,) * 4}
    found = sizes(Config(**keys, pretrained_window_sizes=said), (128, 128))
    assert found.trained_windows == trained
    assert [windows[0].side for windows in found.windows] == [16, 16, 16, 8]
