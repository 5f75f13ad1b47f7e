"""What the towers of a checkpoint are made of, and what is refused."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from export.errors import CheckpointError
from tests.samples.checkpoints import checkpoint_of, source_of
from tests.samples.export_folders import configured

pytestmark = pytest.mark.families


@pytest.fixture
def copied(tmp_path):
    """What returns a copy of a case's folder, changed."""

    def copy(name, *changes):
        folder = shutil.copytree(checkpoint_of(name), tmp_path / name)
        for change in changes:
            change(folder)
        return folder

    return copy


def with_tensors(**more):
    """Add tensors, or leave those out that are None."""

    def change(folder):
        held = load_file(folder / "model.safetensors") | {name.replace("__", "."): one for name, one in more.items()}
        save_file({name: one for name, one in held.items() if one is not None}, folder / "model.safetensors")

    return change


@pytest.mark.parametrize(("name", "scores"), [("clip", "softmax"), ("siglip", "sigmoid")])
def test_one_checkpoint_is_two_sources_that_are_compared(name, scores):
    image = source_of(checkpoint_of(name))
    text, held = image.partner, load_file(checkpoint_of(name) / "model.safetensors")
    assert (image.name, text.name) == ("it", "it-text")
    assert image.comparison == text.comparison
    assert image.comparison.scores == scores
    assert image.comparison.scale == pytest.approx(held["logit_scale"].exp().item(), rel=1e-6)
    assert image.comparison.bias == pytest.approx(held["logit_bias"].item() if "logit_bias" in held else 0)
    assert [kind.name for kind in image.attention] == ["encoder", "pool"][: 1 + (name == "siglip")]
    assert text.text.filled == (name == "siglip")
    assert [kind.pooled for kind in text.attention] == ["last"]


def test_what_made_a_configuration_overrides_it(copied):
    """So old checkpoints of CLIP have it: one of them, and the other with sizes that are not those of the weights."""
    folder = checkpoint_of("clip")
    sizes = json.loads((folder / "config.json").read_text())["text_config"]
    wrong = {**sizes, "hidden_size": 999, "num_hidden_layers": 1}
    changed = copied("clip", configured(text_config=wrong, text_config_dict=sizes))
    assert source_of(changed).partner.made_by["width"] == sizes["hidden_size"]


def number(value):
    return torch.tensor(value)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("clip", with_tensors(logit_scale=None), "must be logit_scale, a number each, given nothing"),
        ("clip", with_tensors(logit_bias=number(1.0)), "must be logit_scale, a number each, given logit_bias"),
        ("siglip", with_tensors(logit_bias=None), "must be logit_bias, logit_scale, a number each, given logit_scale"),
        ("clip", with_tensors(text_model__more=number([1.0])), "left over text_model.more"),
        ("clip", with_tensors(visual_projection__weight=None), "missing visual_projection.weight"),
        ("clip", configured(model_type="siglip2"), "model_type must be one of"),
        ("clip", configured(vision_config={"hidden_size": 20, "depth": 3}), "depth: not known of clip"),
        ("siglip", configured(vision_config={"vision_use_head": False}), "vision_use_head: Input should be True"),
        (
            "clip",
            configured(architectures=["CLIPForImageClassification"]),
            "CLIPForImageClassification is not supported",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(copied, name, change, words):
    from export.checkpoints.families import check_type
    from export.checkpoints.reading.checkpoint import open_checkpoint

    folder = copied(name, change)

    def read():
        open_checkpoint(str(folder), None, lambda config: check_type(config, None))
        source_of(folder)

    with pytest.raises(CheckpointError, match=words):
        read()


def test_texts_that_are_filled_have_a_length_that_cannot_be_less():
    from export.token_limit import with_max_tokens

    source = source_of(checkpoint_of("siglip"))
    assert with_max_tokens(source, None).partner.text.max_tokens == 28
    with pytest.raises(CheckpointError, match="--max-tokens: must be 28 or more, since texts are filled up to that"):
        with_max_tokens(source, 5)
    assert with_max_tokens(source_of(checkpoint_of("clip")), 5).partner.text.max_tokens == 5
