"""Checkpoints of detectors: they compute what the reference library does, under all names; and what is refused."""

import itertools
import json
import re

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

from export.checkpoints.families import check_type
from export.errors import CheckpointError, ProcessorError
from model.parts.resnet import RESNET_SIZES, ResNetConfig
from service.inputs.image_inputs import ImageInputs
from service.inputs.image_preprocessing import decode_image
from tests.samples.checkpoints import reference, source_of
from tests.samples.export_folders import configured, edit, renamed
from tests.samples.images import encoded


def by_patterns(*changes):
    def named(name):
        for pattern, to in changes:
            name = re.sub(pattern, to, name)
        return [name]

    return renamed(named)


def same(old, new, names=("labels", "scores", "inputs", "attention")):
    inputs = old.base.example({"batch": 2}, seed=1)
    with torch.no_grad():
        for one, other in zip(old.traced(*inputs), new.traced(*inputs), strict=True):
            assert torch.equal(one, other)
    for field in names:
        assert getattr(old, field) == getattr(new, field), field


TIMM = (
    (r"embedder\.embedder\.convolution", "conv1"),
    (r"embedder\.embedder\.normalization", "bn1"),
    (r"encoder\.stages\.(\d)\.layers\.(\d)", lambda found: f"layer{int(found[1]) + 1}.{found[2]}"),
    (r"\.layer\.(\d)\.convolution", lambda found: f".conv{int(found[1]) + 1}"),
    (r"\.layer\.(\d)\.normalization", lambda found: f".bn{int(found[1]) + 1}"),
    (r"shortcut\.convolution", "downsample.0"),
    (r"shortcut\.normalization", "downsample.1"),
)
LATER = (
    (r"backbone\.conv_encoder", "backbone"),
    (r"out_proj", "o_proj"),
    (r"(layers\.\d+)\.(fc\d)", r"\1.mlp.\2"),
    *(
        (rf"\.{short}_{part}_proj", f".{whole}.{later}_proj")
        for short, whole in (("sa", "self_attn"), ("ca", "encoder_attn"))
        for part, later in (
            ("qcontent", "q_content"), ("qpos_sine", "q_pos_sine"), ("qpos", "q_pos"), ("kcontent", "k_content"),
            ("kpos", "k_pos"), ("v", "v"),
        )
    ),
)  # fmt: skip
LATER_YOLOS = ((r"encoder\.mid", "encoder.interpolation.mid"),)
OLD_PLACES = ((r"model\.position_embedding", "model.backbone.position_embedding"),)


@pytest.mark.parametrize(("name", "backbone"), [("detr", "resnet50"), ("table-transformer", "resnet18")])
def test_the_hub_s_names_of_a_backbone_are_those_of_timm(saved, monkeypatch, name, backbone):
    folder = saved(name)
    old = source_of(folder)
    block = RESNET_SIZES[backbone].block
    monkeypatch.setitem(RESNET_SIZES, backbone, ResNetConfig(3, 8, (8, 16, 24, 32), (1, 1, 1, 1), block))
    configured(use_timm_backbone=True, backbone=backbone, backbone_config=None, dilation=False)(folder)
    by_patterns(*TIMM)(folder)
    assert any(
        "conv_encoder.model.layer4.0.downsample.0.weight" in one for one in load_file(folder / "model.safetensors")
    )
    same(old, source_of(folder))
    kwargs = {"in_chans": 3, "out_indices": [1, 2, 3, 4]}
    configured(backbone_kwargs=kwargs)(folder)
    same(old, source_of(folder))
    whole = {"model_type": "timm_backbone", "backbone": backbone, "num_channels": 3, "features_only": True}
    whole |= {"out_indices": [1, 2, 3, 4], "use_pretrained_backbone": False}
    configured(backbone=None, backbone_config=whole)(folder)
    same(old, source_of(folder))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("detr", LATER), ("table-transformer", LATER[:1]), ("conditional-detr", LATER), ("yolos", LATER_YOLOS),
        ("detr-learned", OLD_PLACES),
    ],
)  # fmt: skip
def test_names_of_other_versions_of_the_reference_library_are_read(saved, name, changes):
    folder = saved(name)
    old = source_of(folder)
    before = load_file(folder / "model.safetensors").keys()
    by_patterns(*changes)(folder)
    assert before != load_file(folder / "model.safetensors").keys()
    same(old, source_of(folder))


def test_statistics_that_were_counted_are_set_aside(saved):
    folder = saved("detr")
    old = source_of(folder)
    held = load_file(folder / "model.safetensors")
    counts = {
        name.replace("running_mean", "num_batches_tracked"): torch.tensor(7) for name in held if "running_mean" in name
    }
    save_file(held | counts, folder / "model.safetensors")
    new = source_of(folder)
    same(old, new)
    assert "num_batches_tracked" in new.made_by["set_aside"]


PUBLISHED = {
    "classifier_dropout": 0.0, "init_std": 0.02, "init_xavier_std": 1.0, "max_position_embeddings": 1024,
    "num_hidden_layers": 2, "scale_embedding": False, "mask_loss_coefficient": 1, "use_pretrained_backbone": None,
}  # fmt: skip


@pytest.mark.parametrize("name", ["detr", "table-transformer", "conditional-detr"])
def test_keys_of_published_configurations_are_read(saved, name):
    folder = saved(name)
    old = source_of(folder)
    configured(**PUBLISHED)(folder)
    same(old, source_of(folder))


def test_classes_without_a_name_are_told(saved):
    folder = saved("detr")
    configured(id2label={"0": "N/A", "1": "cat", "2": "N/A"})(folder)
    assert source_of(folder).labels == ("N/A", "cat", "N/A")
    configured(id2label={"1": "cat", "2": "dog"})(folder)
    assert source_of(folder).labels == ("N/A", "cat", "dog")
    configured(id2label={"1": "cat"}, num_labels=3)(folder)
    assert source_of(folder).labels == ("N/A", "cat", "N/A")
    configured(id2label={"1": "cat", "2": "dog"}, num_labels=2)(folder)
    with pytest.raises(CheckpointError, match=r"^config.json: num_labels must be 3, as many as id2label says$"):
        source_of(folder)
    configured(id2label={}, num_labels=None)(folder)
    with pytest.raises(CheckpointError, match=r"^config.json: id2label must name at least one class, given none$"):
        source_of(folder)


@pytest.mark.parametrize(
    ("name", "size", "asked", "canvas", "locate"),
    [
        ("detr", None, None, (800, 1088), "fit"),
        ("detr", {"shortest_edge": 64, "longest_edge": 110}, None, (64, 96), "fit"),
        ("detr", {"shortest_edge": 64, "longest_edge": 70}, None, (64, 96), "fit"),
        ("detr", {"shortest_edge": 64, "longest_edge": 64}, None, (64, 64), "fit"),
        ("detr", 64, None, (64, 96), "fit"),
        ("detr", {"max_height": 60, "max_width": 33}, None, (64, 64), "fit"),
        ("detr", {"height": 60, "width": 33}, None, (64, 64), "middle"),
        ("detr", 64, (90, 65), (96, 96), "fit"),
        ("yolos", {"shortest_edge": 13, "longest_edge": 99}, None, (16, 20), "fit"),
        ("yolos", {"height": 8, "width": 12}, (7, 15), (8, 16), "middle"),
    ],
)
def test_a_canvas_is_that_of_the_processor_or_asked_for_and_holds_whole_cells(saved, name, size, asked, canvas, locate):
    folder = saved(name)
    edit(folder, "preprocessor_config.json", lambda it: it.update(size=size, pad_size=None))
    source = source_of(folder, **({"image": asked} if asked else {}))
    (rule,) = source.inputs
    assert (rule.height, rule.width, rule.locate) == (*canvas, locate)
    taken = {"pixels", *(() if locate == "middle" else ("shown", "image_visible") if name == "detr" else ("shown",))}
    assert {port.name for port in source.base.inputs} == taken
    cell = 32 if name == "detr" else 4
    assert source.attention[0].grid == (canvas[0] // cell, canvas[1] // cell)


IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
PICTURES = [(96, 64), (64, 64), (90, 91), (64, 96), (160, 90), (50, 113), (9, 7)]
EDGES, ROOM = {"shortest_edge": 64, "longest_edge": 107}, {"max_height": 80, "max_width": 100}


@torch.no_grad()
def answers_of_both(folder, **options):
    """Yield for each picture what ours and the reference library find in it: the logits and the boxes of both."""
    source, config = source_of(folder, **options), json.loads((folder / "preprocessor_config.json").read_text())
    kind = config["image_processor_type"].replace("FeatureExtractor", "ImageProcessor")
    process, theirs = getattr(transformers, f"{kind}Pil").from_dict(config), reference(folder)
    inputs = ImageInputs(source.image, source.attention, fed={port.name for port in source.base.inputs})
    ours = source.traced.double()
    for size in PICTURES:
        pixels = np.random.default_rng(sum(size)).integers(0, 256, (6, 8, 3), np.uint8)
        image = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
        given = process(image, return_tensors="pt")
        mask = {} if "Yolos" in kind else {"pixel_mask": given["pixel_mask"]}
        out = theirs(given["pixel_values"].double(), **mask)
        arrays = inputs.image_input(decode_image(encoded(image), source.image, 10**6)).arrays
        found = ours.observe(*(torch.from_numpy(arrays[port.name])[None] for port in source.base.inputs))
        yield (found.answer, out.logits), (found.others[0], out.pred_boxes)


QUICK = [("detr", False), ("conditional-detr", False), ("conditional-detr", True), ("yolos", True)]
OTHERS = [("detr", True), *itertools.product(("detr-learned", "table-transformer"), (False, True))]


@pytest.mark.parametrize("size", [EDGES, pytest.param(ROOM, marks=pytest.mark.slow)], ids=["edges", "room"])
@pytest.mark.parametrize(("name", "padded"), [*QUICK, *(pytest.param(*one, marks=pytest.mark.slow) for one in OTHERS)])
def test_what_is_found_in_a_picture_of_any_shape_is_what_the_reference_library_finds(saved, name, size, padded):
    """With the means of ImageNet, which no bytes are. A YOLOS looks at what is beside: it is compared where that is."""
    folder = saved(name)
    pad, canvas = ({"height": 128, "width": 128}, {}) if padded else (None, {"image": (107, 107)})
    edit(
        folder, "preprocessor_config.json", lambda it: it.update(size=size, pad_size=pad, do_normalize=True, **IMAGENET)
    )
    answers = list(answers_of_both(folder, **canvas))
    for ours, theirs in itertools.chain(*answers):
        assert (ours - theirs).abs().max() < 2e-5 * max(1, float(theirs.abs().max()))
    spread = torch.stack([logits for (logits, _), _ in answers]).std(0).max()
    assert spread > 0.01, "a model that finds the same in every picture would prove little"


def test_what_pictures_are_filled_up_to_holds_whole_cells_or_another_canvas_is_asked_for(saved):
    folder = saved("detr")
    edit(folder, "preprocessor_config.json", lambda it: it.update(pad_size={"height": 90, "width": 65}))
    words = r"pad_size must be multiples of 32 and 32, or add --image-size 96x96, given \(90, 65\)$"
    with pytest.raises(ProcessorError, match=words):
        source_of(folder)
    (rule,) = source_of(folder, image=(96, 96)).inputs
    assert (rule.height, rule.width) == (96, 96)


def test_sigmoids_are_those_of_a_conditional_detr_and_yolos_has_objects_behind_its_patches(saved):
    assert source_of(saved("conditional-detr")).scores == "sigmoid"
    (kind,) = (source := source_of(saved("yolos"))).attention
    assert (source.scores, kind.prefix, kind.suffix, kind.grid) == ("softmax", 1, 5, (2, 3))


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("detr", {"dilation": True}, "dilation: Input should be False, given 'True'"),
        ("detr", {"auxiliary_loss": True}, "auxiliary_loss: Input should be False, given 'True'"),
        ("detr", {"position_embedding_type": "rotary"}, "position_embedding_type: .* given 'rotary'"),
        ("detr", {"num_hidden_layers": 3}, ".*num_hidden_layers must be encoder_layers, 2, another name of which"),
        ("detr", {"hidden_size": 3}, ".*hidden_size must be d_model, 16, another name of which it is"),
        ("detr", {"normalize_before": True}, "normalize_before: not known of detr"),
        ("table-transformer", {"normalize_before": False}, "normalize_before: Input should be True"),
        ("detr", {"use_timm_backbone": True, "backbone": "vgg", "backbone_config": None}, "backbone: must .*resnet18,"),
        ("detr", {"backbone": "me/mine", "backbone_config": None}, "backbone: must .*microsoft/resnet-18.*'me/mine'"),
        ("detr", {"backbone_config": {"model_type": "swin"}}, "backbone_config.model_type: .* 'swin'"),
        ("detr", {"backbone_config": {"hidden_act": "gelu"}}, "backbone_config.hidden_act: .* 'gelu'"),
        ("detr", {"backbone_config": {"downsample_in_first_stage": True}}, ".*downsample_in_first_stage: Input should"),
        ("detr", {"backbone_config": {"out_features": ["stage3"]}}, ".*out_features must end with stage4"),
        ("detr", {"backbone_config": {"out_indices": [3]}}, ".*out_indices must end with 4"),
        ("detr", {"backbone_config": {"num_channels": 1}}, "backbone_config.num_channels: must be 3, as num_channels"),
        ("detr", {"backbone_config": {"wishful": 1}}, "backbone_config: must have known keys, not wishful"),
        ("yolos", {"wishful": 1}, "wishful: not known of yolos"),
        ("yolos", {"image_size": [8, 8]}, "weights: .* must hold 10 positions of 16, given"),
    ],
)  # fmt: skip
def test_what_would_change_the_answer_is_refused_by_name(saved, name, keys, words):
    folder = saved(name)
    configured(**keys)(folder)
    with pytest.raises(CheckpointError, match=f"^(config.json: )?{words}"):
        source_of(folder)


def test_a_backbone_without_its_statistics_is_refused(saved):
    folder = saved("detr")
    renamed(lambda name: [] if name.endswith("embedder.normalization.running_var") else [name])(folder)
    with pytest.raises(CheckpointError, match=r"^weights: missing .*running_var$"):
        source_of(folder)


def test_a_model_that_finds_masks_is_refused(saved):
    folder = saved("detr")
    configured(architectures=["DetrForSegmentation"])(folder)
    with pytest.raises(
        CheckpointError, match=r"DetrForSegmentation is not supported; of detr there are \.\.\.ForObject"
    ):
        check_type(json.loads((folder / "config.json").read_text()), None)


def test_a_folder_without_a_processor_is_refused(saved):
    folder = saved("detr")
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(
        CheckpointError, match=r"^preprocessor_config.json: must be in the checkpoint's folder, and is not$"
    ):
        source_of(folder)
