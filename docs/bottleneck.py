"""`python -m docs.bottleneck`: measure what one vector for a whole text costs, and write docs/bottleneck.md.

Two recurrent encoder-decoders, with attention and without, are trained with three seeds where that is missing.
"""

import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.recurrent import Recurrent, RecurrentConfig, recurrent_text, unattended_text
from model.catalogue import bundled
from model.vocabularies import PAD, encode
from model.weights import load_weights, save_weights
from train.data.written_dates.examples import draw_date, example
from train.data.written_dates.forms import FORMS
from train.fit import Run, fit
from train.recipes.dates import WORDS, batches, exact, logits, tensors

HERE = Path(__file__).parent
FOLDER = HERE.parent / "build" / "bottleneck"
"""What was trained, `<seed>/<name>-<steps>`: the next run goes on from there."""
SEEDS = (0, 1, 2)
STEPS, BATCH, RATE = 2000, 64, 3e-3
LONGER = 3 * STEPS
"""For one seed of the model without attention, to see what more steps are worth."""
MOST = 4
"""Dates in a text that is trained on, at most."""
COUNTS = (1, 2, 3, 4, 5)
LENGTHS = (0, 48, 96, 144, 192, 288, 384)
"""Characters that a sentence has at least."""
HELD = 500
"""Texts of held-out dates for each figure."""
HELD_SEED = 1_000_003
DATE = len("2021-03-23")
SIZES = RecurrentConfig(
    75, length=512, target_length=80, embedding=32, source=128, alignment=48, width=96, readout=48
)  # fmt: skip
COMPOSED: dict[str, Callable[[], Recurrent]] = {
    "with attention": lambda: recurrent_text(SIZES),
    "without": lambda: unattended_text(replace(SIZES, alignment=0, width=100)),
}
BUNDLED = {"with attention": "dates-recurrent", "without": "dates-plain"}
ByCount: TypeAlias = dict[int, tuple[float, float]]
"""Number of dates in a text -> the shares of texts and of dates that are right."""
COLOURS = {"with attention": "#0b62a4", "without": "#c0392b"}


def main() -> int:
    """Train what is missing, measure, write the page and its picture."""
    trained = {name: [_trained(name, seed) for seed in SEEDS] for name in COMPOSED}
    rng = random.Random(HELD_SEED)  # noqa: S311 # data, not secrets
    texts = {count: [several(rng, count, held=True) for _ in range(HELD)] for count in COUNTS}
    sentences = {length: in_sentences(length) for length in LENGTHS}
    found = {name: [_by_count(one, texts) for one in models] for name, models in trained.items()}
    longer = _by_count(_trained("without", SEEDS[0], LONGER), texts)
    long = {name: {length: exact(bundled(BUNDLED[name]), some) / HELD for length, some in sentences.items()}
            for name in COMPOSED}  # fmt: skip
    (HERE / "bottleneck.md").write_text(_page(texts, found, longer, sentences, long), encoding="utf-8")
    (HERE / "pictures" / "bottleneck.svg").write_text(_picture(found, long), encoding="utf-8")
    return 0


def several(rng: random.Random, count: int, *, held: bool = False) -> tuple[str, str]:
    """Draw dates, written one after the other in the commonest form, and their readings."""
    dates = [draw_date(rng, held=held) for _ in range(count)]
    return "; ".join(FORMS[0].write(rng, date) for date in dates), " ".join(date.isoformat() for date in dates)


def in_sentences(length: int) -> list[tuple[str, str]]:
    """Return held-out dates, the same for every length, with words before and behind until a text is as long."""
    rng = random.Random(HELD_SEED)  # noqa: S311 # data, not secrets
    pairs = []
    for text, iso in [example(rng, held=True) for _ in range(HELD)]:
        while len(text) < length:
            word = rng.choice(WORDS)
            text = f"{word} {text}" if rng.random() < 0.5 else f"{text} {word}"
        pairs.append((text, iso))
    return pairs


def _trained(name: str, seed: int, steps: int = STEPS) -> Recurrent:
    """Return a model of a seed, trained if its weights are not there."""
    folder = FOLDER / str(seed) / f"{name.replace(' ', '-')}-{steps}"
    weights, run = folder / "model.safetensors", Run(steps, seed, folder / "resume.pt")
    rng = run.begin()
    module = COMPOSED[name]()
    if not weights.exists():
        folder.mkdir(parents=True, exist_ok=True)
        drawn = batches(rng, lambda rng: several(rng, rng.randint(1, MOST)), BATCH)
        fit(module, partial(_loss, module, drawn), run, rate=RATE, label=f"{name}, seed {seed}", rng=rng)
        save_weights(module, weights, name)
        (folder / "resume.pt").unlink(missing_ok=True)
    load_weights(module, weights, name)
    return module.eval()


def _loss(module: nn.Module, drawn: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    source, target = next(drawn)
    return F.cross_entropy(logits(module, source, target).flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)


@torch.no_grad()
def right(module: nn.Module, pairs: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Return the share of answers that are right as a whole, and of dates that are, fed the right ones before."""
    whole, dates = [], []
    for start in range(0, len(pairs), BATCH):
        source, target = tensors([(encode(text), answers) for text, answers in pairs[start : start + BATCH]])
        hit = logits(module, source, target).argmax(-1) == target[:, 1:]  # every text has as many dates
        whole.append(hit.all(1))
        dates.append(hit.unfold(1, DATE, DATE + 1).all(2))
    return torch.cat(whole).double().mean().item(), torch.cat(dates).double().mean().item()


def _by_count(module: nn.Module, texts: dict[int, list[tuple[str, str]]]) -> ByCount:
    return {count: right(module, some) for count, some in texts.items()}


def _page(
    texts: dict[int, list[tuple[str, str]]],
    found: dict[str, list[ByCount]],
    longer: ByCount,
    sentences: dict[int, list[tuple[str, str]]],
    long: dict[str, dict[int, float]],
) -> str:
    size = {name: f"{sum(one.numel() for one in make().parameters()):,}".replace(",", " ")
            for name, make in COMPOSED.items()}  # fmt: skip
    several_rows = "\n".join(
        f"| {count} | {_characters(some)} | "
        + " | ".join(_spread([one[count][what] for one in seeds]) for what in (0, 1) for seeds in found.values())
        + " |"
        for count, some in texts.items()
    )
    sentence_rows = "\n".join(
        f"| {_characters(some)} | " + " | ".join(f"{100 * one[length]:.1f}" for one in long.values()) + " |"
        for length, some in sentences.items()
    )
    return TEMPLATE.format(
        **{name.split()[0]: number for name, number in size.items()},
        steps=STEPS, batch=BATCH, seeds=len(SEEDS), most=MOST, held=HELD, vector=SIZES.source, longer_steps=LONGER,
        longer=_listed([longer[count][0] for count in COUNTS[:MOST]]),
        example=texts[2][0], several=several_rows, sentences=sentence_rows,
    )  # fmt: skip


def _characters(texts: Sequence[tuple[str, str]]) -> str:
    return f"{statistics.mean(len(text) for text, _ in texts):.0f}"


def _listed(shares: Sequence[float]) -> str:
    *first, last = (f"{100 * one:.1f}" for one in shares)
    return f"{', '.join(first)} and {last}"


def _spread(shares: Sequence[float]) -> str:
    per_cent = [100 * one for one in shares]
    return f"{statistics.mean(per_cent):.1f} ({min(per_cent):.1f} to {max(per_cent):.1f})"


WIDE, HIGH, LEFT, TOP = 330, 220, 56, 44
"""Pixels of a panel, and of what is beside and above it."""


def _picture(found: dict[str, list[ByCount]], long: dict[str, dict[int, float]]) -> str:
    """Draw both tables as curves, side by side; of the first the mean of the seeds, and each of them."""
    counts = {name: [[one[count][0] for count in COUNTS] for one in seeds] for name, seeds in found.items()}
    lengths = {name: [list(one.values())] for name, one in long.items()}
    panels = (
        _panel(LEFT, "several dates: texts that are right", "dates in a text", COUNTS, counts)
        + _panel(2 * LEFT + WIDE + 24, "one date in a sentence", "characters at least", LENGTHS, lengths)
    )  # fmt: skip
    width, height = 2 * (LEFT + WIDE) + 48, TOP + HIGH + 52
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="13" fill="#1e1e24"><rect width="100%" height="100%" fill="#fff"/>\n'
        f"{panels}</svg>\n"
    )


def _panel(left: int, title: str, below: str, at: Sequence[int], curves: dict[str, list[list[float]]]) -> str:
    def x(value: float) -> float:
        return left + (value - at[0]) / (at[-1] - at[0]) * WIDE

    def y(share: float) -> float:
        return TOP + (1 - share) * HIGH

    parts = [f'<text x="{left}" y="{TOP - 20}" font-weight="bold">{title}</text>']
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<path d="M{left} {y(share):.1f}h{WIDE}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y(share) + 4:.1f}" text-anchor="end">{100 * share:.0f} %</text>')
    parts.extend(f'<text x="{x(value):.1f}" y="{TOP + HIGH + 20}" text-anchor="middle">{value}</text>' for value in at)
    parts.append(f'<text x="{left + WIDE / 2}" y="{TOP + HIGH + 40}" text-anchor="middle">{below}</text>')
    for row, (name, seeds) in enumerate(curves.items()):
        means = [statistics.mean(shares) for shares in zip(*seeds, strict=True)]
        line = " ".join(f"{x(value):.1f},{y(share):.1f}" for value, share in zip(at, means, strict=True))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        parts.extend(
            f'<circle cx="{x(value):.1f}" cy="{y(share):.1f}" r="3" fill="{COLOURS[name]}"/>'
            for shares in seeds
            for value, share in zip(at, shares, strict=True)
        )
        parts.append(f'<text x="{left + 8}" y="{TOP + HIGH - 30 + 18 * row}" fill="{COLOURS[name]}">{name}</text>')
    return "\n".join(parts) + "\n"


TEMPLATE = """# What attention is for

Written by `make bottleneck`, which trains what it does not find; nothing here is written by hand.

Two encoder-decoders differ in one thing. Both read a text character by character, with a GRU in each direction, and
both write the answer with a GRU. *With attention* (Bahdanau et al. 2015), each step looks at the states of all
characters. *Without* (Cho et al. 2014, Sutskever et al. 2014), each step is given the last states of both directions,
side by side: one vector, which must hold the whole text. What writes has wider states there, so that both models have
as many parameters, within one per cent (`model/architectures/recurrent.py`).

![Accuracy by dates in a text and by the length of a sentence, with attention and without](pictures/bottleneck.svg)

## More to hold: several dates in a text

A text such as `{example[0]}` becomes `{example[1]}`.
Both were trained alike on one to {most} dates in a text, {steps} steps of {batch} texts, {seeds} seeds; {with} and
{without} parameters. Accuracy is on {held} texts of held-out days for each number, in per cent: the mean over seeds,
and the least and the most. *Texts*: all dates of a text are right. *Dates*: each for itself, when those before it are
right. Five dates are more than any text of training has.

| Dates | Characters | Texts, with attention | Texts, without | Dates, with attention | Dates, without |
|---|---|---|---|---|---|
{several}

The vector has {vector} numbers. What it holds is a matter of training too: after {longer_steps} steps in place of
{steps}, the one without attention (one seed) has {longer} per cent of texts of one to {most} dates right.

## Farther to carry: one date in a sentence

The bundled `dates-recurrent` and `dates-plain`, one seed each, were trained alike on dates in all forms; one in ten
stood in a sentence of at most 96 characters. Here {held} dates of held-out days stand anywhere in longer and longer
ones. Accuracy is in per cent.

| Characters | With attention | Without |
|---|---|---|
{sentences}
"""


if __name__ == "__main__":
    sys.exit(main())
