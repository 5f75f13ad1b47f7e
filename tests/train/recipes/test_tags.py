import itertools
import random
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from model.architectures.text_encoder import TEXT_ENCODER_SIZES, tagger
from model.catalogue import bundled
from model.vocabularies import DATE_TAGS, END, PAD, START, encode
from tests.samples.attention_reference import sharpen
from train.data.tagged_dates import Span
from train.fit import Run
from train.recipes import tags
from train.recipes.tags import NO_TAG, POOLED_BATCHES, batches, figure, line, loss, stacked, tags_of

TEXT = "on 4 july"
SPANS = [Span("DAY", 3, 4, "day"), Span("MONTH", 5, 9, "month")]


def tiny():
    return tagger(replace(TEXT_ENCODER_SIZES["dates-tags"], width=8, layers=1, heads=2, hidden=8), len(DATE_TAGS))


def test_each_character_has_the_tag_of_its_part():
    named = [DATE_TAGS[tag] for tag in tags_of(TEXT, SPANS)]
    assert named == ["O"] * 3 + ["DAY", "O"] + ["MONTH"] * 4
    tokens, wanted = line(random.Random(0))
    assert (tokens[0], tokens[-1], wanted[0], wanted[-1]) == (START, END, NO_TAG, NO_TAG)
    assert len(tokens) == len(wanted) <= TEXT_ENCODER_SIZES["dates-tags"].length


def test_batches_are_of_like_lengths_and_padding_has_no_tag():
    pool = list(itertools.islice(batches(random.Random(0)), POOLED_BATCHES))
    assert sum((tokens == PAD).double().mean() for tokens, _ in pool) / POOLED_BATCHES < 0.2
    for tokens, wanted in pool:
        specials = (tokens == PAD) | (tokens == START) | (tokens == END)
        assert torch.equal(wanted == NO_TAG, specials)


def test_the_loss_is_the_cross_entropy_of_the_characters():
    model = sharpen(tiny())
    tokens, wanted = stacked([line(random.Random(seed)) for seed in range(3)])
    with torch.no_grad():
        logits = model(tokens, tokens != PAD)[0].double().numpy()
        found = loss(model, tokens, wanted).item()
    shifted = logits - logits.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    rows, places = np.nonzero(wanted.numpy() != NO_TAG)
    assert found == pytest.approx(-logs[rows, places, wanted.numpy()[rows, places]].mean(), abs=1e-5)


def test_the_figure_counts_parts_that_are_whole_characters_and_texts():
    said = [[0, 0, 0, 2, 0, 3, 3, 3, 3], [0, 0, 0, 2, 0, 3, 3, 3, 0]]  # the second without the last character

    class Fixed(torch.nn.Module):
        def forward(self, tokens, visible):
            padded = torch.zeros(tokens.shape, dtype=torch.long)
            padded[:, 1:10] = torch.tensor(said)
            padded[:, [0, 10]] = 3  # what is said of START and END does not count
            return torch.nn.functional.one_hot(padded, len(DATE_TAGS)).float(), {}

    own = ([START, *encode(TEXT), END], [NO_TAG, *tags_of(TEXT, SPANS), NO_TAG])
    words = figure(Fixed(), [own, own])
    assert words == (
        "parts found whole 75.00% (3 of 4), tags of characters 94.44%, "
        "texts without a fault 50.00% of 2 of held-out days"
    )


def test_a_run_trains_the_model_of_its_name_from_its_seed_and_measures_held_out_days(monkeypatch):
    asked = []
    monkeypatch.setattr(tags, "build", lambda name: {"dates-tags": tiny()}[name])
    monkeypatch.setattr(tags, "HELD_TEXTS", 5)
    monkeypatch.setattr(tags, "figure", lambda module, lines: f"a figure of {len(lines)}")
    kept = tags.line
    monkeypatch.setattr(tags, "line", lambda rng, held=False: (asked.append(held), kept(rng, held=held))[1])
    one, said = tags.train("dates-tags", Run(2))
    assert said == "a figure of 5"
    assert asked.count(True) == 5
    again, other = (tags.train("dates-tags", Run(2, seed))[0] for seed in (0, 1))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(one.parameters(), again.parameters(), strict=True))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


def test_the_bundled_model_finds_the_parts_of_dates_of_held_out_days():
    rng = random.Random(7)
    said = figure(bundled("dates-tags"), [line(rng, held=True) for _ in range(500)])
    parts, characters, texts = (float(number) for number in re.findall(r"(\d+\.\d+)%", said))
    assert parts > 98
    assert characters > 99.5
    assert texts > 98
