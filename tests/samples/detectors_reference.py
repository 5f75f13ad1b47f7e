"""Residual networks and detectors of the reference library with random weights, and the same weights in ours."""

import torch
import transformers

from model.resnet import folded

BACKBONE = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 2, 1, 1], "layer_type": "bottleneck"}


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
