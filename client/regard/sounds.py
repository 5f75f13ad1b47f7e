"""What is sent of a sound: the bytes of a file, or an array as a WAV of 16 bits."""

import io
import wave
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from regard.errors import BadInput

Samples: TypeAlias = npt.NDArray[Any]
"""(samples,) or (samples, channels): floats from -1 to 1, or int16."""

WAV = "audio/wav"
MOST_CHANNELS = 8
MOST_RATE = 192_000
FULL = 32768
"""The size of a sample of 16 bits that is -1."""


def wav_of(array: Samples, rate: object) -> bytes:
    """Return an array at a rate (samples a second) as the bytes of a WAV file of 16 bits.

    Raises BadInput for another shape or type, for no samples, for samples beyond 1, and for a rate that is none.
    """
    if isinstance(rate, bool) or not isinstance(rate, int | np.integer) or not 0 < rate <= MOST_RATE:
        raise BadInput(f"rate: of an array must be its samples a second, a whole number from 1 to {MOST_RATE}")
    shape = array.shape if array.ndim > 1 else (*array.shape, 1)
    if len(shape) != 2 or not shape[0] or not 0 < shape[1] <= MOST_CHANNELS:
        raise BadInput(f"sound: an array must be (samples,) or (samples, 1 to {MOST_CHANNELS}), given {array.shape}")
    if array.dtype.kind == "f":
        if not (np.abs(array) <= 1).all():  # nor what is no number
            raise BadInput("sound: an array of floats must be from -1 to 1, given others; divide 16 bits by 32768")
        array = (array * FULL).round().clip(-FULL, FULL - 1).astype(np.int16)
    if array.dtype.newbyteorder("=") != np.int16:
        raise BadInput(f"sound: an array must be of int16 or floats, given {array.dtype}")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(shape[1])
        writer.setsampwidth(2)
        writer.setframerate(int(rate))
        writer.writeframes(array.astype("<i2").tobytes())
    return file.getvalue()
