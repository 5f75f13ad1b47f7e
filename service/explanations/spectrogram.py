"""A picture of a sound: how loud each frequency is at each time."""

import numpy as np
from PIL import Image

from service.inputs.model_input import Sound

WINDOW = 0.025
"""Seconds of a window."""
BANDS = 64
DECADES = 8.0
"""Powers below the loudest that are shown, as those that Whisper hears."""
KNEE, PER_OCTAVE = 700.0, 2595.0
"""Of the mel scale (O'Shaughnessy 1987)."""
LEAST_WIDTH, MOST_WIDTH, HEIGHT = 320, 1600, 128
PIXELS_PER_FRAME = 4
"""The picture's size, in pixels."""


def spectrogram(sound: Sound) -> Image.Image:
    """Return the picture of a sound, from its beginning to its end, low frequencies at the bottom."""
    columns = min(max(LEAST_WIDTH, PIXELS_PER_FRAME * sound.frames), MOST_WIDTH)
    size = round(sound.rate * WINDOW)
    padded = np.pad(sound.samples.astype(np.float64), size)
    middles = (np.arange(columns) + 0.5) * len(sound.samples) / columns + size
    places = middles[:, None].astype(np.int64) + np.arange(size) - size // 2
    power = np.abs(np.fft.rfft(padded[places] * np.hanning(size))) ** 2  # (column, frequency)
    hertz = np.linspace(0, sound.rate / 2, power.shape[1])
    mels = PER_OCTAVE * np.log10(1 + hertz / KNEE)
    band = np.minimum((mels / mels[-1] * BANDS).astype(np.int64), BANDS - 1)
    total = np.zeros((columns, BANDS))
    np.add.at(total.T, band, power.T)
    count = np.maximum(np.bincount(band, minlength=BANDS), 1)
    logarithm = np.log10(np.maximum(total / count, 1e-12))
    filled = np.maximum.accumulate(np.where(np.bincount(band, minlength=BANDS) > 0, np.arange(BANDS), 0))
    logarithm = logarithm[:, filled]  # low bands that hold no frequency look as the one below
    shown = np.clip((logarithm - logarithm.max()) / DECADES + 1, 0, 1)
    return Image.fromarray((255 - 200 * shown.T[::-1]).astype(np.uint8)).resize((columns, HEIGHT))
