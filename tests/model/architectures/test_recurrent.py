"""A recurrent encoder-decoder against its papers' equations, and its steps against a whole pass."""

import numpy as np
import pytest
import torch
from torch import nn

from model.architectures.recurrent import BidirectionalGRU, Maxout, RecurrentConfig, recurrent_text, unattended_text
from tests.samples.attention_reference import assert_same, assert_same_maps, linear, randn, sharpen, weights_of
from tests.samples.recurrence_reference import annotations, cut, decoding, recurring
from tests.samples.steps import assert_steps_are_the_whole_pass

RECURRENT = RecurrentConfig(11, length=9, target_length=6, embedding=5, source=8, alignment=7, width=6, readout=4)
SOURCE = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 0, 0], [8, 0, 0, 0, 0, 0]])
VISIBLE = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] + [False] * 5])
TARGET = torch.tensor([[1, 4, 2, 8], [1, 3, 5, 7], [1, 9, 9, 2]])


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


def test_without_attention_every_step_is_given_the_last_states_of_both_directions():
    """Cho et al. 2014: c, from which the first state is made too; whatever pads a text changes nothing."""
    model = sharpen(unattended_text(RECURRENT))
    padded = SOURCE.where(VISIBLE, 7)
    logits, maps = model(padded, VISIBLE, TARGET)
    w = weights_of(model)
    for row, length in enumerate(VISIBLE.sum(1).tolist()):
        x = w["module.encoder.tokens.weight"][SOURCE[row, :length].numpy()]
        states, back = annotations(cut(w, "module.encoder.recurrence"), x)
        ends = np.concatenate((states[-1, :4], back))
        assert_same(logits[row], decoding(w, ends, lambda _, ends=ends: ends, TARGET[row].numpy()))
    assert maps == {}


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


def test_a_maxout_unit_is_the_larger_of_its_two():
    part, x = sharpen(Maxout(5, 3)), randn(2, 5)
    expected = np.maximum(*np.moveaxis(linear(weights_of(part), "module.pairs", x.numpy()).reshape(2, 3, 2), -1, 0))
    assert_same(part(x), expected)


def test_maps_do_not_change_with_the_batch():
    model = sharpen(recurrent_text(RECURRENT))
    _, together = model(SOURCE, VISIBLE, TARGET)
    alone = [model(SOURCE[row : row + 1], VISIBLE[row : row + 1], TARGET[row : row + 1])[1] for row in range(3)]
    assert_same_maps(together, {name: torch.cat([one[name] for one in alone]) for name in together})


@pytest.mark.parametrize("compose", [recurrent_text, unattended_text])
def test_steps_are_the_whole_pass(compose):
    """Rows at positions of their own: the second begins when the first has taken two steps."""
    assert_steps_are_the_whole_pass(sharpen(compose(RECURRENT)), [RECURRENT.width], SOURCE, VISIBLE, TARGET)
