"""Sounds that change, as WAV files."""

import io
import wave

import numpy as np

RATE = 16_000


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    """Return noise whose colour changes ten times a second."""
    draw = np.random.default_rng(seed)
    pieces = []
    for _ in range(round(seconds * 10)):
        white = draw.normal(size=RATE // 10)
        pieces.append(np.convolve(white, draw.normal(size=9), "same") * draw.uniform(0.02, 0.06))
    return np.clip(np.concatenate(pieces), -1, 1).astype(np.float32)


def as_wav(samples: np.ndarray) -> bytes:
    """Return a WAV file of 16 bits."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(np.round(samples * 32768).clip(-32768, 32767).astype("<i2").tobytes())
    return file.getvalue()


def written_sound(seconds: float, seed: int) -> bytes:
    """Return noise as a WAV file."""
    return as_wav(noise(seconds, seed))
