"""Residual networks and detectors of the reference library with random weights, and the same weights in ours."""

from dataclasses import replace

import torch
import transformers

from model.architectures.detector import DetectorConfig
from model.parts.positions import LearnedGrid
from model.parts.resnet import STRIDE, ResNetConfig, folded, resnet
from model.parts.stacks import StackSizes
from tests.samples.attention_reference import assert_same

BACKBONE = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 2, 1, 1], "layer_type": "bottleneck"}
RESNET = ResNetConfig(3, 8, (8, 16, 24, 32), (1, 2, 1, 1), "bottleneck")
GRID = (3, 4)
SMALL = DetectorConfig(
    (GRID[0] * STRIDE, GRID[1] * STRIDE), 3, cell=STRIDE, width=16, encoder=StackSizes(2, 2, 24),
    decoder=StackSizes(3, 4, 20), objects=5, classes=3, features=32,
)  # fmt: skip
OPTIONS = {
    "sine": ({}, SMALL, None),
    "learned": ({"position_embedding_type": "learned"}, SMALL, LearnedGrid),
    "gelu": ({"activation_function": "gelu"}, replace(SMALL, activation="gelu"), None),
}
"""The reference library's options, our sizes, and positions if they are others than sinusoids."""


def backbone_config(**options):
    return transformers.ResNetConfig(**{**BACKBONE, "out_features": ["stage4"], **options})


def randomised(module, seed=0):
    """Give a module in float64 random weights and statistics, large enough that no attention is uniform."""
    random = torch.Generator().manual_seed(seed)

    def noise(tensor):
        return torch.randn(tensor.shape, generator=random, dtype=torch.float64)

    module.double().eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim < 2:
                parameter.add_(0.3 * noise(parameter))
            elif "position" in name or "token" in name:
                parameter.copy_(noise(parameter))
            else:
                parameter.copy_(noise(parameter) * 1.5 / parameter[0].numel() ** 0.5)
        for name, buffer in module.named_buffers():
            if name.endswith("running_var"):
                buffer.copy_(noise(buffer).abs() + 0.5)
            elif buffer.is_floating_point():
                buffer.add_(0.3 * noise(buffer))
    return module


@torch.no_grad()
def copy(theirs, ours):
    ours.load_state_dict(theirs.state_dict())


@torch.no_grad()
def copy_normed(theirs, ours):
    """Copy a convolution and its batch norm."""
    copy(theirs.convolution, ours[0])
    norm = theirs.normalization
    scale, shift = folded(norm.weight, norm.bias, norm.running_mean, norm.running_var)
    ours[1].scale.copy_(scale)
    ours[1].shift.copy_(shift)


def copy_resnet(theirs, ours):
    """Copy a ResNetModel, or the backbone of that name."""
    copy_normed(theirs.embedder.embedder, ours.stem)
    for stage, own in zip(theirs.encoder.stages, ours.stages, strict=True):
        for block, mine in zip(stage.layers, own, strict=True):
            for layer, part in zip(block.layer, mine.branch[::2], strict=True):
                copy_normed(layer, part)
            if hasattr(block.shortcut, "convolution"):
                copy_normed(block.shortcut, mine.shortcut)


def copy_attention(theirs, ours):
    """Copy query, key, value and output, whose names in the reference library differ from model to model."""
    for ending, part in (("q", ours.query), ("k", ours.key), ("v", ours.value)):
        names = (f"{ending}_content_proj", f"{ending}_proj")
        copy(next(getattr(theirs, name) for name in names if hasattr(theirs, name)), part)
    copy(theirs.out_proj if hasattr(theirs, "out_proj") else theirs.o_proj, ours.output)


def copy_block(theirs, ours):
    """Copy an encoder's block."""
    copy_attention(theirs.self_attn, ours.attention)
    copy(theirs.self_attn_layer_norm, ours.attention_norm)
    copy(theirs.final_layer_norm, ours.feed_forward_norm)
    mlp = getattr(theirs, "mlp", theirs)
    copy(mlp.fc1, ours.feed_forward[0])
    copy(mlp.fc2, ours.feed_forward[2])


def copy_decoder_block(theirs, ours):
    copy_block(theirs, ours)
    copy_attention(theirs.encoder_attn, ours.cross)
    copy(theirs.encoder_attn_layer_norm, ours.cross_norm)


def copy_conditional_block(theirs, ours):
    copy_decoder_block(theirs, ours)
    own, cross = theirs.self_attn, theirs.encoder_attn
    copy(own.q_pos_proj, ours.attention.query_place)
    copy(own.k_pos_proj, ours.attention.key_place)
    copy(cross.q_pos_sine_proj, ours.cross.query_place)
    copy(cross.k_pos_proj, ours.cross.key_place)
    if cross.q_pos_proj is not None:
        copy(cross.q_pos_proj, ours.cross.query_object)


def copy_perceptron(theirs, ours):
    for layer, part in zip(theirs.layers, ours[::2], strict=True):
        copy(layer, part)


def copy_detector(theirs, ours, copy_decoder_block=copy_decoder_block):
    """Copy a DETR, or what is wired like one."""
    body = theirs.model
    backbone = body.backbone
    copy_resnet(getattr(backbone, "conv_encoder", backbone).model, ours.backbone)
    copy(body.input_projection, ours.projection)
    places = getattr(body, "position_embedding", None) or backbone.position_embedding
    if hasattr(places, "row_embeddings"):
        copy(places.row_embeddings, ours.places.rows)
        copy(places.column_embeddings, ours.places.columns)
    for block, own in zip(body.encoder.layers, ours.encoder.blocks, strict=True):
        copy_block(block, own)
    if hasattr(body.encoder, "layernorm"):
        copy(body.encoder.layernorm, ours.encoder.norm)
    copy(body.query_position_embeddings, ours.decoder.queries)
    for block, own in zip(body.decoder.layers, ours.decoder.blocks, strict=True):
        copy_decoder_block(block, own)
    copy(body.decoder.layernorm, ours.decoder.norm)
    copy(theirs.class_labels_classifier, ours.head.classes)
    copy_perceptron(theirs.bbox_predictor, ours.head.box)


def copy_conditional_detector(theirs, ours):
    copy_detector(theirs, ours, copy_conditional_block)
    copy_perceptron(theirs.model.decoder.ref_point_head, ours.decoder.point)
    copy_perceptron(theirs.model.decoder.query_scale, ours.decoder.scale)


@torch.no_grad()
def copy_yolos(theirs, ours):
    embedded = theirs.vit.embeddings
    ours.class_token.copy_(embedded.cls_token)
    ours.detection_tokens.copy_(embedded.detection_tokens)
    ours.positions.weight.copy_(embedded.position_embeddings[0])
    copy(embedded.patch_embeddings.projection, ours.patches.projection)
    for block, own in zip(theirs.vit.encoder.layer, ours.encoder.blocks, strict=True):
        seen = block.attention.attention
        copy(seen.query, own.attention.query)
        copy(seen.key, own.attention.key)
        copy(seen.value, own.attention.value)
        copy(block.attention.output.dense, own.attention.output)
        copy(block.layernorm_before, own.attention_norm)
        copy(block.layernorm_after, own.feed_forward_norm)
        copy(block.intermediate.dense, own.feed_forward[0])
        copy(block.output.dense, own.feed_forward[2])
    if theirs.vit.encoder.interpolation is not None:
        ours.encoder.positions.copy_(theirs.vit.encoder.interpolation.mid_position_embeddings[:, 0])
    copy(theirs.vit.layernorm, ours.encoder.norm)
    copy_perceptron(theirs.class_labels_classifier, ours.head.classes)
    copy_perceptron(theirs.bbox_predictor, ours.head.box)


def fitted(batch, grid, cell, channels=3, seed=5):
    """Return images whose upper left is a picture: pixels, 0 elsewhere; a mask of pixels, and one of cells."""
    random = torch.Generator().manual_seed(seed)
    height, width = grid[0] * cell, grid[1] * cell
    pixels = torch.randn((batch, channels, height, width), generator=random, dtype=torch.float64)
    mask = torch.zeros((batch, height, width), dtype=torch.int64)
    for index in range(batch):  # a picture need not end where a cell does
        down = height - int(torch.randint(0, height // 2, (), generator=random)) * (index % 3 != 1)
        across = width - int(torch.randint(0, width // 2, (), generator=random)) * (index % 3 != 2)
        mask[index, :down, :across] = 1
    return pixels * mask[:, None], mask, mask[:, ::cell, ::cell].flatten(1).bool()


def assert_same_answers(name, compose, copy_weights, option, *, masked, near):
    """Hold a detector against the reference library's of a name; `compose` makes it of sizes, backbone and places."""
    options, config, places = OPTIONS[option]
    kind = getattr(transformers, f"{name}Config")(
        backbone_config=backbone_config(), use_timm_backbone=False, d_model=16, encoder_layers=2, decoder_layers=3,
        encoder_attention_heads=2, decoder_attention_heads=4, encoder_ffn_dim=24, decoder_ffn_dim=20, num_queries=5,
        num_labels=3, attn_implementation="eager", **options,
    )  # fmt: skip
    theirs = randomised(getattr(transformers, f"{name}ForObjectDetection")(kind))
    ours = compose(config, resnet(RESNET), places(*GRID, 16) if places else None).double().eval()
    copy_weights(theirs, ours)
    pixels, mask, visible = fitted(3, GRID, STRIDE)
    assert not visible.all()
    assert visible.any(1).all()
    with torch.no_grad():
        logits, boxes, maps = ours(pixels, visible) if masked else ours(pixels)
        expected = theirs(pixels, mask if masked else None, output_attentions=True)
    assert_same(logits, expected.logits, near)
    assert_same(boxes, expected.pred_boxes, near)
    for stack, part, found in (
        ("encoder", "attention", expected.encoder_attentions),
        ("decoder", "attention", expected.decoder_attentions),
        ("decoder", "cross", expected.cross_attentions),
    ):
        for index, each in enumerate(found):
            assert_same(maps[f"{stack}.blocks.{index}.{part}"], each, near)
            assert each.std(-1).max() > 0.05  # no map is uniform
