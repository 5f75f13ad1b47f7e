"""A convolutional encoder-decoder against its paper's equations, and its steps against a whole pass."""

import numpy as np
import pytest
import torch

from model.architectures.convolutional import ConvolutionalConfig, convolutional
from tests.samples.attention_reference import assert_same, linear, sharpen, softmax, weights_of
from tests.samples.recurrence_reference import sigmoid
from tests.samples.steps import assert_steps_are_the_whole_pass

CONVOLUTIONAL = ConvolutionalConfig(11, length=9, width=6, encoder=2, decoder=2, kernel=3)
SOURCE = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 0, 0], [8, 0, 0, 0, 0, 0]])
VISIBLE = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] + [False] * 5])
TARGET = torch.tensor([[1, 4, 2, 8], [1, 3, 5, 7], [1, 9, 9, 2]])


def convolved(w, name, x, kernel):
    """A gated convolution of x (token + kernel - 1, width)."""
    windows = np.stack([x[place : place + kernel] for place in range(len(x) - kernel + 1)])  # (token, kernel, width)
    both = np.einsum("tkc,ock->to", windows, w[f"{name}.convolution.weight"]) + w[f"{name}.convolution.bias"]
    a, b = np.split(both, 2, axis=-1)
    return a * sigmoid(b)


def test_a_convolutional_encoder_decoder_is_its_equations():
    """Gehring et al. 2017, sections 3.2 to 3.3, of one input at a time."""
    model, half = sharpen(convolutional(CONVOLUTIONAL)), np.sqrt(0.5)
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
        for layer in range(CONVOLUTIONAL.decoder):
            name = f"module.decoder.blocks.{layer}"
            h = convolved(w, f"{name}.convolution", np.pad(x, ((kernel - 1, 0), (0, 0))), kernel)
            weights = softmax((linear(w, f"{name}.attention.query", h) + g) @ z.T)
            x = (x + (h + linear(w, f"{name}.attention.output", weights @ (z + e))) * half) * half
            assert_same(maps[f"decoder.blocks.{layer}.attention"][row, 0, :, :length], weights)
            assert not maps[f"decoder.blocks.{layer}.attention"][row, 0, :, length:].any()
        assert_same(logits[row], linear(w, "module.head", x))
    assert max(found.max() for found in maps.values()) > 0.7


def test_steps_are_the_whole_pass():
    """Rows at positions of their own: the second begins when the first has taken two steps."""
    assert_steps_are_the_whole_pass(
        sharpen(convolutional(CONVOLUTIONAL)), [CONVOLUTIONAL.width] * CONVOLUTIONAL.decoder, SOURCE, VISIBLE, TARGET
    )


def test_an_even_kernel_is_refused():
    with pytest.raises(ValueError, match="kernel must be odd, given 4"):
        ConvolutionalConfig(11, length=9, width=6, encoder=2, decoder=2, kernel=4)
