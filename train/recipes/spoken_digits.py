"""`spoken-digits`: one to five spoken digits to their words, by the Speech-Transformer (Dong et al. 2018).

`python -m train.recipes.spoken_digits FOLDER` trains the same without 2D-attention into a folder, and measures it.
"""

import dataclasses
import random
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.speech_transformer import (
    SPEECH_TRANSFORMER_SIZES,
    SpeechTransformer,
    speech_transformer,
)
from model.catalogue import build
from model.vocabularies import END, PAD, START, encode_words
from model.weights import load_weights, save_weights
from train.data.spoken_digits import JOINED_SHARE, MOST, RATE, Utterance, frames_of, utterance, voices
from train.fit import Run, fit

STEPS = {"spoken-digits": 2500}
RATE_OF_LEARNING = 2e-3
BATCH = 32  # utterances
ROOM_SHARE, ROOM_RATE = 0.32, 1e-3  # the steps that follow, in rooms, as a share of the first, and their rate
VOICES, ROOM_VOICES, HELD_VOICES = 480, 300, 100
HELD_SEED = 1_000_003
HELD_UTTERANCES = 1000  # of each sort, on which the figures are measured


def tensors(some: list[Utterance]) -> tuple[Tensor, Tensor]:
    """Return samples (batch, LENGTH), and the tokens of words (batch, longest), right-padded."""
    words = [torch.tensor(encode_words(one.digits)) for one in some]
    return torch.stack([torch.from_numpy(one.samples) for one in some]), nn.utils.rnn.pad_sequence(
        words, batch_first=True, padding_value=PAD
    )


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train a model; return it and the sentence its card quotes."""
    run.begin()
    module = build(name)
    learn(module, name, run)
    rooms = Run(round(run.steps * ROOM_SHARE), run.seed + 1)  # which begins again if it is interrupted
    learn(module, f"{name}, in rooms", rooms, warped=True)
    return module, figures(measured(module))


def learn(module: nn.Module, label: str, run: Run, *, warped: bool = False) -> None:
    """Train a model on utterances, each of which is drawn anew; of voices in rooms if `warped`."""
    rng = run.begin()
    spoken = voices(rng, ROOM_VOICES if warped else VOICES)

    def loss() -> Tensor:
        some = [utterance(rng, spoken, joined=rng.random() < JOINED_SHARE, warped=warped) for _ in range(BATCH)]
        samples, target = tensors(some)
        logits = module(frames_of(samples), target[:, :-1])[0]
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)

    fit(module, loss, run, rate=ROOM_RATE if warped else RATE_OF_LEARNING, label=label, rng=rng)


class Heard(NamedTuple):
    """What a model makes of utterances."""

    wrong: int
    """Words that were substituted, left out or added."""
    words: int
    centres: Tensor
    """The second at which each word's row of the cross-attention has its centre of mass, when all words before it are
    given, of words whose times are known: by the mean of the last layer's heads, and by each head of each layer, (word,
    1 + layers x heads). A frame of the encoder has its middle at its index times the step.
    """
    times: Tensor
    """When each of these words begins and ends, (word, 2)."""


@torch.no_grad()
def measure(module: nn.Module, some: list[Utterance]) -> Heard:
    """Write down what is heard in utterances, greedily, and where each word is heard in those that are given."""
    assert isinstance(module, SpeechTransformer)  # noqa: S101 # for the type checker
    wrong, words, centres, times = 0, 0, [], []
    for first in range(0, len(some), BATCH):
        part = some[first : first + BATCH]
        samples, target = tensors(part)
        memory = module.hear(frames_of(samples))[0]
        for one, said in zip(part, written(module, memory, len(part)), strict=True):
            wrong += distance(said, encode_words(one.digits)[1:-1])
            words += len(one.digits)
        maps = module.write(target[:, :-1], memory)[1]
        cross = [weights for path, weights in maps.items() if path.endswith("cross")]  # of each layer
        seconds = torch.arange(cross[-1].shape[-1]) * (samples.shape[1] / RATE / cross[-1].shape[-1])
        middle = torch.cat((cross[-1].mean(1, keepdim=True), *cross), dim=1) @ seconds  # (batch, 1 + heads, word)
        for one, found in zip(part, middle, strict=True):
            centres.append(found[:, : len(one.times)].T)
            times.append(torch.tensor(one.times).reshape(-1, 2))
    return Heard(wrong, words, torch.cat(centres), torch.cat(times))


def written(module: SpeechTransformer, memory: list[tuple[Tensor, Tensor]], count: int) -> list[list[int]]:
    """Write greedily what was heard: the tokens of each utterance, up to its END."""
    target = torch.full((count, 1), START)
    for _ in range(MOST + 2):
        target = torch.cat((target, module.write(target, memory)[0][:, -1:].argmax(-1)), dim=1)
    rows = [row[1:] for row in target.tolist()]
    return [row[: row.index(END)] if END in row else row for row in rows]


def distance(said: list[int], wanted: list[int]) -> int:
    """Return how many words must be substituted, left out or added to make of one line the other (Levenshtein)."""
    costs = list(range(len(wanted) + 1))
    for number, one in enumerate(said, start=1):
        before, costs[0] = costs[0], number
        for index, other in enumerate(wanted, start=1):
            before, costs[index] = costs[index], min(costs[index] + 1, costs[index - 1] + 1, before + (one != other))
    return costs[-1]


def within(heard: Heard) -> Tensor:
    """Return the share of words whose centre of mass lies within their time, of the mean and of each head."""
    start, end = heard.times[:, :1], heard.times[:, 1:]
    return ((heard.centres >= start) & (heard.centres <= end)).double().mean(0)


class Measured(NamedTuple):
    """What is measured on voices that no training hears."""

    alone: Heard
    """Of digits that are said alone, and joined."""
    breath: Heard
    """Of those that are said in one breath, whose times are not known."""


def measured(module: nn.Module) -> Measured:
    """Measure a model on HELD_UTTERANCES of each sort."""
    rng = random.Random(HELD_SEED)  # noqa: S311 # no secret
    spoken = voices(rng, HELD_VOICES, held=True)
    alone, breath = (
        measure(module, [utterance(rng, spoken, joined=joined) for _ in range(HELD_UTTERANCES)])
        for joined in (True, False)
    )
    return Measured(alone, breath)


def figures(found: Measured) -> str:
    """Return what was measured as a sentence."""
    alone, breath = found
    shares = within(alone)
    return (
        f"word error {alone.wrong / alone.words:.2%} of {alone.words} digits said alone, "
        f"{breath.wrong / breath.words:.2%} of {breath.words} in one breath, by held-out voices; centre of the cross "
        f"row within its word {shares[0]:.2%} by the mean of the last layer, by each head of each layer "
        + " ".join(f"{share:.1%}" for share in shares[1:].tolist())
    )


def without_planes(folder: Path) -> nn.Module:
    """Return the model without 2D-attention, trained by the first part of the recipe, from a folder that keeps it."""
    name, file = "spoken-digits-without", folder / "spoken-digits-without.safetensors"
    torch.manual_seed(0)
    module = speech_transformer(dataclasses.replace(SPEECH_TRANSFORMER_SIZES["spoken-digits"], planes=0)).eval()
    if file.exists():
        load_weights(module, file, name)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        learn(module, name, Run(STEPS["spoken-digits"], saved=folder / "resume.pt"))
        save_weights(module, file, name)
    return module


if __name__ == "__main__":
    print(figures(measured(without_planes(Path(sys.argv[1])))))  # noqa: T201 # a command's answer
