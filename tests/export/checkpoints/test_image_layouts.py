"""Layouts of checkpoints that see: names and tensors of other releases, what only training needs, what is refused."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from export.checkpoints.families import check_type
from export.errors import CheckpointError
from tests.samples.checkpoints import Case, T, processor, source_of, vit
from tests.samples.export_folders import configured, edit, renamed

pytestmark = pytest.mark.families


def with_indices(folder):
    """As the reference library saved a BEiT before it computed what follows from the grid."""
    tensors, end = load_file(folder / "model.safetensors"), "relative_position_bias_table"
    tables = [name for name in tensors if name.endswith(end)]
    index = {name.replace(end, "relative_position_index"): torch.zeros(5, 5, dtype=torch.int64) for name in tables}
    assert index
    save_file(tensors | index, folder / "model.safetensors")


def set_up(**settings):
    return lambda folder: edit(folder, "preprocessor_config.json", lambda it: it.update(settings))


# as https://github.com/huggingface/transformers saves them, or as its converters of these models wrote them
OF_DINOV3 = {
    "attention_dropout": 0.0, "drop_path_rate": 0.0, "initializer_range": 0.02, "layerscale_value": 1.0,
    "mlp_bias": True, "pos_embed_jitter": None, "pos_embed_rescale": 2.0, "pos_embed_shift": None,
    "torch_dtype": "float32", "transformers_version": "4.56.0.dev0",
}  # fmt: skip
OF_BEIT = {
    "auxiliary_channels": 256, "auxiliary_concat_input": False, "auxiliary_loss_weight": 0.4, "auxiliary_num_convs": 1,
    "out_indices": [3, 5, 7, 11], "pool_scales": [1, 2, 3, 6], "semantic_loss_ignore_index": 255,
    "use_auxiliary_head": True, "use_mask_token": False, "vocab_size": 8192, "torch_dtype": "float32",
}  # fmt: skip
PROCESSOR_OF_DINOV3 = {
    "crop_size": None, "data_format": "channels_first", "default_to_square": True, "device": None,
    "disable_grouping": None, "do_center_crop": None, "do_convert_rgb": None, "do_normalize": True, "do_rescale": True,
    "do_resize": True, "input_data_format": None, "resample": 2, "rescale_factor": 1 / 255, "return_tensors": None,
}  # fmt: skip
LAYOUTS = {
    "the keys of a DINOv3": ("dinov3", configured(**OF_DINOV3)),
    "the keys of a DINOv3's processor": ("dinov3", set_up(**PROCESSOR_OF_DINOV3)),
    "the keys of a BEiT": ("beit-shared", configured(**OF_BEIT)),
    "the keys of a BEiT's processor": ("beit-shared", set_up(crop_size=224, reduce_labels=False, do_center_crop=False)),
    "the keys of an MAE": ("vit-mae", configured(mask_ratio=0.75, norm_pix_loss=False, decoder_hidden_size=512)),
    "the keys of an I-JEPA": ("ijepa", configured(mlp_ratio=48 / 11)),
    "a BEiT with the index of its tables": ("beit", with_indices),
    "a BEiT with the index of a shared table": ("beit-features", with_indices),
    "a DINOv3 whose blocks have a stack's name": (
        "dinov3",
        renamed(lambda name: [f"model.{name}" if name.startswith("layer.") else name]),
    ),
    "an MSN whose every tensor has the body's name": (
        "vit-msn",
        renamed(lambda name: [name if name.startswith(("vit.", "classifier.")) else f"vit.{name}"]),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_of_another_release_is_the_same_model(saved, layout):
    name, change = LAYOUTS[layout]
    folder = saved(name)
    old = source_of(folder)
    change(folder)
    new = source_of(folder)
    inputs = old.base.example(old.verified_at[1], seed=1)
    with torch.no_grad():
        assert torch.equal(*(one.traced(*inputs)[0] for one in (old, new)))


@pytest.mark.parametrize("block", ["decoder_encoder.layer", "decoder_layers"])
def test_the_decoder_of_a_masked_autoencoder_is_set_aside(tmp_path, block):
    """Its blocks are named as published, or as the reference library saves them."""
    decoder = {"decoder_hidden_size": 16, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2}
    files = processor("ViTImageProcessor", 8, 8)
    Case(vit(T.ViTMAEForPreTraining, T.ViTMAEConfig, image_size=8, **decoder), "", files).save(tmp_path)
    renamed(lambda name: [name.replace("decoder_encoder.layer", block)])(tmp_path)
    source = source_of(tmp_path, task="feature-extraction")
    assert f"decoder.{block}.0.attention.output.dense.weight" in source.made_by["set_aside"]
    with pytest.raises(CheckpointError, match="or add --task feature-extraction for the body alone"):
        check_type(json.loads((tmp_path / "config.json").read_text()), None)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("dinov3", configured(value_bias=False), "config.json: value_bias: must be as query_bias, given 'False'"),
        ("dinov3", configured(mlp_bias=False), "config.json: mlp_bias: Input should be True, given 'False'"),
        (
            "dinov3",
            configured(num_attention_heads=8),
            "rotary positions of a grid: width of a head must be a multiple of 4, given 2",
        ),
        ("beit", configured(patch_size=[4, 2]), "config.json: patch_size: Input should be a valid integer"),
        (
            "beit",
            configured(patch_size=2),
            r"relative_position_bias_table must be \[52, 2\], given \[12, 2\]",
        ),
        ("beit", configured(use_relative_position_bias=False), "weights: left over .*relative_position_bias_table"),
        ("beit-shared", configured(use_mean_pooling=True), "weights: left over beit.layernorm"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(saved, name, change, words):
    folder = saved(name)
    change(folder)
    with pytest.raises(CheckpointError, match=words):
        source_of(folder)
