"""A decoder alone: the past decides, and decoding with a cache is one pass."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from model.architectures.gpt import GPTConfig, gpt
from model.parts.contexts import Sight
from model.parts.positions import Rotary
from tests.samples.attention_reference import sharpen

CONFIG = GPTConfig(13, length=12, width=8, layers=3, heads=2, hidden=20)
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]])


def model():
    return sharpen(gpt(CONFIG)).eval()


def test_no_token_sees_a_later_one():
    module, changed = model(), TOKENS.clone()
    changed[:, 4:] = 0
    with torch.no_grad():
        (one, maps), (other, _) = module(TOKENS), module(changed)
    assert torch.equal(one[:, :4], other[:, :4])
    assert not torch.allclose(one[:, 4:], other[:, 4:])
    for name, weights in maps.items():
        assert name.startswith("decoder.blocks.")
        assert weights.triu(1).abs().max() == 0


def turning():
    """A GPT of which two heads of queries share one of keys, and all are turned by their positions."""
    module = gpt(replace(CONFIG, heads=4, key_heads=2, width=16))
    module.contexts = Sight(Rotary(4))
    return sharpen(module).eval()


@pytest.mark.parametrize("make", [model, turning])
def test_steps_from_remembered_keys_and_values_give_what_one_pass_gives(make):
    module, capacity = make(), 9
    lengths = torch.tensor([2, 4])  # of two prompts, padded on the right
    with torch.no_grad():
        whole, maps = module(TOKENS)
        past = []
        for pair in module.remember(TOKENS[:, :4]):
            room = [torch.zeros(2, 2, capacity, 4, dtype=torch.float64) for _ in pair]
            for empty, known in zip(room, pair, strict=True):
                empty[:, :, :4] = known
            past.append(tuple(room))
        for step in range(3):
            position = lengths - 1 + step  # first the prompt's last token, once more
            token = TOKENS[torch.arange(2), position]
            logits, past, seen = module.step(token, position, past)
            for row in range(2):
                at = int(position[row])
                np.testing.assert_allclose(logits[row], whole[row, at], atol=1e-12)
                for name, weights in seen.items():
                    np.testing.assert_allclose(
                        weights[row, :, 0, : at + 1], maps[name][row, :, at, : at + 1], atol=1e-12
                    )
                    assert weights[row, :, 0, at + 1 :].abs().max() == 0


def test_a_tied_matrix_is_one_parameter():
    module = gpt(CONFIG)
    assert module.head.weight is module.embed.tokens.weight
    head = nn.Linear(8, 13, bias=False)
    apart = gpt(CONFIG, head)
    assert apart.head is head
    assert apart.head.weight is not apart.embed.tokens.weight
