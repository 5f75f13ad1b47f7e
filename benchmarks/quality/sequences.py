"""Sequences whose tokens are known to come from one place of the source: reversals, and dates with digits to copy."""

import datetime
import random
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.quality import methods
from benchmarks.quality.methods import Subject
from contract.generation import Generation
from contract.input_rules import TextRule
from export.plan import Source
from export.tasks.generation import text_to_text
from model.architectures.transformer import TransformerConfig, vaswani
from model.parts.stacks import PRE_NORM, StackSizes
from model.vocabularies import END, MASK, PAD, START, encode
from train.data.written_dates.examples import held_out
from train.data.written_dates.spelling import MONTHS
from train.fit import Run, fit
from train.recipes.dates import tensors
from train.recipes.language import padded


class Asked(NamedTuple):
    """One row for each token that is asked for."""

    exact: float
    """The share of all answers (of a language model: of all tokens asked for) that is right; the rest is left out."""
    subject: Subject
    gold: np.ndarray
    """The place in the source that each token comes from."""

    def wrong(self, maps: np.ndarray) -> float:
        """Return the alignment error: the share of tokens whose hottest place in the source is another."""
        return float((maps.argmax(1) != self.gold).mean())


# Reversal: token i of the target is token n - 1 - i of the source.

LENGTHS = (4, 10)
TOKENS = 10
STACK = StackSizes(layers=2, heads=4, hidden=128)
REVERSAL = TransformerConfig(END + 1 + TOKENS, length=16, width=64, encoder=STACK, decoder=STACK)


def reversals(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw sources (batch, 11), targets (batch, 12), and for each target token behind the start its source or -1."""
    length = torch.randint(LENGTHS[0], LENGTHS[1] + 1, (count, 1), generator=generator)
    tokens = torch.randint(END + 1, REVERSAL.vocabulary, (count, LENGTHS[1] + 1), generator=generator)
    place = torch.arange(LENGTHS[1] + 1)

    def ended(tokens: Tensor) -> Tensor:
        return torch.where(place < length, tokens, torch.where(place == length, END, PAD))

    gold = torch.where(place < length, length - 1 - place, -1)
    target = ended(tokens.gather(1, gold.clamp(min=0)))
    return ended(tokens), torch.cat((torch.full((count, 1), START), target), dim=1), gold


def reverser(seed: int, steps: int = 400) -> Source:
    """Train an encoder-decoder to reverse."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    module = vaswani(REVERSAL, PRE_NORM)

    def loss() -> Tensor:
        source, target, _ = reversals(96, generator)
        logits, _ = module(source, source != PAD, target[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)

    fit(module, loss, Run(steps), rate=3e-3, label="reversal")
    return text_to_text(
        "reversal",
        module,
        REVERSAL,
        family="transformer",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=16),
        tokenizer="",
        rules=Generation(start=START, end=END, max_new_tokens=12, caches=(), memory=()),
        made_by={},
    )


# Dates whose year and day stand in the source as they do in the answer, each digit once.

COPIED = (0, 1, 2, 3, 8, 9)
"""The characters of an ISO date that are copied; month and dashes are in no place of the source."""
FORMS = ("{0.day} {1} {0.year}", "{1} {0.day}, {0.year}", "the {0.day}th of {1} {0.year}", "{0.year}, {1} {0.day}")


def plain_dates(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Draw held-out dates, in words and in ISO 8601, whose year and day have six different digits."""
    rng = random.Random(seed)
    first, last = datetime.date(1930, 1, 1).toordinal(), datetime.date(2060, 1, 1).toordinal()
    every = (datetime.date.fromordinal(day) for day in range(first, last))
    known = [date for date in every if held_out(date) and date.day > 9 and len(set(f"{date.year}{date.day}")) == 6]
    drawn = rng.sample(known, count)
    return [(rng.choice(FORMS).format(date, MONTHS[date.month]), date.isoformat()) for date in drawn]


def translated(pairs: list[tuple[str, str]]) -> tuple[Tensor, Tensor, Tensor]:
    """Return dates as `reversals` does."""
    source, target = tensors([(encode(text), iso) for text, iso in pairs])
    gold = torch.full((len(pairs), target.shape[1] - 1), -1)
    for row, (text, iso) in enumerate(pairs):
        for index in COPIED:
            gold[row, index] = text.index(iso[index])
    return source, target, gold


# What is asked of a model.


def of_targets(source: Source, drawn: tuple[Tensor, Tensor, Tensor]) -> Asked:
    """Ask an encoder-decoder for every token of its right answers that comes from a place in the source."""
    given, target, gold = drawn
    inputs = (given, given != PAD, target[:, :-1])
    wanted = target[:, 1:]
    with torch.no_grad():
        likely = source.traced.observe(*inputs).answer.argmax(-1)
    exact = ((likely == wanted) | (wanted == PAD)).all(1)
    image, place = ((gold[:, :-1] >= 0) & exact[:, None]).nonzero().unbind(1)  # no token behind the last is fed
    fed = inputs[2][image]
    subject = Subject(
        inputs=(given[image], inputs[1][image], fed),
        baseline=(torch.full_like(given[image], PAD), inputs[1][image], torch.where(fed == START, START, PAD)),
        target=wanted[image, place],
        position=place,
        row=place,
        visible=inputs[1][image],
    )
    return Asked(exact.double().mean().item(), subject, gold[image, place].numpy())


def of_continued(source: Source, pairs: list[tuple[str, str]]) -> Asked:
    """Ask a causal model of lines such as `3 May 2021 = 2021-05-03` for the copied characters of the ISO date.

    The written date alone counts as the source; the model reads the whole line up to the character.
    """
    rows = [(text, iso, index) for text, iso in pairs for index in COPIED]
    lines = padded([[START, *encode(f"{text} = {iso}")] for text, iso, _ in rows])
    place = torch.tensor([len(f"{text} = ") + index for text, _, index in rows])  # the token before it, after START
    wanted = lines[torch.arange(len(rows)), place + 1]
    return _kept(
        source,
        Subject(
            inputs=(lines,),
            baseline=(torch.where(lines == START, START, PAD),),
            target=wanted,
            position=place,
            row=place,
            visible=_written(rows, lines),
        ),
        rows,
    )


def of_masked(source: Source, pairs: list[tuple[str, str]]) -> Asked:
    """Ask a masked model of such lines for the copied characters of the ISO date, one masked at a time."""
    rows = [(text, iso, index) for text, iso in pairs for index in COPIED]
    lines = padded([[START, *encode(f"{text} = {iso}"), END] for text, iso, _ in rows])
    place = torch.tensor([1 + len(f"{text} = ") + index for text, _, index in rows])
    own = torch.arange(len(rows))
    wanted = lines[own, place]
    visible, special = lines != PAD, (lines == START) | (lines == END) | (lines == PAD)
    masked = lines.clone()
    masked[own, place] = MASK
    return _kept(
        source,
        Subject(
            inputs=(masked, visible, place[:, None]),
            baseline=(torch.where(special, lines, MASK), visible, place[:, None]),
            target=wanted,
            position=torch.zeros(len(rows), dtype=torch.int64),
            row=place,
            visible=_written(rows, lines),
        ),
        rows,
    )


def _written(rows: list[tuple[str, str, int]], lines: Tensor) -> Tensor:
    """Return the mask of the characters of the written dates, which stand behind START."""
    length = torch.tensor([len(text) for text, *_ in rows])[:, None]
    place = torch.arange(lines.shape[1])
    return (place >= 1) & (place <= length)


def _kept(source: Source, subject: Subject, rows: list[tuple[str, str, int]]) -> Asked:
    with torch.no_grad():
        answer = source.traced.observe(*subject.inputs).answer
    right = answer[torch.arange(len(subject)), subject.position].argmax(-1) == subject.target
    gold = np.array([1 + text.index(iso[index]) for text, iso, index in rows])
    return Asked(right.double().mean().item(), subject.at(right), gold[right.numpy()])


# Alignment errors.


def alignment(source: Source, asked: Asked, wanted: tuple[str, ...]) -> dict[str, float]:
    """Return the alignment error of each method that the model has."""
    return {
        method: asked.wrong(methods.explain(source, method, asked.subject))
        for method in wanted
        if methods.has(source, method)
    }


def by_row(source: Source, asked: Asked) -> dict[str, list[float]]:
    """Return, for `raw` and `norm` and the row that emits a token or takes it as input, the error in every layer."""
    found = {}
    for name, method in (("raw", methods.raw), ("norm", methods.norm)):
        for row, shift in (("emit", 0), ("input", 1)):
            keeps = asked.subject.row + shift < asked.subject.inputs[-1].shape[1]
            own = Asked(asked.exact, asked.subject.at(keeps), asked.gold[keeps.numpy()])
            shifted = replace(own.subject, row=own.subject.row + shift)
            found[f"{name}, {row}"] = [
                own.wrong(_read(source, method, shifted, layer)) for layer in range(len(source.attention[-1].maps))
            ]
    return found


def _read(source: Source, method, subject: Subject, layer: int) -> np.ndarray:
    maps = np.concatenate([method(source, part, layer).numpy() for part in subject.parts()])
    return np.where(subject.visible.numpy(), maps, -np.inf)
