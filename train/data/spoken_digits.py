"""Spoken digits, by the speech synthesiser espeak-ng, which must be installed: one to five in at most three seconds.

A voice says each digit alone, and these are joined with pauses of known lengths: so it is known when each is said. It
also says a few numbers in one breath. What is said is kept in memory, and not stored.
"""

import random
import subprocess
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from model.architectures.speech_transformer import SPOKEN_MEL
from model.parts.sound import LogMel
from model.vocabularies import WORDS

Samples: TypeAlias = npt.NDArray[np.float32]

PROGRAM = "espeak-ng"
ACCENTS = (
    "en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-us-nyc", "en-029",
)  # fmt: skip
HEARD = """
    adam Alex Andrea Andy Annie AnxiousAndy antonio aunty belinda benjamin boris caleb david Denis Diogo ed edward2 f1
    f2 f3 f5 Gene Gene2 grandma grandpa Henrique Hugo iven iven2 iven3 Jacky klatt klatt2 klatt4 klatt5 klatt6 linda m1
    m2 m4 m5 m6 m7 m8 marcelo Marco max michel miguel Mike Nguyen norbert paul pedro quincy RicishayMax RicishayMax2
    rob robert sandro shelby steph2 steph3 travis Tweaky victor
""".split()
HELD = "Alicia edward f4 iven4 john klatt3 Lee m3 Mario Michael pablo RicishayMax3 steph zac".split()
"""Variants of voices that no training hears."""
SLOWEST, FASTEST = 140, 230  # words a minute
LOWEST, HIGHEST = 25, 75  # of the pitches from 0 to 99

RATE = SPOKEN_MEL.rate
SECONDS = 3.0
LENGTH = int(RATE * SECONDS)
MOST = 5  # digits
LONGEST_START, LONGEST_PAUSE = 0.4, 0.3  # seconds
FAINTEST = 0.005  # share of the loudest sample, below which the ends of what is said are cut off
WARPS, GRAIN = (0.78, 1.28), 240  # factors of the frequencies of a warped voice; samples are a multiple of the other
COLOURS, COLOUR = 6, 0.5  # points of a curve of loudness by frequency, and its most decades from 1
LATEST_ECHO, LOUDEST_ECHO = 0.1, 0.5  # seconds, and the share that comes back
BREATHS = 4  # numbers that each voice says in one breath
JOINED_SHARE = 0.7  # of the utterances, the others are said in one breath


MEL = LogMel(SPOKEN_MEL)


class Voice(NamedTuple):
    """What a voice says: each digit alone, and some numbers in one breath with their digits."""

    words: list[Samples]
    breaths: list[tuple[tuple[int, ...], Samples]]


class Utterance(NamedTuple):
    """Samples (LENGTH), the digits that are said, and from when to when each is, in seconds; none if not known."""

    samples: Samples
    digits: tuple[int, ...]
    times: list[tuple[float, float]]


@torch.no_grad()
def frames_of(samples: Tensor) -> Tensor:
    """Take samples (batch, LENGTH), mirrored at their ends -> log-mel frames (batch, band, frame)."""
    side = SPOKEN_MEL.window // 2
    return MEL(F.pad(samples[:, None], (side, side), mode="reflect")[:, 0])


def speak(name: str, pitch: int, speed: int, text: str) -> Samples:
    """Return what a voice of espeak-ng says, at RATE, without silence at its ends. Raises ValueError without it."""
    try:
        how = ("-v", name, "-p", str(pitch), "-s", str(speed), "--stdout")
        made = subprocess.run([PROGRAM, *how, text], capture_output=True, check=True).stdout  # noqa: S603 # words of ours
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"{PROGRAM}: cannot say {text!r} as {name}: {error}") from error
    rate = int.from_bytes(made[24:28], "little")  # a WAV file with one channel of 16 bits
    whole = np.frombuffer(made[44 : len(made) - len(made) % 2], "<i2") / 32768
    count = round(len(whole) * RATE / rate)
    spectrum = np.fft.rfft(whole)[: count // 2 + 1]
    samples = (np.fft.irfft(spectrum, count) * count / len(whole)).astype(np.float32)
    loud = np.flatnonzero(np.abs(samples) > FAINTEST * np.abs(samples).max())
    return samples[loud[0] : loud[-1] + 1]


def voices(rng: random.Random, count: int, *, held: bool = False) -> list[Voice]:
    """Let voices speak, each of an accent and a variant at a pitch and a speed; of held-out variants if `held`."""
    found = []
    for _ in tqdm(range(count), desc="voices", mininterval=1.0):
        name = f"{rng.choice(ACCENTS)}+{rng.choice(HELD if held else HEARD)}"
        how = (name, rng.randint(LOWEST, HIGHEST), rng.randint(SLOWEST, FASTEST))
        words = [speak(*how, word) for word in WORDS]
        breaths: list[tuple[tuple[int, ...], Samples]] = []
        while len(breaths) < BREATHS:
            digits = tuple(rng.choices(range(10), k=rng.randint(2, MOST)))
            whole = speak(*how, rng.choice((" ", ", ")).join(WORDS[digit] for digit in digits))
            if len(whole) <= LENGTH:
                breaths.append((digits, whole))
        found.append(Voice(words, breaths))
    return found


def utterance(rng: random.Random, some: Sequence[Voice], *, joined: bool = True, warped: bool = False) -> Utterance:
    """Let one of some voices say one to five digits, each alone if `joined`, at some loudness and in some noise.

    Behind the noise there is silence to the end. A voice that is `warped` is another one, in a room (`in_a_room`).
    """
    voice, warp = rng.choice(some), rng.uniform(*WARPS) if warped else 1.0
    samples = np.zeros(round(LENGTH * warp / GRAIN) * GRAIN, dtype=np.float32)
    digits, times = (_say_apart if joined else _say_at_once)(rng, voice, samples)
    shorter = LENGTH / len(samples)
    end = min(LENGTH, round(times[-1][1] * RATE * shorter))
    if warped:
        samples = in_a_room(rng, samples)
    samples *= 10 ** rng.uniform(-1.2, 0.0) / np.abs(samples).max()
    if rng.random() < 0.7:
        whole = rng.randint(end, LENGTH)
        noise = np.random.default_rng(rng.getrandbits(32)).standard_normal(whole).astype(np.float32)
        power = np.square(samples[:whole]).mean()
        samples[:whole] += noise * np.sqrt(power * 10 ** rng.uniform(-4.0, -1.0))
    known = [(begin * shorter, end * shorter) for begin, end in times] if joined else []
    return Utterance(samples.clip(-1, 1), digits, known)


Times: TypeAlias = list[tuple[float, float]]


def _say_apart(rng: random.Random, voice: Voice, samples: Samples) -> tuple[tuple[int, ...], Times]:
    """Add one to five digits with pauses to samples, as many as there is room for; return them and their times."""
    digits, times = [], []
    at = round(rng.uniform(0, LONGEST_START) * RATE)
    for digit in rng.choices(range(10), k=rng.randint(1, MOST)):
        word = voice.words[digit]
        end = at + len(word)
        if end > len(samples):
            break
        samples[at:end] += word * 10 ** rng.uniform(-0.15, 0.0)
        digits.append(digit)
        times.append((at / RATE, end / RATE))
        at = end + round(rng.uniform(0, LONGEST_PAUSE) * RATE)
    return tuple(digits), times


def _say_at_once(rng: random.Random, voice: Voice, samples: Samples) -> tuple[tuple[int, ...], Times]:
    """Add a number that is said in one breath to samples; return its digits, and the time of all of them.

    Where there is room for none, digits are said apart.
    """
    short = [one for one in voice.breaths if len(one[1]) <= len(samples)]
    if not short:
        return _say_apart(rng, voice, samples)
    digits, word = rng.choice(short)
    at = round(rng.uniform(0, min(LONGEST_START * RATE, len(samples) - len(word))))
    samples[at : at + len(word)] = word
    return digits, [(at / RATE, (at + len(word)) / RATE)]


def in_a_room(rng: random.Random, samples: Samples) -> Samples:
    """Return samples at another speed, with all frequencies changed alike, some louder than others, and an echo.

    The samples (any number) become LENGTH. So a small head, another microphone and a wall are heard, of one voice.
    """
    spectrum = np.fft.rfft(samples)
    share = np.linspace(0, 1, len(spectrum))
    points = np.linspace(0, 1, COLOURS)
    spectrum *= 10 ** np.interp(share, points, [rng.uniform(-COLOUR, COLOUR) for _ in points])
    late = rng.uniform(0.01, LATEST_ECHO) * RATE
    loud = rng.uniform(0, LOUDEST_ECHO) * (rng.random() < 0.5)
    spectrum *= 1 + loud * np.exp(-1j * np.pi * late * share)
    kept = spectrum[: LENGTH // 2 + 1]
    return np.fft.irfft(kept, LENGTH).astype(np.float32)
