"""`spoken-tera`: restore what was altered in frames of spoken digits (TERA, Liu et al. 2021), without their words."""

import random
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.tera import TERA_SIZES, Tera, heard
from model.catalogue import build
from train.data.spoken_digits import JOINED_SHARE, LENGTH, Samples, Voice, frames_of, utterance, voices
from train.fit import Run, fit

STEPS = {"spoken-tera": 1000}
BATCH = 12  # utterances
VOICES, HELD_VOICES = 480, 100
HELD_SEED = 1_000_003

# Liu et al. 2021, section III-B
TIME_SHARE, BLOCK = 0.15, 7  # of the frames that are altered along time, and how many are altered alike
ZERO_SHARE, OTHER_SHARE = 0.8, 0.1  # of the blocks, which become zeros, or other frames; the others stay
WIDEST = 16  # bands of the block that becomes zeros
NOISE_SHARE, NOISE_DEVIATION = 0.15, 0.2  # of the utterances that noise is added to, and of the noise

PROBE_STEPS, PROBE_RATE = 500, 0.02
SAID_EACH = 2  # times that every voice says every digit, for the probes

Embed: TypeAlias = Callable[[Tensor], Tensor]
"""Log-mel frames (batch, band, frame) -> what a probe is given of them, (batch, width)."""


def along_time(sound: Tensor) -> Tensor:
    """Alter TIME_SHARE of the frames of each sound (batch, band, frame), in blocks of BLOCK frames, none over another.

    The paper's code draws what becomes of the blocks once for a whole utterance; here it is drawn for each.
    """
    batch, _, frames = sound.shape
    places, count = frames // BLOCK, round(frames * TIME_SHARE / BLOCK)
    altered = sound.clone()
    for row in range(batch):
        shift = torch.randint(frames - places * BLOCK + 1, (1,))
        for begin in (shift + BLOCK * torch.randperm(places)[:count]).tolist():
            fate, block = torch.rand(()).item(), slice(begin, begin + BLOCK)
            if fate < ZERO_SHARE:
                altered[row, :, block] = 0
            elif fate < ZERO_SHARE + OTHER_SHARE:
                other = int(torch.randint(frames - BLOCK + 1, ()))
                altered[row, :, block] = sound[row, :, other : other + BLOCK]
    return altered


def along_frequency(sound: Tensor) -> Tensor:
    """Set a block of up to WIDEST bands of each sound (batch, band, frame) to zero; its width may be 0."""
    batch, bands, _ = sound.shape
    width = torch.randint(WIDEST + 1, (batch, 1))
    begin = (torch.rand(batch, 1) * (bands - width + 1)).long()
    band = torch.arange(bands)
    return sound.masked_fill(((band >= begin) & (band < begin + width))[:, :, None], 0)


def in_magnitude(sound: Tensor) -> Tensor:
    """Add noise to all frames of NOISE_SHARE of the sounds (batch, band, frame)."""
    noisy = torch.rand(len(sound), 1, 1) < NOISE_SHARE
    return sound + noisy * NOISE_DEVIATION * torch.randn_like(sound)


class Pretraining(nn.Module):
    """A TERA, and the head of two layers that restores frames (section III-C)."""

    def __init__(self, model: Tera) -> None:
        super().__init__()
        sizes = TERA_SIZES["spoken-tera"]
        self.model = model
        self.head = nn.Sequential(
            nn.Linear(sizes.width, sizes.width), nn.GELU(), sizes.norm(), nn.Linear(sizes.width, sizes.bands)
        )

    def loss(self, sound: Tensor) -> Tensor:
        """Return the mean absolute difference of frames (batch, band, frame) and those restored from altered ones."""
        altered = in_magnitude(along_frequency(along_time(sound)))
        return F.l1_loss(self.head(self.model.states(altered)[0]).transpose(1, 2), sound)


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train a model; return it and the sentence its card quotes."""
    rng = run.begin()
    module = build(name)
    assert isinstance(module, Tera)  # noqa: S101 # for the type checker
    pretraining, spoken = Pretraining(module), voices(rng, VOICES)

    def loss() -> Tensor:
        some = [utterance(rng, spoken, joined=rng.random() < JOINED_SHARE).samples for _ in range(BATCH)]
        return pretraining.loss(frames_of(torch.stack([torch.from_numpy(one) for one in some])))

    fit(pretraining, loss, run, rate=2e-3, label=name, rng=rng)
    return module, figures(measured(module))


def mel_means(sound: Tensor) -> Tensor:
    """Return the mean and the deviation of each band over the frames that hold sound, (batch, twice the bands)."""
    shown = heard(sound).to(sound.dtype)[:, None]
    count = shown.sum(2).clamp(min=1.0)
    mean = (sound * shown).sum(2) / count
    spread = ((sound - mean[:, :, None]).square() * shown).sum(2) / count
    return torch.cat((mean, spread.sqrt()), dim=1)


def padded(word: Samples, rng: random.Random) -> Tensor:
    """Return a word at some place of a sound, at some loudness, with silence around it."""
    samples = torch.zeros(LENGTH)
    at = rng.randint(0, LENGTH // 8)
    samples[at : at + len(word)] = torch.from_numpy(word) * 10 ** rng.uniform(-1.0, 0.0)
    return samples


@torch.no_grad()
def embedded(embeds: dict[str, Embed], spoken: list[Voice], rng: random.Random) -> dict[str, Tensor]:
    """Embed each digit said alone by each voice, SAID_EACH times: (voice x digit x times, width) by each embedding."""
    found: dict[str, list[Tensor]] = {name: [] for name in embeds}
    for voice in spoken:
        sound = frames_of(torch.stack([padded(word, rng) for word in voice.words for _ in range(SAID_EACH)]))
        for name, embed in embeds.items():
            found[name].append(embed(sound))
    return {name: torch.cat(some) for name, some in found.items()}


def probed(given: Tensor, labels: Tensor, held: Tensor, held_labels: Tensor) -> float:
    """Return the share of held-out embeddings whose label a linear layer finds that was fitted to the others."""
    mean, spread = given.mean(0), given.std(0) + 1e-6
    layer = nn.Linear(given.shape[1], int(labels.max()) + 1)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=PROBE_RATE, weight_decay=0.01)
    for _ in range(PROBE_STEPS):
        optimizer.zero_grad()
        F.cross_entropy(layer((given - mean) / spread), labels).backward()  # type: ignore[no-untyped-call] # torch has not typed it
        optimizer.step()
    with torch.no_grad():
        return (layer((held - mean) / spread).argmax(1) == held_labels).double().mean().item()


def measured(module: nn.Module) -> dict[str, tuple[float, float]]:
    """Fit linear probes to what a network, mel means and random weights make of words: digits and voices found.

    The digit is probed on voices that neither the network nor the probe heard; the voice, among HELD_VOICES of these,
    on the odd digits, by a probe that was fitted to the even ones.
    """
    assert isinstance(module, Tera)  # noqa: S101 # for the type checker
    rng = random.Random(HELD_SEED)  # noqa: S311 # no secret
    torch.manual_seed(HELD_SEED)
    fresh = build("spoken-tera")
    embeds: dict[str, Embed] = {
        "its states": lambda sound: module(sound)[0],
        "mel means": mel_means,
        "random weights": lambda sound: fresh(sound)[0],
    }
    known, unknown = voices(rng, 2 * HELD_VOICES), voices(rng, HELD_VOICES, held=True)
    given, held = (embedded(embeds, some, rng) for some in (known, unknown))
    digits, held_digits = (torch.arange(10).repeat_interleave(SAID_EACH).repeat(len(some)) for some in (known, unknown))
    who = torch.arange(HELD_VOICES).repeat_interleave(10 * SAID_EACH)
    even = held_digits % 2 == 0
    return {
        name: (
            probed(given[name], digits, held[name], held_digits),
            probed(held[name][even], who[even], held[name][~even], who[~even]),
        )
        for name in embeds
    }


def figures(found: dict[str, tuple[float, float]]) -> str:
    """Return what was measured as a sentence."""
    shares = ", ".join(f"{name} {digit:.1%} and {voice:.1%}" for name, (digit, voice) in found.items())
    return f"digits, and which of {HELD_VOICES} held-out voices, by a linear probe: {shares}"
