import datetime
import itertools
import random
import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from model.architectures.transformer import TRANSFORMER_SIZES, vaswani
from model.parts.stacks import PRE_NORM, StackSizes
from model.vocabularies import ALPHABET, END, PAD, SPECIALS, START, UNKNOWN, encode
from tests.samples.attention_reference import assert_same, sharpen
from train.data.written_dates.examples import held_out
from train.fit import Run
from train.recipes import dates
from train.recipes.dates import BATCH, LONGEST_SOURCE, POOLED_BATCHES, WORDS, batches, exact, logits, tensors

TOKENS = (*SPECIALS, *ALPHABET)
TINY = replace(TRANSFORMER_SIZES["dates"], width=8, encoder=StackSizes(1, 2, 8), decoder=StackSizes(1, 2, 8))


@pytest.fixture(scope="module")
def pool():
    """The batches of one pool."""
    return list(itertools.islice(batches(random.Random(0)), POOLED_BATCHES))


def read(row):
    """A row of tokens as text, without its padding."""
    return "".join(TOKENS[token] for token in row.tolist() if token != PAD)


def rows(pool, side):
    return [row for pair in pool for row in pair[side]]


def test_pairs_are_padded_on_the_right_and_answers_begin_and_end():
    source, target = tensors([([7, 8, 9], "1-2"), ([7], "12-4"), ([UNKNOWN, 8], "")])
    assert source.tolist() == [[7, 8, 9], [7, PAD, PAD], [UNKNOWN, 8, PAD]]
    assert target.tolist() == [
        [START, 21, 17, 22, END, PAD],
        [START, 21, 22, 17, 24, END],
        [START, END, PAD, PAD, PAD, PAD],
    ]


def test_the_answers_of_a_batch_are_iso_dates_and_none_is_held_out(pool):
    for row in rows(pool, 1):
        text = read(row)
        assert (text[:7], text[-5:]) == ("[START]", "[END]")
        assert len(text) == 7 + 10 + 5
        assert not held_out(datetime.date.fromisoformat(text[7:-5]))


def test_a_source_fits_the_model_and_is_padded_only_behind_its_last_token(pool):
    assert TRANSFORMER_SIZES["dates"].length == LONGEST_SOURCE
    for source, target in pool:
        assert len(source) == len(target) == BATCH
        assert source.shape[1] <= LONGEST_SOURCE
        assert (source[:, 0] != PAD).all()
        padding = source == PAD
        assert not (padding[:, :-1] & ~padding[:, 1:]).any()
        assert not padding.all(0).any()


def test_texts_of_one_length_come_together_and_lengths_in_no_order(pool):
    assert sum((source == PAD).double().mean() for source, _ in pool) / POOLED_BATCHES < 0.1
    lengths = [source.shape[1] for source, _ in pool]
    assert lengths != sorted(lengths)
    assert lengths != sorted(lengths, reverse=True)


def test_a_source_keeps_its_answer_when_the_pool_is_sorted(pool):
    stamps = [(read(source), read(target)) for pair in pool for source, target in zip(*pair, strict=True)]
    compared = [answer[7:-5] == text for text, answer in stamps if re.fullmatch(r"\d{4}-\d\d-\d\d", text)]
    assert len(compared) > 10
    assert all(compared)


def test_about_one_text_in_fifty_holds_a_character_that_nobody_knows(pool):
    smudged = [(row == UNKNOWN).sum().item() for row in rows(pool, 0)]
    assert set(smudged) == {0, 1}
    assert 0.01 < sum(smudged) / len(smudged) < 0.03


def test_about_one_text_in_ten_stands_among_other_words(pool):
    rare = {word for word in WORDS if len(word) > 4} - {"that", "before", "other"}
    among = [bool(rare & set(read(row).split())) for row in rows(pool, 0)]
    assert 0.04 < sum(among) / len(among) < 0.12


def test_batches_differ_from_pool_to_pool_and_follow_the_seed():
    first = batches(random.Random(1))
    drawn = list(itertools.islice(first, POOLED_BATCHES + 1))
    again = next(batches(random.Random(1)))
    assert all(torch.equal(one, other) for one, other in zip(drawn[0], again, strict=True))
    texts = {read(row) for row in drawn[-1][0]}
    assert len(texts - {read(row) for source, _ in drawn[:-1] for row in source}) > len(texts) / 2


def test_logits_are_for_the_token_after_each_and_do_not_read_padding():
    model = sharpen(vaswani(TINY, PRE_NORM))
    source, target = tensors([(encode("1 may 2000"), "2000-05-01"), (encode("x"), "1")])
    given = logits(model, source, target)
    assert given.shape == (2, target.shape[1] - 1, 75)
    alone = logits(model, source[1:, :1], target[1:, :3])
    assert_same(given[1:, :2], alone)
    everything = torch.ones_like(source[:1], dtype=torch.bool)
    assert_same(given[:1], model(source[:1], everything, target[:1, :-1])[0])


class Oracle(nn.Module):
    """Answers each known text as it was told to, whatever it is fed, and talks nonsense once it has ended."""

    def __init__(self, answers):
        super().__init__()
        self.answers = answers

    def forward(self, source, _visible, target):
        out = torch.zeros(*target.shape, len(TOKENS))
        out[..., UNKNOWN] = 0.5
        for row, text in enumerate(source):
            for place, token in enumerate([*encode(self.answers[read(text)]), END][: target.shape[1]]):
                out[row, place, token] = 1
        return out, {}


def test_only_whole_answers_count_as_right():
    pairs = [(f"day {number}", f"{2000 + number}-01-01"[: 4 + number % 7]) for number in range(2 * BATCH + 5)]
    answers = dict(pairs)
    assert exact(Oracle(answers), pairs) == len(pairs)
    wrong = {
        "day 0": "2001",  # the last character
        "day 1": "3001-",  # the first
        "day 2": "2002-01",  # goes on after the end
        "day 3": "2003-0",  # ends too early
        f"day {2 * BATCH + 4}": "",  # in the last batch
    }
    assert all(answers[text] != answer for text, answer in wrong.items())
    assert exact(Oracle(answers | wrong), pairs) == len(pairs) - len(wrong)


def test_training_is_measured_on_held_out_dates_alone(monkeypatch):
    measured = []

    def count(module, pairs):
        assert not module.training
        measured.extend(pairs)
        return 1234

    monkeypatch.setattr(dates, "build", lambda name: {"dates": vaswani(TINY, PRE_NORM)}[name])
    monkeypatch.setattr(dates, "exact", count)
    model, figure = dates.train("dates", Run(2))
    assert len(measured) == 5000
    assert all(held_out(datetime.date.fromisoformat(iso)) for _, iso in measured)
    assert figure == "exact match 24.68% (1234 of 5000 expressions of held-out dates)"
    assert not model.training
    again, _ = dates.train("dates", Run(2))
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True))
