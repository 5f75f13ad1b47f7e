"""What configurations say of the angles of positions."""

from typing import ClassVar

import pytest
from pydantic import ConfigDict, ValidationError

from export.checkpoints.building.rotary_keys import LayeredKeys, RotaryKeys
from export.errors import CheckpointError


class Keys(RotaryKeys):
    model_config = ConfigDict(strict=True, extra="forbid")
    usual_theta: ClassVar[float] = 7.0


SIZES = {"hidden_size": 16, "num_attention_heads": 2}
NEW = {"rope_type": "default", "rope_theta": 500}


@pytest.mark.parametrize(
    ("keys", "theta"),
    [
        ({}, 7.0),
        ({"rope_theta": 30}, 30.0),
        ({"rope_parameters": NEW}, 500.0),
        ({"rope_parameters": {"rope_type": "default"}, "rope_theta": 30.5, "head_dim": 8}, 30.5),
    ],
)
def test_the_base_is_read_in_both_spellings(keys, theta):
    assert Keys(**SIZES, **keys).theta == theta


def test_heads_that_are_not_their_share_of_the_width_are_refused():
    with pytest.raises(CheckpointError, match=r"config.json: head_dim must be 8, the width by the heads, given 16"):
        _ = Keys(**SIZES, head_dim=16).theta


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}},
        {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
        {"rope_theta": 0},
        {"rope_parameters": {**NEW, "partial_rotary_factor": 0.5}},
    ],
)
def test_other_angles_are_refused(keys):
    with pytest.raises(ValidationError):
        Keys(**SIZES, **keys)


def test_layers_look_near_and_everywhere_as_both_spellings_say():
    older = LayeredKeys(global_attn_every_n_layers=2, local_attention=7, global_rope_theta=900, local_rope_theta=20)
    assert older.windows(4) == {"everywhere": (0, 2), "reach": 3, "theta": 900.0, "local_theta": 20.0}
    newer = LayeredKeys(
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"full_attention": NEW, "sliding_attention": {"rope_type": "default"}},
    )
    assert newer.windows(2) == {"everywhere": (1,), "reach": 64, "theta": 500.0, "local_theta": 10_000.0}
    assert LayeredKeys().windows(5)["everywhere"] == (0, 3)
    with pytest.raises(CheckpointError, match=r"config.json: layer_types must be of 3 layers, given 2"):
        newer.windows(3)
