"""Recurrent and convolutional encoder-decoders against their papers' equations, and a step against the whole."""

import numpy as np
import pytest
import torch
from torch import nn

from model.cache import before, put
from model.captioner import CaptionerConfig, captioner
from model.convolutional import ConvolutionalConfig, convolutional
from model.recurrent import BidirectionalGRU, Maxout, RecurrentConfig, recurrent_text
from model.selects import Hard
from tests.model.reference import assert_same, assert_same_maps, linear, randn, sharpen, softmax, weights_of

RECURRENT = RecurrentConfig(11, length=9, target_length=6, embedding=5, source=8, alignment=7, width=6, readout=4)
CONVOLUTIONAL = ConvolutionalConfig(11, length=9, width=6, encoder=2, decoder=2, kernel=3)
CAPTIONER = CaptionerConfig((16, 24), 1, cell=8, decoder=RECURRENT)
SOURCE = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 0, 0], [8, 0, 0, 0, 0, 0]])
VISIBLE = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] + [False] * 5])
TARGET = torch.tensor([[1, 4, 2, 8], [1, 3, 5, 7], [1, 9, 9, 2]])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(w, name, x, state, suffix=""):
    """One step (Cho et al. 2014, as PyTorch has it: the reset gate after the product)."""
    gates = [
        np.split(value @ w[f"{name}.weight_{side}{suffix}"].T + w[f"{name}.bias_{side}{suffix}"], 3, axis=-1)
        for side, value in (("ih", x), ("hh", state))
    ]
    reset, update = (sigmoid(gates[0][index] + gates[1][index]) for index in (0, 1))
    new = np.tanh(gates[0][2] + reset * gates[1][2])
    return (1 - update) * new + update * state


def annotations(w, x):
    """States of a text (token, inputs), read forwards and backwards."""
    found = []
    for name, order in (("forwards", range(len(x))), ("backwards", reversed(range(len(x))))):
        state, states = np.zeros(w[f"{name}.weight_hh_l0"].shape[1]), {}
        for place in order:
            state = states[place] = gru(w, name, x[place], state, "_l0")
        found.append(np.stack([states[place] for place in range(len(x))]))
    return np.concatenate(found, -1), found[1][0]


def cut(w, name):
    return {path.removeprefix(f"{name}."): array for path, array in w.items() if path.startswith(f"{name}.")}


def maxout(w, name, x):
    return linear(w, f"{name}.pairs", x).reshape(-1, 2).max(-1)


def recurring(w, annotated, summary, target, select=lambda shares: shares):
    """Bahdanau et al. 2015, appendix A.2.2, of one input: logits (target, vocabulary) and weights (target, source)."""
    state = np.tanh(linear(w, "module.first.0", summary))
    key = linear(w, "module.decoder.attention.key", annotated)
    logits, maps = [], []
    for token in target:
        y = w["module.decoder.tokens.weight"][token]
        bent = np.tanh(state @ w["module.decoder.attention.query.weight"].T + key)
        maps.append(select(softmax(bent @ w["module.decoder.attention.score.weight"][0, :, 0])))
        context = maps[-1] @ annotated
        state = gru(w, "module.decoder.cell", np.concatenate((y, context)), state)
        read = maxout(w, "module.decoder.readout", np.concatenate((y, state, context)))
        logits.append(linear(w, "module.decoder.head", read))
    return np.stack(logits), np.stack(maps)


def test_a_recurrent_encoder_decoder_is_its_equations():
    model = sharpen(recurrent_text(RECURRENT))
    model.decoder.attention.score.weight.data *= 20
    logits, maps = model(SOURCE, VISIBLE, TARGET)
    w = weights_of(model)
    for row, length in enumerate(VISIBLE.sum(1).tolist()):
        x = w["module.encoder.tokens.weight"][SOURCE[row, :length].numpy()]
        annotated = annotations(cut(w, "module.encoder.recurrence"), x)
        expected, weights = recurring(w, *annotated, TARGET[row].numpy())
        assert_same(logits[row], expected)
        assert_same(maps["decoder.attention"][row, 0, :, :length], weights)
        assert not maps["decoder.attention"][row, 0, :, length:].any()
    assert maps["decoder.attention"][0].max() > 0.7


def test_both_directions_are_those_of_torch():
    ours, x = sharpen(BidirectionalGRU(5, 4)), randn(2, 6, 5)
    theirs = nn.GRU(5, 4, batch_first=True, bidirectional=True, dtype=torch.float64)
    for name, parameter in ours.forwards.named_parameters():
        getattr(theirs, name).data.copy_(parameter)
    for name, parameter in ours.backwards.named_parameters():
        getattr(theirs, f"{name}_reverse").data.copy_(parameter)
    states, last = ours(x, torch.ones(2, 6, dtype=torch.bool))
    expected, ends = theirs(x)
    assert_same(states, expected)
    assert_same(last, ends[1])


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


@pytest.mark.parametrize(("make", "caches", "width"), [
    (lambda: recurrent_text(RECURRENT), 1, RECURRENT.width),
    (lambda: convolutional(CONVOLUTIONAL), CONVOLUTIONAL.decoder, CONVOLUTIONAL.width),
], ids=["recurrent", "convolutional"])  # fmt: skip
def test_steps_are_the_whole_pass(make, caches, width):
    """Rows at positions of their own: the second begins when the first has taken two steps."""
    model = sharpen(make())
    whole, maps = model(SOURCE, VISIBLE, TARGET)
    memory = model.encode(SOURCE, VISIBLE)
    past = [randn(3, 1, 8, width, seed=index) for index in range(caches)]  # what nobody has written yet is anything
    begins = torch.tensor([0, 2, 1])
    seen = 0
    for moment in range(6):
        position = (moment - begins).clamp(0, 3)
        token = TARGET[torch.arange(3), position]
        logits, past, found = model.step(token, position, past, memory, VISIBLE)
        for row in range(3):
            if 0 <= moment - begins[row] <= 3:
                assert_same(logits[row], whole[row, position[row]])
                for name, weights in found.items():
                    assert_same(weights[row, :, 0], maps[name][row, :, position[row]])
                seen += 1
    assert seen == 12


def test_what_lies_before_a_position_and_what_is_put_there():
    past = torch.arange(24, dtype=torch.float64).reshape(2, 1, 4, 3)
    found = before(past, torch.tensor([1, 3]), 2)
    assert_same(found, torch.stack((torch.cat((torch.zeros(1, 3), past[0, 0, :1])), past[1, 0, 1:3])))
    new = -torch.ones(2, 3, dtype=torch.float64)
    written = put(past, torch.tensor([0, 2]), new)
    expected = past.clone()
    expected[0, 0, 0] = expected[1, 0, 2] = -1
    assert_same(written, expected)


@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
def test_a_captioner_is_its_equations(hard):
    model = sharpen(captioner(CAPTIONER, *([Hard()] if hard else [])))
    pixels = randn(3, 1, 16, 24)
    logits, maps = model(pixels, None, TARGET)
    for row in range(3):
        select = (lambda shares: np.eye(6)[shares.argmax()]) if hard else (lambda shares: shares)
        w = weights_of(model)
        annotated, summary = (found[0].detach().numpy() for found in model.encoder(pixels[row : row + 1]))
        assert_same(summary, annotated.mean(0))
        expected, weights = recurring(w, annotated, summary, TARGET[row].numpy(), select)
        assert_same(logits[row], expected)
        assert_same(maps["decoder.attention"][row, 0], weights)
    assert CAPTIONER.grid == (2, 3)
    assert (maps["decoder.attention"].max() == 1) == hard


def test_cells_are_in_reading_order_and_know_their_places():
    model = sharpen(captioner(CAPTIONER)).encoder
    bright = randn(1, 1, 16, 24)
    moved = bright.clone()
    moved[..., :8, 16:] += 5  # the cell at the upper right, which is the third
    apart = (model(moved)[0] - model(bright)[0]).abs().sum(-1)[0]
    assert (apart > 0).tolist() == [False, True, True, False, True, True]  # but for the column farthest to the left
    same = torch.zeros(1, 1, 16, 24, dtype=torch.float64)
    places = model(same)[0][0] - model.layers(same)[0].flatten(1).T
    assert_same(places, model.positions.weight)


def test_a_maxout_unit_is_the_larger_of_its_two():
    part, x = sharpen(Maxout(5, 3)), randn(2, 5)
    expected = np.maximum(*np.moveaxis(linear(weights_of(part), "module.pairs", x.numpy()).reshape(2, 3, 2), -1, 0))
    assert_same(part(x), expected)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="kernel must be odd, given 4"):
        ConvolutionalConfig(11, length=9, width=6, encoder=2, decoder=2, kernel=4)
    with pytest.raises(ValueError, match="sides must be multiples of the cell's 8, a power of two, given 16x20"):
        CaptionerConfig((16, 20), 1, cell=8, decoder=RECURRENT)
    with pytest.raises(ValueError, match="image: must be 16x24 pixels, given 24x16"):
        captioner(CAPTIONER)(torch.zeros(1, 1, 24, 16), None, TARGET[:1])


def test_maps_do_not_change_with_the_batch():
    model = sharpen(recurrent_text(RECURRENT))
    _, together = model(SOURCE, VISIBLE, TARGET)
    alone = [model(SOURCE[row : row + 1], VISIBLE[row : row + 1], TARGET[row : row + 1])[1] for row in range(3)]
    assert_same_maps(together, {name: torch.cat([one[name] for one in alone]) for name in together})
