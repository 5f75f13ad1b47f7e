"""A convolutional encoder-decoder against its paper's equations, and its steps against a whole pass."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from model.architectures.convolutional import ConvolutionalConfig, convolutional
from tests.samples.attention_reference import assert_same, linear, sharpen, softmax, weights_of
from tests.samples.recurrence_reference import sigmoid
from tests.samples.steps import assert_steps_are_the_whole_pass

CONVOLUTIONAL = ConvolutionalConfig(11, length=9, width=6, encoder=2, decoder=2, kernel=3)
DILATED = replace(CONVOLUTIONAL, dilations=(2, 1))
SOURCE = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 0, 0], [8, 0, 0, 0, 0, 0]])
VISIBLE = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] + [False] * 5])
TARGET = torch.tensor([[1, 4, 2, 8], [1, 3, 5, 7], [1, 9, 9, 2]])


def convolved(w, name, x, kernel, dilation=1):
    """A gated convolution of x (token + (kernel - 1) x dilation, width)."""
    span = (kernel - 1) * dilation + 1
    windows = np.stack([x[place : place + span : dilation] for place in range(len(x) - span + 1)])
    both = np.einsum("tkc,ock->to", windows, w[f"{name}.convolution.weight"]) + w[f"{name}.convolution.bias"]
    a, b = np.split(both, 2, axis=-1)
    return a * sigmoid(b)


@pytest.mark.parametrize("config", [CONVOLUTIONAL, DILATED], ids=["plain", "dilated"])
def test_a_convolutional_encoder_decoder_is_its_equations(config):
    """Gehring et al. 2017, sections 3.2 to 3.3, of one input at a time."""
    model, half = sharpen(convolutional(config)), np.sqrt(0.5)
    logits, maps = model(SOURCE, VISIBLE, TARGET)
    w, kernel = weights_of(model), CONVOLUTIONAL.kernel
    for row, length in enumerate(VISIBLE.sum(1).tolist()):
        tokens, target = SOURCE[row, :length].numpy(), TARGET[row].numpy()
        e = w["module.source.tokens.weight"][tokens] + w["module.source.positions.weight"][:length]
        z = e
        for layer in range(CONVOLUTIONAL.encoder):
            z = (z + convolved(w, f"module.encoder.layers.{layer}", np.pad(z, ((1, 1), (0, 0))), kernel)) * half
        g = w["module.target.tokens.weight"][target] + w["module.target.positions.weight"][: len(target)]
        x = g
        for layer, dilation in enumerate(config.dilations or (1, 1)):
            name = f"module.decoder.blocks.{layer}"
            padded = np.pad(x, (((kernel - 1) * dilation, 0), (0, 0)))
            h = convolved(w, f"{name}.convolution", padded, kernel, dilation)
            weights = softmax((linear(w, f"{name}.attention.query", h) + g) @ z.T)
            x = (x + (h + linear(w, f"{name}.attention.output", weights @ (z + e))) * half) * half
            assert_same(maps[f"decoder.blocks.{layer}.attention"][row, 0, :, :length], weights)
            assert not maps[f"decoder.blocks.{layer}.attention"][row, 0, :, length:].any()
        assert_same(logits[row], linear(w, "module.head", x))
    assert max(found.max() for found in maps.values()) > 0.7


@pytest.mark.parametrize("config", [CONVOLUTIONAL, DILATED], ids=["plain", "dilated"])
def test_steps_are_the_whole_pass(config):
    """Rows at positions of their own: the second begins when the first has taken two steps."""
    assert_steps_are_the_whole_pass(
        sharpen(convolutional(config)), [config.width] * config.decoder, SOURCE, VISIBLE, TARGET
    )


def test_doubled_dilations_double_how_far_a_token_sees():
    sizes = ConvolutionalConfig(11, length=20, width=6, encoder=1, decoder=3, kernel=3, dilations=(1, 2, 4))
    model, seen = sharpen(convolutional(sizes)), {}
    for place in range(20):
        target = torch.ones(1, 20, dtype=torch.long)
        target[0, place] = 2
        seen[place] = model(SOURCE[:1], VISIBLE[:1], target)[0][0, -1]
    assert [place for place in range(20) if not torch.equal(seen[place], seen[0])] == list(range(20 - 15, 20))


def test_an_even_kernel_is_refused():
    with pytest.raises(ValueError, match="kernel must be odd, given 4"):
        ConvolutionalConfig(11, length=9, width=6, encoder=2, decoder=2, kernel=4)


def test_dilations_of_other_layers_than_there_are_are_refused():
    with pytest.raises(ValueError, match=r"a dilation for each of 2 layers, given \(1, 2, 4\)"):
        replace(CONVOLUTIONAL, dilations=(1, 2, 4))
