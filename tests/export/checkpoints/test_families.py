"""What an artifact says of the checkpoint that it was made from; what it answers is in `test_fidelity.py`."""

import json

import pytest

from contract.artifact import read_artifact
from tests.samples.checkpoints import CASES


@pytest.mark.parametrize("name", CASES)
def test_what_was_made_and_measured_is_said(families, name):
    manifest = read_artifact(families / "artifacts" / name / "1").manifest
    config = json.loads((families / "checkpoints" / name / "config.json").read_text())
    assert manifest.family == manifest.made_by["definition"] == config["model_type"]
    assert manifest.task == CASES[name].task
    assert len(str(manifest.made_by["weights_sha256"])) == 64
    assert manifest.verified["row sums"] < 1e-5
    if manifest.task in ("image-classification", "text-classification", "object-detection"):
        assert manifest.labels == ("cat", "dog", "bird")


@pytest.mark.parametrize(
    ("name", "prefix", "grid"),
    [
        ("vit", 1, (2, 3)),
        ("vit-features", 1, (2, 6)),
        ("vit-larger", 1, (4, 4)),
        ("deit", 2, (2, 2)),
        ("dinov2", 1, (2, 2)),
        ("dinov2-registers", 4, (2, 2)),
        ("yolos", 1, (3, 4)),
        ("bert", 1, None),
    ],
)
def test_prefix_and_grid_are_those_of_the_family(families, name, prefix, grid):
    (kind,) = read_artifact(families / "artifacts" / name / "1").manifest.attention
    assert (kind.prefix, kind.grid) == (prefix, grid)
