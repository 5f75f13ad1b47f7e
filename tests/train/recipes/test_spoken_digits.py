"""How what is heard is measured."""

import numpy as np
import pytest
import torch

from model.catalogue import build
from model.vocabularies import END, PAD, encode_words
from train.data.spoken_digits import LENGTH, Utterance
from train.recipes.spoken_digits import Heard, distance, measure, tensors, within, written


def silence(*digits, times=()):
    return Utterance(np.zeros(LENGTH, np.float32), digits, list(times))


def test_words_are_those_of_the_digits():
    samples, target = tensors([silence(4, 2), silence(7)])
    assert samples.shape == (2, LENGTH)
    assert target[0].tolist() == encode_words((4, 2))
    assert target[1].tolist() == [*encode_words((7,)), PAD]


@pytest.mark.parametrize(
    ("said", "wanted", "cost"),
    [
        ([], [], 0),
        ([1, 2, 3], [1, 2, 3], 0),
        ([1, 9, 3], [1, 2, 3], 1),
        ([1, 3], [1, 2, 3], 1),
        ([1, 2, 2, 3], [1, 2, 3], 1),
        ([2, 3, 1], [1, 2, 3], 2),
        ([], [5, 6], 2),
        ([7, 7, 7], [1], 3),
    ],
)
def test_words_are_wrong_that_must_be_changed_left_out_or_added(said, wanted, cost):
    assert distance(said, wanted) == cost


def test_a_centre_is_within_a_word_from_its_beginning_to_its_end():
    times = torch.tensor([[0.5, 1.0], [1.0, 1.5]])
    centres = torch.tensor([[0.4, 0.5, 0.7], [1.6, 1.5, 1.1]])  # of the mean, and of two heads
    assert within(Heard(0, 2, centres, times)).tolist() == [0.0, 1.0, 1.0]


def test_a_model_is_measured_by_what_it_writes_and_where_it_looks(monkeypatch):
    torch.manual_seed(0)
    model = build("spoken-digits")
    some = [silence(4, 2, times=[(0.1, 0.5), (0.5, 0.9)]), silence(7, times=[(0.0, 3.0)])]
    words = [encode_words((4,))[1:-1], encode_words((7,))[1:-1]]
    monkeypatch.setattr("train.recipes.spoken_digits.written", lambda *_: words)
    found = measure(model, some)
    assert (found.wrong, found.words) == (1, 3)
    assert found.centres.shape == (3, 1 + 2 * 4)
    torch.testing.assert_close(found.centres[:, 0], found.centres[:, 5:].mean(1))  # the last of two layers
    assert ((found.centres > 0) & (found.centres < 3)).all()
    assert found.times.tolist()[2] == [0.0, 3.0]


def test_what_is_written_ends_at_its_end():
    torch.manual_seed(0)
    model = build("spoken-digits")
    memory, _ = model.hear(torch.randn(2, 40, 300))
    rows = written(model, memory, 2)
    target = torch.tensor([[1, *rows[0]]])
    following = model.write(target, [(key[:1], value[:1]) for key, value in memory])[0].argmax(-1)[0].tolist()
    assert following[: len(rows[0])] == rows[0]
    assert END not in rows[0]
