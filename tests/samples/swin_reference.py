"""Small Swins of the reference library, ours with the same weights, and the weights of every one of their blocks."""

import torch
import transformers

from model.architectures.swin import SwinConfig, swin
from model.architectures.swin_v2 import swin_v2
from tests.samples.attention_reference import randn
from tests.samples.checkpoints import sharpened

SMALL = SwinConfig((32, 32), 2, (2, 2), 12, (2, 3), (2, 3), window=4, ratio=2, classes=5)
"""Grids of 16 and 8: every second block of both is shifted."""


def keys(config):
    """What the reference library calls the sizes."""
    return {
        "image_size": list(config.image),
        "patch_size": list(config.patch),
        "num_channels": config.channels,
        "embed_dim": config.width,
        "depths": list(config.depths),
        "num_heads": list(config.heads),
        "window_size": config.window,
        "mlp_ratio": float(config.ratio),
        "qkv_bias": config.bias,
        "hidden_act": config.activation,
        "use_absolute_embeddings": config.absolute,
        "layer_norm_eps": config.epsilon,
        "num_labels": config.classes,
        "attn_implementation": "eager",
    }


def copied(ours, theirs, names):
    """Give our model the tensors of theirs, by a table from the ends of their names to ours; all of both are used."""
    tensors = {}
    for name, tensor in theirs.state_dict().items():
        name = name.split(".", 1)[1] if name.startswith(("swin.", "swinv2.")) else name
        if "relative_coords_table" in name or "relative_position_index" in name:
            continue
        name = name.replace("encoder.layers", "stages")
        for their, our in names.items():
            name = name.replace(their, our)
        tensors[name] = tensor.T if name.endswith("score.table") else tensor
    tensors = {name: tensor[0] if name == "positions.weight" else tensor for name, tensor in tensors.items()}
    ours.load_state_dict(tensors, strict=True)
    return ours.double().eval()


COMMON = {
    "embeddings.patch_embeddings": "patches",
    "embeddings.norm": "patch_norm",
    "embeddings.position_embeddings": "positions.weight",
    "classifier": "head",
}
V1 = {
    **COMMON,
    "attention.q_proj": "attention.query",
    "attention.k_proj": "attention.key",
    "attention.v_proj": "attention.value",
    "attention.o_proj": "attention.output",
    "attention.relative_position_bias.relative_position_bias_table": "attention.score.table",
    "layernorm_before": "attention_norm",
    "layernorm_after": "feed_forward_norm",
    "layernorm": "norm",
    "mlp.fc1": "feed_forward.0",
    "mlp.fc2": "feed_forward.2",
    "downsample.norm": "merging.project.0",
    "downsample.reduction": "merging.project.1",
}
V2 = {
    **COMMON,
    "attention.output.dense": "attention.joining",
    "attention.self.logit_scale": "attention.score.scale",
    "attention.self.continuous_position_bias_mlp": "attention.score.mlp",
    "attention.self": "attention",
    "layernorm_before": "attention_norm",
    "layernorm_after": "feed_forward_norm",
    "layernorm": "norm",
    "intermediate.dense": "feed_forward.0",
    "output.dense": "feed_forward.2",
    "attention.joining": "attention.output",
    "downsample.reduction": "merging.project.0",
    "downsample.norm": "merging.project.1",
}


def answer_of(model, pixels, kind, **options):
    """Logits of the reference library and the weights of each block, by our paths."""
    seen = {}

    def note(path):
        def hook(module, given, found):
            weights = found[1]
            seen[path] = weights.unflatten(0, (len(pixels), -1))

        return hook

    layers = getattr(model, model.base_model_prefix).encoder.layers
    hooks = [
        block.attention.register_forward_hook(note(f"stages.{stage}.blocks.{index}.attention"))
        for stage, layer in enumerate(layers)
        for index, block in enumerate(layer.blocks)
    ]
    assert all(type(block.attention).__name__ == kind for layer in layers for block in layer.blocks)
    with torch.no_grad():
        logits = model(pixels, **options).logits
    for hook in hooks:
        hook.remove()
    return logits, seen


def pair(config):
    """Our model and theirs in float64 with the same weights, under which attention is far from uniform."""
    theirs = sharpened(transformers.SwinForImageClassification(transformers.SwinConfig(**keys(config)))).double()
    return copied(swin(config), theirs, V1), theirs


def pair_v2(config):
    given = {"pretrained_window_sizes": list(config.trained_windows)} if config.trained_windows else {}
    given.setdefault("pretrained_window_sizes", [0] * len(config.depths))
    theirs = transformers.Swinv2ForImageClassification(transformers.Swinv2Config(**keys(config), **given))
    theirs = sharpened(theirs).double()
    with torch.no_grad():
        for layer in theirs.swinv2.encoder.layers:
            for block in layer.blocks:
                block.attention.self.logit_scale[0] = 6.0  # more than ln 100, which is the most that counts
    return copied(swin_v2(config), theirs, V2), theirs


def assert_every_map_has_a_gradient(model):
    logits, maps = model(randn(2, 2, 32, 32))
    gradients = torch.autograd.grad(logits[:, 1].sum(), list(maps.values()))
    for gradient, weights in zip(gradients, maps.values(), strict=True):
        assert gradient.shape == weights.shape
        assert gradient.abs().amax((1, 2, 3, 4)).min() > 0
