"""Checkpoints of the reference library that are read into our Swins."""

import torch
from safetensors.torch import load_file, save_file

from export.checkpoints.building.image_family import sides
from export.checkpoints.reading.checkpoint import open_checkpoint
from tests.samples.checkpoints import sharpened


def saved(model, folder, **more):
    """Write a checkpoint of a model whose attention is far from uniform; `more` are tensors that old ones have."""
    sharpened(model).save_pretrained(folder)
    file = folder / "model.safetensors"
    save_file({**load_file(file), **more}, file)
    return model


def read(family, folder, task=None):
    """Return our model with a checkpoint's weights, and the names of the tensors that it does not use."""
    checkpoint = open_checkpoint(str(folder), None)
    config, task = family.read(checkpoint), family.task(checkpoint, task)
    module, _ = family.compose(config, sides(config.image_size), task, checkpoint)
    return family.fill(module, checkpoint, config, task)


def differ(ours, theirs, pixels):
    """The largest difference of two answers, in float64."""
    with torch.no_grad():
        given = ours.double()(pixels.double())[0]
        found = theirs.double()(pixels.double())
    return (given - (found.logits if hasattr(found, "logits") else found.pooler_output)).abs().max().item()
