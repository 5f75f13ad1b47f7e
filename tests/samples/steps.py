"""Decoding step by step, held against a whole pass."""

import torch

from tests.samples.attention_reference import assert_same, randn


def assert_steps_are_the_whole_pass(model, widths, source, visible, target):
    """Take four steps of three rows, each at a position of its own; `widths` are those of the model's caches."""
    whole, maps = model(source, visible, target)
    memory = model.encode(source, visible)
    past = [randn(3, 1, 8, width, seed=index) for index, width in enumerate(widths)]  # unwritten slots hold anything
    begins = torch.tensor([0, 2, 1])
    compared = 0
    for moment in range(6):
        position = (moment - begins).clamp(0, 3)
        token = target[torch.arange(3), position]
        logits, past, found = model.step(token, position, past, memory, visible)
        for row in range(3):
            if 0 <= moment - begins[row] <= 3:
                assert_same(logits[row], whole[row, position[row]])
                for name, weights in found.items():
                    assert_same(weights[row, :, 0], maps[name][row, :, position[row]])
                compared += 1
    assert compared == 12
