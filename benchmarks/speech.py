"""What whisper-tiny-en writes and when, beside the transformers library; how fast, beside faster-whisper.

`make bench-speech`, or `python -m benchmarks.speech [--rates]`.

Sentences are spoken by espeak-ng, in six voices at three speeds, every third with noise of 20 dB. For the true times of
words, each word is spoken alone, and they are joined with known pauses.
"""

import argparse
import base64
import functools
import io
import math
import os
import statistics
import subprocess
import tempfile
import time
import wave
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.peers import ROOT, Peer, python
from benchmarks.running_service import served
from export.ctranslate2 import write_whisper
from export.packaged import WHISPER, folder_of
from service.explanations.alignment import first_frames
from service.inputs.resampling import resample
from service.inputs.wav import decode_wav

Samples = npt.NDArray[np.float32]
Array = npt.NDArray[np.floating[Any]]
Ours: TypeAlias = Callable[..., dict[str, Any]]
"""What the service answers of samples."""
NAME = "whisper-tiny-en"
RATE = 16_000
STEP = 0.02
"""Seconds of a frame that a map has a column for."""
VOICES = ("en-us", "en-gb", "en-gb-x-rp", "en-gb-scotland", "en-us+f3", "en-gb+m4")
SPEEDS = (130, 155, 180)
PAUSE = 0.12
"""Seconds between words that are spoken alone."""
SENTENCES = (
    "The museum opens at ten on Sunday morning.", "Please call me when the train has left the station.",
    "Nobody knew where the old key was hidden.", "We need three more chairs for the meeting.",
    "The weather will be cold and windy tomorrow.", "She bought a loaf of bread and some cheese.",
    "My brother works in a hospital near the river.", "Turn left at the second traffic light.",
    "The children are playing in the garden.", "He forgot his umbrella on the bus again.",
    "Can you tell me the way to the library?", "The price of coffee went up last month.",
    "There is a small boat on the lake.", "I would like a table for two people.",
    "The doctor said that he should rest for a week.", "Our flight was delayed because of the snow.",
    "The book on the table belongs to my sister.", "They walked along the beach until dark.",
    "A green car stopped in front of the house.", "Dinner will be ready in twenty minutes.",
)  # fmt: skip
CHOOSING = (
    "I left my keys in the kitchen drawer.", "The concert starts at eight in the evening.",
    "Someone is knocking at the front door.", "We should plant some trees behind the barn.",
    "The teacher wrote a question on the board.", "His father sold the farm ten years ago.",
    "Put the milk back into the fridge.", "The bridge was closed after the storm.",
    "She paints the windows of the old mill.", "Nobody wants to walk home in the rain.",
)  # fmt: skip
"""Others, by which heads are chosen."""
COUNT = 60
HEADS = 10
"""Heads that are chosen: those that time words nearest the truth."""
HEARD = 10
"""Sentences whose words are explained."""
LONG = 180
"""Seconds of a long sound."""
PLAIN = {
    "temperature": 0, "compression_ratio_threshold": None, "logprob_threshold": None, "no_speech_threshold": None,
}  # fmt: skip
"""What the reference does where it is asked for nothing."""


class Said(NamedTuple):
    """A sound, and what was said in it: words with the seconds at which they begin, where these are known."""

    samples: Samples
    text: str
    starts: Sequence[float] = ()


def speak(text: str, voice: str, speed: int) -> Samples:
    """Return what espeak-ng says, at the rate of Whisper."""
    command = ["espeak-ng", "-v", voice, "-s", str(speed), "--stdout", text]
    data = subprocess.run(command, capture_output=True, check=True).stdout  # our own words
    samples, rate = decode_wav(data)
    return resample(samples, rate, RATE)


def sentences(count: int = COUNT) -> Iterator[Said]:
    """Yield whole sentences, every third with noise of 20 dB."""
    draw = np.random.default_rng(0)
    for number in range(count):
        text = SENTENCES[number % len(SENTENCES)]
        samples = speak(text, VOICES[number % len(VOICES)], SPEEDS[number // len(VOICES) % len(SPEEDS)])
        if number % 3 == 2:
            power = float((samples**2).mean())
            samples = samples + draw.normal(size=len(samples)).astype(np.float32) * np.float32((power / 100) ** 0.5)
        yield Said(_sixteen_bits(samples), text)


def joined(count: int = COUNT // 2, texts: Sequence[str] = SENTENCES) -> Iterator[Said]:
    """Yield sentences whose words are spoken alone, with the seconds at which each begins."""
    for number in range(count):
        text = texts[number % len(texts)]
        voice, speed = VOICES[number % len(VOICES)], SPEEDS[number // len(VOICES) % len(SPEEDS)]
        pieces, starts, length = [np.zeros(RATE // 4, np.float32)], [], RATE // 4
        for word in text.split():
            spoken = speak(word.strip(".?,"), voice, speed)
            loud = np.flatnonzero(np.abs(spoken) > 0.01)
            spoken = spoken[loud[0] : loud[-1] + 1]
            starts.append(length / RATE)
            pieces += [spoken, np.zeros(int(PAUSE * RATE), np.float32)]
            length += len(spoken) + int(PAUSE * RATE)
        yield Said(_sixteen_bits(np.concatenate(pieces)), text, starts)


def nothing_said() -> dict[str, Samples]:
    """Return sounds of twenty seconds in which nobody speaks."""
    draw, time = np.random.default_rng(1), np.arange(20 * RATE) / RATE
    hum = 0.1 * np.sin(2 * np.pi * 50 * time) + 0.03 * np.sin(2 * np.pi * 150 * time)
    return {
        "silence": np.zeros(20 * RATE, np.float32),
        "hum": hum.astype(np.float32),
        "noise": (0.05 * draw.normal(size=20 * RATE)).astype(np.float32),
        "quiet noise": (0.002 * draw.normal(size=20 * RATE)).astype(np.float32),
    }


def _sixteen_bits(samples: Samples) -> Samples:
    return (np.round(samples * 32_767).clip(-32_768, 32_767) / 32_768).astype(np.float32)


def as_wav(samples: Samples) -> bytes:
    """Return a WAV file of 16 bits."""
    file = io.BytesIO()
    with wave.open(file, "wb") as opened:
        opened.setnchannels(1)
        opened.setsampwidth(2)
        opened.setframerate(RATE)
        opened.writeframes(np.round(samples * 32_768).clip(-32_768, 32_767).astype("<i2").tobytes())
    return file.getvalue()


class Reference:
    """The transformers library, of a checkpoint."""

    def __init__(self, folder: Path) -> None:
        import torch
        from tokenizers import Tokenizer
        from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

        torch.set_num_threads(1)
        self.model = WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").eval()
        self.features = WhisperFeatureExtractor.from_pretrained(folder)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without times."""
        first = self.model.generation_config.no_timestamps_token_id + 1
        text: str = self.tokenizer.decode([one for one in tokens if one < first], skip_special_tokens=True)
        return text.strip()

    def write(self, samples: Samples) -> tuple[str, list[tuple[str, float]]]:
        """Return the text, and its tokens with their times: those of the next token."""
        given = self.features(samples, sampling_rate=RATE, return_tensors="pt", return_attention_mask=True)
        found: Any = self.model.generate(
            given.input_features, attention_mask=given.attention_mask, return_token_timestamps=True
        )
        tokens, times = found["sequences"][0].tolist(), found["token_timestamps"][0].tolist()
        text = self.tokenizer.decode(tokens, skip_special_tokens=True).strip()
        return text, [(self.tokenizer.decode([one]), time) for one, time in zip(tokens, times, strict=True)]

    def rows(self, said: Said) -> tuple[Array, list[int]]:
        """Return what the heads of the cross-attention weigh, (head, row, frame of the sound), and words' first rows.

        A row is that which writes a token of the text, and the last that which ends it.
        """
        from torch import no_grad, tensor

        start = [
            self.model.generation_config.decoder_start_token_id,
            self.model.generation_config.no_timestamps_token_id,
        ]
        tokens = self.tokenizer.encode(f" {said.text}", add_special_tokens=False).ids
        given = self.features(said.samples, sampling_rate=RATE, return_tensors="pt")
        with no_grad():
            out: Any = self.model(
                given.input_features, decoder_input_ids=tensor([[*start, *tokens]]), output_attentions=True
            )
        frames = math.ceil(len(said.samples) / RATE / STEP)
        every = np.concatenate([layer[0].numpy() for layer in out.cross_attentions])[:, len(start) - 1 :, :frames]
        texts = [self.tokenizer.decode([token]) for token in tokens]
        return every, [place for place, text in enumerate(texts) if text.startswith(" ")]


Attended: TypeAlias = tuple[Array, list[int], Sequence[float]]
"""What heads weigh of a sound, (head, row, frame), the rows that write words, and the seconds at which these begin."""


def late(heads: Sequence[int], some: Iterable[Attended]) -> list[float]:
    """Return by how many seconds words but the first of each sound begin later by some heads than in truth."""
    found: list[float] = []
    for rows, first, starts in some:
        begins = np.array(first_frames(rows[heads]))[first] * STEP
        found += (begins - starts)[1:].tolist()
    return found


def nearest_heads(some: Sequence[Attended]) -> list[int]:
    """Return the heads, counted through the layers, each of which alone times words nearest the truth."""
    away = [np.abs(late([head], some)).mean() for head in range(len(some[0][0]))]
    return [int(head) for head in np.argsort(away)[:HEADS]]


def word_times(tokens: Sequence[tuple[str, float]]) -> list[float]:
    """Return the seconds at which words begin: the times of the tokens before. The first words have none."""
    return [time for (_, time), (text, _) in pairwise(tokens) if text.startswith(" ") and time > 0]


def _figures(differences: Sequence[float]) -> str:
    of = np.abs(differences)
    return f"median {np.median(of):.3f} s, 95 % within {np.percentile(of, 95):.3f} s ({len(of)} words)"


def main() -> None:
    """Print how many texts are the same, and how far times are from one another and from the truth; or rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--artifacts", type=Path, default=ROOT / "artifacts", help="folder with whisper-tiny-en")
    parser.add_argument("--count", type=int, default=COUNT, help="sentences")
    parser.add_argument("--rates", action="store_true", help="beside faster-whisper, in place of what is written")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    package = next(folder_of(NAME, WHISPER).rglob("model.bin")).parent
    with served(arguments.artifacts, request_seconds=300) as client, tempfile.TemporaryDirectory() as folder:

        def ours(samples: Samples, **options: object) -> dict[str, Any]:
            body = {"audio": [base64.b64encode(as_wav(samples)).decode()], **options}
            answer = client.post(f"/v1/models/{NAME}/transcribe", json=body, timeout=120).raise_for_status()
            found: dict[str, Any] = answer.json()["results"][0]
            return found

        if arguments.rates:
            print_rates(ours, package, Path(folder), arguments.rounds)
            return
        write_whisper(package, Path(folder))
        reference = Reference(Path(folder))
        _print_texts(ours, reference, arguments.count)
        _print_truth(ours, reference, arguments.count // 2)
        _print_long(ours, reference)
        shares = [share_heard(ours, said.samples) for said in sentences(HEARD)]
        print(
            f"heard, of the words of a sentence: median {np.median(shares):.2f}, "
            f"95 % above {np.percentile(shares, 5):.2f}"
        )
        for name, samples in nothing_said().items():
            plain, found = (ours(samples, timestamps="segment", **options) for options in (PLAIN, {}))
            print(f"{name}: {found['text']!r}; without thresholds {plain['text']!r}, "
                  f"heard {share_heard(ours, samples):.2f}", flush=True)  # fmt: skip


def share_heard(ours: Ours, samples: Samples) -> float:
    """Return the mean share of the sound in what the words of a sound rest on, whatever is unlikely."""
    words = ours(samples, timestamps="word", attention={"method": "libra"}, **PLAIN)["words"]
    return float(np.mean([word["heard"] for word in words])) if words else math.nan


def _print_long(ours: Ours, reference: Reference) -> None:
    """Print whether three minutes are written as by the reference, window by window."""
    whole = np.concatenate([said.samples for said in sentences(COUNT)])[: LONG * RATE]
    for told in (False, True):
        given = reference.features(
            whole, sampling_rate=RATE, return_tensors="pt", truncation=False, return_attention_mask=True
        )
        found = reference.model.generate(
            given.input_features, attention_mask=given.attention_mask, return_timestamps=True,
            condition_on_prev_tokens=told, return_segments=True,
        )  # fmt: skip
        theirs = [reference.text(one["tokens"].tolist()) for one in found["segments"][0]]
        answer = ours(whole, timestamps="segment", condition_on_previous_text=told, **PLAIN)
        mine = [one["text"].strip() for one in answer["segments"]]
        same = sum(one == other for one, other in zip(mine, theirs, strict=False))
        print(f"{len(whole) / RATE:.0f} s, told what was heard before {told}: {same} of {len(theirs)} segments "
              f"the same in their order; {'the same' if mine == theirs else 'another'} text", flush=True)  # fmt: skip


def print_rates(ours: Ours, package: Path, folder: Path, rounds: int) -> None:
    """Print sentences a second, ours over HTTP beside faster-whisper's in its process, in alternating runs."""
    spoken = [said.samples for said in sentences(12)]
    files = [str(folder / f"{number}.wav") for number in range(len(spoken))]
    for file, samples in zip(files, spoken, strict=True):
        Path(file).write_bytes(as_wav(samples))
    threads = len(os.sched_getaffinity(0))
    peer = Peer(python("faster-whisper", "faster-whisper"), "faster_whisper_run.py", str(package), str(threads))
    print(f"faster-whisper {peer.about['version']}, int8, {threads} threads")
    mine: dict[tuple[int, bool], list[float]] = {}
    for _ in range(rounds):
        for at_once in (1, 8):
            for words in (False, True):
                timestamps = "word" if words else "none"
                start = time.perf_counter()
                with ThreadPoolExecutor(at_once) as pool:
                    list(pool.map(functools.partial(ours, timestamps=timestamps, **PLAIN), spoken))
                seconds = time.perf_counter() - start
                theirs = peer.ask(files=files, at_once=at_once, words=words)["seconds"]
                mine.setdefault((at_once, words), []).append(seconds)
                print(f"{at_once} at once, timestamps {timestamps}: ours {len(spoken) / seconds:.2f} a second, "
                      f"theirs {len(spoken) / theirs:.2f}, {theirs / seconds:.2f}x", flush=True)  # fmt: skip
    for at_once in (1, 8):
        ratios = [timed / plain for plain, timed in zip(mine[at_once, False], mine[at_once, True], strict=True)]
        print(f"{at_once} at once: times of words cost {statistics.median(ratios) - 1:.0%}")
    peer.close()


def _print_texts(ours: Ours, reference: Reference, count: int) -> None:
    same, whole, silences, chances = 0, 0, [], []
    between: list[float] = []
    for said in sentences(count):
        mine, (text, tokens) = ours(said.samples, timestamps="word", **PLAIN), reference.write(said.samples)
        same += mine["text"] == text
        whole += _plain(text) == _plain(said.text)
        silences.append(mine["segments"][0]["no_speech_probability"])
        chances.append(mine["segments"][0]["log_probability"])
        theirs, own = word_times(tokens), [word["start"] for word in mine["words"]][1:]
        if mine["text"] == text:
            between += [one - other for one, other in zip(own[-len(theirs) :], theirs, strict=True)]
    print(f"texts as the reference writes them: {same} of {count} ({whole} without an error)")
    print(f"word starts, ours and the reference's (its tokens' times are those of the next): {_figures(between)}")
    print(f"no speech: 95 % of sentences below {np.percentile(silences, 95):.3f}, "
          f"log probability above {np.percentile(chances, 5):.2f}", flush=True)  # fmt: skip


def _print_truth(ours: Ours, reference: Reference, count: int) -> None:
    mine: list[float] = []
    theirs: list[float] = []
    as_given: list[float] = []
    for said in joined(count):
        words = ours(said.samples, timestamps="word", **PLAIN)["words"]
        spoken = [_plain(word) for word in said.text.split()]
        if [_plain(word["word"]) for word in words] != spoken:
            continue
        mine += [word["start"] - start for word, start in zip(words[1:], said.starts[1:], strict=True)]
        _, tokens = reference.write(said.samples)
        moved = word_times(tokens)
        own = [time for text, time in tokens if text.startswith(" ")][1:]
        theirs += [one - start for one, start in zip(moved, said.starts[-len(moved) :], strict=True)]
        as_given += [one - start for one, start in zip(own, said.starts[-len(own) :], strict=True)]
    print(f"word starts against the truth, ours: {_figures(mine)}")
    print(f"  transformers, each time given to the next token: {_figures(theirs)}")
    print(f"  transformers, as it gives them: {_figures(as_given)}")
    of_layer = reference.model.config.decoder_attention_heads
    declared = [layer * of_layer + head for layer, head in reference.model.generation_config.alignment_heads]
    chosen, some = (
        [(*reference.rows(said), said.starts) for said in spoken]
        for spoken in (joined(len(CHOOSING), CHOOSING), joined(count))
    )
    for name, heads in (("the checkpoint's", declared), (f"the {HEADS} nearest", nearest_heads(chosen))):
        places = [divmod(head, of_layer) for head in heads]
        print(
            f"  of the true words, by {name} heads, (layer, head) {places}: {_figures(late(heads, some))}", flush=True
        )


def _plain(text: str) -> str:
    return "".join(one for one in text.lower() if one.isalnum() or one == " ").strip()


if __name__ == "__main__":
    main()
