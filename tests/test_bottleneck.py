"""What docs/bottleneck.md says of recurrent networks with attention and without."""

import datetime
import random
import re

import pytest
import torch
from torch import nn

from docs.bottleneck import BUNDLED, COMPOSED, LENGTHS, in_sentences, right, several
from model.catalogue import bundled
from model.vocabularies import VOCABULARY, encode
from tests.conftest import ROOT
from train.data.written_dates.examples import held_out
from train.recipes.dates import exact

PAGE = (ROOT / "docs/bottleneck.md").read_text()
FIRST, SECOND = "2021-03-23", "1678-04-09"


class Writer(nn.Module):
    """Writes the same texts whatever it is given."""

    def __init__(self, *texts):
        super().__init__()
        self.written = torch.tensor([[*encode(text), VOCABULARY["[END]"]] for text in texts])

    def forward(self, source, visible, target):
        return nn.functional.one_hot(self.written[:, : target.shape[1]], len(VOCABULARY)).float(), {}


def test_texts_are_right_as_a_whole_and_dates_each_for_itself():
    writer = Writer(f"{FIRST} {SECOND}", f"{SECOND} {SECOND}", f"{FIRST}-{SECOND}", f"{SECOND} {FIRST}")
    assert right(writer, [("x", f"{FIRST} {SECOND}")] * 4) == (1 / 4, 5 / 8)


@pytest.mark.parametrize("held", [False, True])
def test_several_dates_stand_in_a_text_as_in_its_answer(held):
    text, answer = several(random.Random(3), 4, held=held)
    assert len(text.split("; ")) == 4
    dates = [datetime.date.fromisoformat(one) for one in answer.split(" ")]
    assert [held_out(date) for date in dates] == [held] * 4
    assert all(str(date.day) in one for date, one in zip(dates, text.split("; "), strict=True))


def test_both_have_as_many_parameters_within_a_hundredth():
    sizes = [sum(one.numel() for one in make().parameters()) for make in COMPOSED.values()]
    assert max(sizes) <= 1.01 * min(sizes)
    assert all(f"{size:,}".replace(",", " ") in PAGE for size in sizes)


def test_one_vector_loses_dates_in_long_sentences_that_attention_finds_as_the_page_says():
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == len(LENGTHS)
    with_attention, without = map(float, rows[LENGTHS.index(288)][1:])
    assert without + 3 <= with_attention
    some = in_sentences(288)
    for name, said in zip(COMPOSED, (with_attention, without), strict=True):
        assert 100 * exact(bundled(BUNDLED[name]), some) / len(some) == pytest.approx(said, abs=0.5)
