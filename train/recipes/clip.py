"""`scenes-clip`: labels of coloured digits, and the pictures that they are true of (Radford et al. 2021)."""

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.two_towers import TwoTowers
from model.architectures.vit import DIGITS_MEAN, DIGITS_STD
from model.catalogue import build, bundled
from model.vocabularies import COLOURS, PAD, WORDS, encode_label
from train.data.coloured import UNSAID, ColouredScene, Thing, coloured_scene, holds, label_of
from train.data.handwritten_digits import augment, scans
from train.fit import Run, fit
from train.recipes.language import small

STEPS = {"scenes-clip": 1200}
BEGINNING = "scenes-dino"  # whose weights the image tower begins with
DEVIATION = 0.6  # of the numbers of a token there, which the norm before the blocks keeps
BATCH = 48  # scenes, with a label each
ALONE, MIXED = 0.15, 0.45  # shares of the steps until which all scenes hold one thing, and from which none must
RATE = 1e-3
POOLED_SCENES = 512  # scenes drawn together, from as many augmented fields
UNSAID_SHARE = 0.2  # of the things of labels whose colour or whose digit is not told
FRAMED_SHARE = 0.2  # of labels that stand in words that are not known, as in "this is a picture of a red seven"
MOST_AROUND = 5  # such words before a label
LARGEST_SCALE = 100.0  # of cosines (section 2.5)
NEVER = -1e4  # score of a label that is true of a picture, and is not its own

EVERY = tuple(Thing(colour, digit) for colour in range(len(COLOURS)) for digit in range(len(WORDS)))
"""All things, one of which each label of one thing names."""
HELD_SCENES, HELD_SEED = 1000, 1_000_003  # on which the figures are measured, of one thing and as many of two


class Pair(NamedTuple):
    """A scene, its label's things and text, and those of the same label of the scene with its colours swapped."""

    scene: ColouredScene
    label: tuple[Thing, ...]
    text: str
    swapped: tuple[Thing, ...]
    swapped_text: str


def pair(rng: random.Random, scene: ColouredScene) -> Pair:
    """Write a label that names some of a scene's things, in any order."""
    chosen = rng.sample(range(len(scene.things)), rng.randint(1, len(scene.things)))
    hidden = [(rng.random() < UNSAID_SHARE, rng.random() < 0.5) for _ in chosen]
    around = rng.randint(1, MOST_AROUND) if rng.random() < FRAMED_SHARE else 0
    article = rng.random() < 0.8

    def named(things: Sequence[Thing]) -> tuple[tuple[Thing, ...], str]:
        told = tuple(
            things[index] if not some else _without(things[index], colour=colour)
            for index, (some, colour) in zip(chosen, hidden, strict=True)
        )
        text = label_of(told)
        return told, "? " * around + (text if article else text.replace("a ", ""))

    return Pair(scene, *named(scene.things), *named(scene.swapped()))


def _without(thing: Thing, *, colour: bool) -> Thing:
    return thing._replace(colour=UNSAID) if colour else thing._replace(digit=UNSAID)


def tokens_of(texts: Sequence[str]) -> Tensor:
    """Return the tokens (text, longest) of lower-case labels."""
    return nn.utils.rnn.pad_sequence(
        [torch.tensor(encode_label(text)) for text in texts], batch_first=True, padding_value=PAD
    )


def pixels_of(scenes: Sequence[ColouredScene]) -> Tensor:
    """Return the normalised pixels (scene, 3, SIDE, SIDE) that the image tower takes."""
    return (torch.stack([one.picture for one in scenes]) - DIGITS_MEAN) / DIGITS_STD


def bytes_of(scenes: Sequence[ColouredScene]) -> Tensor:
    """Return the pictures (scene, SIDE, SIDE, 3) as the bytes that the exported model takes."""
    pictures = torch.stack([one.picture for one in scenes])
    return (pictures * 255).round().to(torch.uint8).permute(0, 2, 3, 1)


def true_of(scenes: Sequence[Sequence[Thing]], labels: Sequence[Sequence[Thing]]) -> Tensor:
    """Return (scene, label), True where the label is true of the scene."""
    return torch.tensor([[holds(label, things) for label in labels] for things in scenes])


def contrast(scores: Tensor, true: Tensor) -> Tensor:
    """Return the mean cross-entropy of scores (picture, text) both ways (section 2.3, figure 3).

    The first texts are the pictures' own; further ones are true of no picture that they are scored with, and are
    choices of the pictures alone. Other texts that are true of a picture are no choice.
    """
    own = torch.arange(len(scores))
    other = true & ~torch.eye(*scores.shape, dtype=torch.bool)
    scores = scores.masked_fill(other, NEVER)
    return (F.cross_entropy(scores, own) + F.cross_entropy(scores[:, : len(own)].T, own)) / 2


def drawing(rng: random.Random, generator: torch.Generator) -> Callable[[float], list[Pair]]:
    """Return what draws a batch of pairs, of augmented training scans, given the chance of scenes of several things."""
    fields, labels, _, _ = scans()
    pool: list[ColouredScene] = []

    def drawn(chance: float) -> int | None:
        return None if float(torch.rand((), generator=generator)) < chance else 1

    def draw(chance: float) -> list[Pair]:
        while len(pool) < BATCH:
            some = torch.randint(len(fields), (POOLED_SCENES,))
            own, digits = augment(fields[some]), labels[some]
            pool.extend(coloured_scene(own, digits, generator, drawn(chance)) for _ in range(POOLED_SCENES))
        return [pair(rng, pool.pop()) for _ in range(BATCH)]

    return draw


def several(share: float) -> float:
    """Return the chance that a scene holds one thing or more, rather than one, when a share of the steps is taken."""
    return min(1.0, max(0.0, (share - ALONE) / (MIXED - ALONE)))


def train(name: str, run: Run, *, swaps: bool = True) -> tuple[nn.Module, str]:
    """Train both towers; return them and the sentence their card quotes."""
    rng, generator = run.begin(), torch.Generator().manual_seed(run.seed)
    module, draw, taken = begun(name), drawing(rng, generator), 0

    def loss() -> Tensor:
        pairs = draw(several(taken / run.steps))
        named, texts = [one.label for one in pairs], [one.text for one in pairs]
        if swaps:
            named += [one.swapped for one in pairs]
            texts += [one.swapped_text for one in pairs]
        tokens = tokens_of(texts)
        scores = module(pixels_of([one.scene for one in pairs]), tokens, tokens != PAD)
        return contrast(scores, true_of([one.scene.things for one in pairs], named))

    def after(step: int) -> None:
        nonlocal taken
        taken = step
        with torch.no_grad():
            module.scale.clamp_(max=math.log(LARGEST_SCALE))

    fit(module, loss, run, rate=RATE, label=name, rng=rng, generator=generator, after=after)
    return module, measure(module)


def begun(name: str) -> TwoTowers:
    """Return both towers as training begins: the image tower can read a digit, and sees no colours yet."""
    module, known = build(name), bundled(BEGINNING).state_dict()
    assert isinstance(module, TwoTowers)  # noqa: S101 # for the type checker
    module.text.apply(small)
    tensors = module.image.state_dict()
    gray, bias = known.pop("patches.projection.weight"), known.pop("patches.projection.bias")
    known["patches.projection.weight"] = gray.expand_as(tensors["patches.projection.weight"]) / 3
    known["positions.weight"][1:] += bias  # patches have none here
    known["encoder.before.weight"] = tensors["encoder.before.weight"] * DEVIATION
    module.image.load_state_dict({**tensors, **known})
    return module


def held_out(count: int, things: int, seed: int = HELD_SEED) -> list[ColouredScene]:
    """Return scenes of held-out digits, each of `things` things; the same ones for the same seed."""
    *_, held, labels = scans()
    generator = torch.Generator().manual_seed(seed)
    drawn: list[ColouredScene] = []
    while len(drawn) < count:
        one = coloured_scene(held, labels, generator, things)
        drawn += [one] * (len(one.things) == things)
    return drawn


@torch.no_grad()
def scores_of(module: nn.Module, scenes: Sequence[ColouredScene], labels: Sequence[str]) -> Tensor:
    """Return scores (scene, label) of a model of both towers."""
    tokens = tokens_of(labels)
    return torch.cat([
        module(pixels_of(scenes[at : at + BATCH]), tokens, tokens != PAD) for at in range(0, len(scenes), BATCH)
    ])  # fmt: skip


def likeliest(module: nn.Module, scenes: Sequence[ColouredScene], count: int) -> list[set[Thing]]:
    """Return the things of the labels of one thing whose scores are the highest, `count` for each scene."""
    scores = scores_of(module, scenes, [label_of([thing]) for thing in EVERY])
    return [{EVERY[index] for index in best} for best in scores.topk(count).indices.tolist()]


def over_swapped(module: nn.Module, scenes: Sequence[ColouredScene]) -> tuple[int, int]:
    """Return for how many scenes the label of all things has a higher score than with its colours swapped, of how many.

    Of others the label with swapped colours is true.
    """
    apart = [one for one in scenes if not holds(one.swapped(), one.things)]
    own, swapped = (
        scores_of(module, apart, [label_of(things) for things in told]).diagonal()
        for told in ([one.things for one in apart], [one.swapped() for one in apart])
    )
    return int((own > swapped).sum()), len(apart)


def measure(module: nn.Module) -> str:
    """Return the figures of both towers on held-out scenes, as the sentence that their card quotes."""
    ones, twos = held_out(HELD_SCENES, 1), held_out(HELD_SCENES, 2)
    shares = [
        sum(found == set(one.things) for one, found in zip(some, likeliest(module, some, count), strict=True))
        for count, some in ((1, ones), (2, twos))
    ]
    above, apart = over_swapped(module, twos)
    return (
        f"of {len(EVERY)} labels the right one first for {shares[0] / len(ones):.1%} of {len(ones)} held-out scenes of "
        f"one digit, both right ones first for {shares[1] / len(twos):.1%} of {len(twos)} of two; the label of both "
        f"above that with their colours swapped for {above / apart:.1%} of {apart}"
    )
