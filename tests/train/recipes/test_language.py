import datetime
import itertools
import math
import random
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from model.architectures.gpt import GPT_SIZES, gpt
from model.architectures.text_encoder import TEXT_ENCODER_SIZES, word_filler
from model.catalogue import bundled
from model.vocabularies import ALPHABET, END, MASK, PAD, SPECIALS, START, encode
from tests.samples.attention_reference import sharpen
from train.data.written_dates.examples import held_out
from train.fit import Run
from train.recipes import language
from train.recipes.language import (
    BATCH,
    POOLED_BATCHES,
    batches,
    causal_figure,
    causal_loss,
    chosen,
    filled,
    hidden,
    line,
    masked_figure,
    masked_loss,
    padded,
)

TOKENS = (*SPECIALS, *ALPHABET, "[MASK]")
TINY = {
    "dates-mlm": lambda: word_filler(replace(TEXT_ENCODER_SIZES["dates-mlm"], width=8, layers=1, heads=2, hidden=8)),
    "dates-clm": lambda: gpt(replace(GPT_SIZES["dates-clm"], width=8, layers=1, heads=2, hidden=8)),
}
LINE = re.compile(r"\[START\](.+) = (\d{4}-\d\d-\d\d)\[END\]")


@pytest.fixture(scope="module")
def pool():
    return list(itertools.islice(batches(random.Random(0)), POOLED_BATCHES))


@pytest.fixture(scope="module")
def held():
    rng = random.Random(7)
    return [line(rng, held=True) for _ in range(500)]


def read(row):
    return "".join(TOKENS[token] for token in row if token != PAD)


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def test_every_line_is_a_date_and_its_reading_and_none_is_of_a_held_out_day(pool):
    for tokens in pool:
        assert len(tokens) == BATCH
        assert tokens.shape[1] <= TEXT_ENCODER_SIZES["dates-mlm"].length == GPT_SIZES["dates-clm"].length
        for row in tokens.tolist():
            found = LINE.fullmatch(read(row))
            assert found
            assert not held_out(datetime.date.fromisoformat(found[2]))


def test_lines_that_are_measured_are_of_held_out_days(held):
    assert all(held_out(datetime.date.fromisoformat(LINE.fullmatch(read(row))[2])) for row in held)


def test_lines_of_one_length_come_together_and_in_no_order(pool):
    assert sum((tokens == PAD).double().mean() for tokens in pool) / POOLED_BATCHES < 0.1
    lengths = [tokens.shape[1] for tokens in pool]
    assert lengths not in (sorted(lengths), sorted(lengths, reverse=True))


def test_batches_follow_the_seed(pool):
    assert torch.equal(next(batches(random.Random(0))), pool[0])
    assert not torch.equal(next(batches(random.Random(1))), pool[0])


def test_fifteen_characters_of_a_hundred_are_chosen_and_one_of_every_line_at_least(pool):
    torch.manual_seed(0)
    for tokens in (padded([[START, *encode("1 = 2"), END], [START, *encode("3"), END]]), *pool):
        some = chosen(tokens)
        assert some.any(1).all()
        assert not some[(tokens == START) | (tokens == END) | (tokens == PAD)].any()
    many = [chosen(tokens).sum().item() / (tokens >= 4).sum().item() for tokens in pool]
    assert abs(np.mean(many) - 0.15) < 0.01


def test_of_ten_chosen_characters_eight_are_hidden_one_is_replaced_and_one_stays():
    torch.manual_seed(0)
    tokens = torch.full((100, 200), 30)
    some = torch.zeros_like(tokens, dtype=torch.bool)
    some[:, ::2] = True
    given = hidden(tokens, some)
    assert (given[~some] == 30).all()
    changed = given[some]
    assert abs((changed == MASK).double().mean() - 0.8) < 0.02
    replaced = changed[(changed != MASK) & (changed != 30)]
    assert abs(len(replaced) / len(changed) - 0.1) < 0.01
    assert sorted(set(replaced.tolist()) | {30}) == list(range(len(SPECIALS), MASK))


def test_the_masked_loss_is_the_cross_entropy_of_what_was_chosen():
    model = sharpen(TINY["dates-mlm"]())
    tokens = padded([[START, *encode("1 may 2000 = 2000-05-01"), END], [START, *encode("x = 1"), END]])
    torch.manual_seed(3)
    some = chosen(tokens)
    given = hidden(tokens, some)
    losses = []
    with torch.no_grad():
        for row, length in ((0, tokens.shape[1]), (1, 7)):  # a line at a time, without padding
            places = some[row].nonzero()[:, 0]
            all_seen = torch.ones(1, length, dtype=torch.bool)
            logits = model(given[row : row + 1, :length], all_seen, None, places[None])[0][0].numpy()
            losses += [-log_softmax(one)[tokens[row, place]] for one, place in zip(logits, places, strict=True)]
    torch.manual_seed(3)
    assert masked_loss(model, tokens).item() == pytest.approx(np.mean(losses), rel=1e-10)
    assert len(losses) == some.sum()


def test_what_is_predicted_stands_beside_what_was_chosen():
    class Echo(nn.Module):
        def forward(self, given, visible, types, places):
            return nn.functional.one_hot(given.gather(1, places), 76).double(), {}

    tokens = padded([[START, *encode("12 = 34"), END], [START, *encode("5"), END]])
    some = torch.zeros_like(tokens, dtype=torch.bool)
    some[0, [1, 6, 7]] = some[1, 1] = True
    logits, target = filled(Echo(), tokens, tokens, some)
    assert read(target.tolist()) == "1345"
    assert torch.equal(logits.argmax(1), target)


def test_the_causal_loss_is_the_cross_entropy_of_all_that_follows():
    model = sharpen(TINY["dates-clm"]())
    lines = [[START, *encode("1 may 2000 = 2000-05-01"), END], [START, *encode("x = 1"), END]]
    losses = []
    with torch.no_grad():
        for written in lines:
            logits = model(torch.tensor(written)[None])[0][0].numpy()
            losses += [-log_softmax(logits[place])[token] for place, token in enumerate(written[1:])]
    assert causal_loss(model, padded(lines)).item() == pytest.approx(np.mean(losses), rel=1e-10)


class Oracle(nn.Module):
    """Knows the lines, but for the tokens that it is told to get wrong: their probability is a tenth."""

    def __init__(self, lines, wrong):
        super().__init__()
        self.lines, self.wrong = lines, wrong

    def forward(self, tokens):
        out = torch.zeros(*tokens.shape, 75, dtype=torch.float64)
        for row, given in enumerate(tokens.tolist()):
            known = next(one for one in self.lines if [*one, *[PAD] * 99][: len(given)] == given)
            for place, token in enumerate(known[1:]):
                shares = torch.full((75,), 0.1 / 74, dtype=torch.float64)
                shares[token] = 0.9
                if (read(known), place + 1) in self.wrong:
                    shares[:] = 0.8 / 73
                    shares[token], shares[3] = 0.1, 0.1 + 0.8 / 73
                    shares[4 if token != 4 else 5] = 0.5
                    shares /= shares.sum()
                out[row, place] = shares.log()
        return out, {}


def test_only_whole_dates_count_as_continued():
    rng = random.Random(0)
    lines = [line(rng, held=True) for _ in range(70)]
    assert "exactly 100.00% (70 of 70 lines" in causal_figure(Oracle(lines, set()), lines)
    wrong = {
        (read(lines[0]), len(lines[0]) - 1),  # the end
        (read(lines[1]), len(lines[1]) - 2),  # the last digit
        (read(lines[2]), len(lines[2]) - 11),  # the first
        (read(lines[-1]), len(lines[-1]) - 5),  # in the last batch
        (read(lines[3]), len(lines[3]) - 12),  # the space before: not of the date
        (read(lines[4]), 2),
    }
    model = Oracle(lines, wrong)
    figure = causal_figure(model, lines)
    assert "exactly 94.29% (66 of 70 lines" in figure
    with torch.no_grad():
        lost = [-model(torch.tensor(one)[None])[0][0, range(len(one) - 1), one[1:]] for one in lines]
    assert figure.endswith(f"perplexity a character {math.exp(torch.cat(lost).mean()):.3f}")


def test_masked_characters_are_counted_apart_in_dates(monkeypatch):
    lines = [[START, *encode("3 may 2021 = 2021-05-03"), END], [START, *encode("9/9/99 = 1999-09-09"), END]]

    class FindsAllButTheFirstDigitOfDates(nn.Module):
        def forward(self, given, visible, types, places):
            assert (given.gather(1, places) == MASK)[0].all()
            guess = torch.zeros(*places.shape, 76)
            for row, some in enumerate(places.tolist()):
                last = int(visible[row].sum()) - 1
                for column, place in enumerate(some):
                    found = lines[row][place] if last - 10 < place < last else START
                    guess[row, column, found] = 1
            return guess, {}

    monkeypatch.setattr(language, "chosen", lambda tokens: tokens >= 4)
    figure = masked_figure(FindsAllButTheFirstDigitOfDates(), lines)
    commonest = max(sum(one.count(token) for one in lines) for token in range(4, 75)) / 42
    assert figure == (
        f"masked characters found {18 / 42:.2%} (90.00% of those in the ISO date), where the commonest character "
        f"would be {commonest:.2%}; 42 characters of 2 lines of held-out days"
    )


@pytest.mark.parametrize("name", TINY)
def test_training_is_seeded_and_measured_on_held_out_days(name, monkeypatch):
    measured = []

    def figure(module, lines):
        assert not module.training
        measured.extend(lines)
        return "a figure"

    monkeypatch.setattr(language, "build", lambda given: {name: TINY[name]()}[given])
    monkeypatch.setattr(language, "HELD_LINES", 50)
    monkeypatch.setitem(language.FIGURES, name, figure)
    model, said = language.train(name, Run(2))
    assert said == "a figure"
    assert len(measured) == 50
    assert all(held_out(datetime.date.fromisoformat(LINE.fullmatch(read(row))[2])) for row in measured)
    again, other = (language.train(name, Run(2, seed))[0] for seed in (0, 1))
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), again.parameters(), strict=True))
    assert model.embed.tokens.weight.std() < 0.03
    assert not torch.equal(next(model.parameters()), next(other.parameters()))


@pytest.mark.parametrize("name", TINY)
def test_training_begins_with_the_small_weights_of_the_papers(name):
    torch.manual_seed(0)
    model = TINY[name]().apply(language.small)
    for path, parameter in model.named_parameters():
        if parameter.ndim > 1:
            assert 0.01 < parameter.std() < 0.03, path
        else:
            assert set(parameter.tolist()) == ({1.0} if path.endswith("norm.weight") else {0.0})


def figures(name, held):
    torch.manual_seed(0)
    said = language.FIGURES[name](bundled(name), held)
    return [float(number) for number in re.findall(r"\d+\.\d+", said)]


def test_the_bundled_masked_model_finds_characters_of_held_out_days(held):
    found, in_dates, commonest = figures("dates-mlm", held)
    assert found > 76 > 4 * commonest
    assert in_dates > 78


def test_the_bundled_causal_model_continues_lines_of_held_out_days(held):
    exact, perplexity = figures("dates-clm", held)
    assert exact > 94
    assert perplexity < 2.2
