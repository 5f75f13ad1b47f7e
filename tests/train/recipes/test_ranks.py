import datetime
import itertools
import random
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from model.architectures.text_encoder import TEXT_ENCODER_SIZES, text_ranker, word_filler
from model.catalogue import bundled
from model.vocabularies import END, PAD, START, encode
from tests.samples.attention_reference import sharpen
from train.data.written_dates.examples import held_out
from train.fit import Run
from train.recipes import ranks
from train.recipes.ranks import (
    CANDIDATES,
    POOLED_BATCHES,
    QUERIES,
    batches,
    candidates,
    figure,
    other_date,
    pairs,
    question,
    ranking_loss,
    scores,
)

DATE = datetime.date(2021, 3, 23)


def sizes(name):
    return replace(TEXT_ENCODER_SIZES[name], width=8, layers=1, heads=2, hidden=8)


@pytest.mark.parametrize("parts", [("year",), ("month",), ("day",), ("year", "day"), ("year", "month", "day")])
def test_another_date_differs_in_the_named_parts_alone(parts):
    rng = random.Random(0)
    for other in (other_date(rng, DATE, parts) for _ in range(200)):
        assert {part for part in ("year", "month", "day") if getattr(other, part) != getattr(DATE, part)} == set(parts)


def test_a_question_has_different_candidates_the_right_one_first_and_most_differ_in_one_part():
    rng, one_part = random.Random(0), 0
    for _ in range(200):
        found = candidates(rng, DATE)
        assert (found[0], len(set(found))) == ("2021-03-23", CANDIDATES)
        one_part += sum(sum(map(str.__ne__, other.split("-"), found[0].split("-"))) == 1 for other in found[1:])
    assert 0.7 < one_part / (200 * (CANDIDATES - 1)) < 0.9


def test_held_out_days_are_asked_for_where_they_are_wanted_alone():
    rng = random.Random(0)
    for held in (False, True):
        dates = [datetime.date.fromisoformat(question(rng, held=held)[1][0]) for _ in range(100)]
        assert {held_out(date) for date in dates} == {held}


def test_a_pair_is_both_texts_each_with_its_type():
    tokens, types = pairs([("3/23/21", ["2021-03-23"]), ("tue 23 mar 2021", ["2021-03-23"])])
    first, second = [START, *encode("3/23/21"), END], [*encode("2021-03-23"), END]
    row = first + second
    assert tokens[0].tolist() == row + [PAD] * (tokens.shape[1] - len(row))
    assert types[0].tolist() == [0] * len(first) + [1] * len(second) + [0] * (tokens.shape[1] - len(row))


def test_batches_are_of_like_lengths():
    pool = list(itertools.islice(batches(random.Random(0)), POOLED_BATCHES))
    assert {len(batch) for batch in pool} == {QUERIES}
    assert sum((pairs(batch)[0] == PAD).double().mean() for batch in pool) / POOLED_BATCHES < 0.15


def test_the_loss_is_of_the_right_one_among_all_and_of_each_alone():
    logits = torch.randn(3, CANDIDATES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plain = logits.numpy()
    among = np.log(np.exp(plain).sum(1)) - plain[:, 0]
    signs = np.where(np.arange(CANDIDATES) == 0, 1, -1)
    alone = np.log1p(np.exp(-plain * signs))
    assert ranking_loss(logits).item() == pytest.approx(among.mean() + alone.mean(), abs=1e-12)


def test_the_figure_counts_questions_and_pairs():
    wanted = iter(torch.tensor([[2.0, -1, -1, -1, -1], [1.0, 3, -1, -1, -1]]).flatten().split(CANDIDATES))

    class Fixed(torch.nn.Module):
        def forward(self, tokens, visible, types):
            return torch.cat([next(wanted) for _ in range(len(tokens) // CANDIDATES)])[:, None], {}

    asked = [("3/23/21", candidates(random.Random(0), DATE))] * 2
    assert figure(Fixed(), asked) == (
        "the right one of 5 first 50.00% (1 of 2 written dates of held-out days); "
        "90.00% of pairs on the right side of one half"
    )


def test_scores_are_of_each_candidate_whatever_it_is_padded_with():
    model = sharpen(text_ranker(sizes("dates-rank")))
    asked = [question(random.Random(seed)) for seed in range(3)]
    with torch.no_grad():
        together, alone = scores(model, asked), torch.cat([scores(model, [one]) for one in asked])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)


def test_a_run_begins_with_what_the_language_model_knows_and_trains_from_its_seed(monkeypatch):
    filler = word_filler(sizes("dates-mlm"))
    monkeypatch.setattr(ranks, "build", lambda name: {"dates-rank": text_ranker(sizes("dates-rank"))}[name])
    monkeypatch.setattr(ranks, "bundled", lambda name: {"dates-mlm": filler}[name])
    monkeypatch.setattr(ranks, "HELD_QUERIES", 4)
    begun = ranks.begun().state_dict()
    for name, weight in filler.state_dict().items():
        assert "head" in name or torch.equal(begun[name], weight), name
    asked = []
    kept = ranks.question
    monkeypatch.setattr(ranks, "question", lambda rng, held=False: (asked.append(held), kept(rng, held=held))[1])
    one, said = ranks.train("dates-rank", Run(2))
    assert said.startswith("the right one of 5 first ")
    assert asked.count(True) == 4
    again, other = (ranks.train("dates-rank", Run(2, seed))[0] for seed in (0, 1))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(one.parameters(), again.parameters(), strict=True))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


def test_the_bundled_model_ranks_the_right_reading_first_of_held_out_days():
    rng = random.Random(7)
    said = figure(bundled("dates-rank"), [question(rng, held=True) for _ in range(300)])
    first, alone = (float(number) for number in re.findall(r"(\d+\.\d+)%", said))
    assert first > 98
    assert alone > 98
