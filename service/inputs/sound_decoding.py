"""Sounds: encoded files become samples at the rate of a model. It runs in confined processes."""

import contextlib
import io
import math
import struct

import numpy as np

from contract.input_rules import SoundRule
from service.errors import TooLarge, Unacceptable, Unsupported
from service.inputs.model_input import Sound
from service.inputs.resampling import resample
from service.inputs.wav import MOST_CHANNELS, RATES, Samples, decode_wav, is_wav, read_layout

with contextlib.suppress(ImportError, OSError):  # OSError: the wheel has no library for this system
    import soundfile  # type: ignore[import-untyped] # it has no hints

COMPRESSED = (b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xfa")
"""How FLAC, OGG (Vorbis, Opus) and MP3 begin."""
BLOCK_SAMPLES = 1 << 16
SUBJECT = "audio"


def check_kind(data: bytes) -> None:
    """Raise Unsupported for what cannot be decoded."""
    if is_wav(data):
        return
    if not data.startswith(COMPRESSED):
        raise Unsupported("audio: must be a WAV, FLAC, OGG or MP3 file; send it as WAV")
    if "soundfile" not in globals():
        raise Unsupported("audio: must be a WAV file; for FLAC, OGG and MP3 the service needs the extra audio")


def announced_samples(data: bytes, rate: int, most: int) -> int:
    """Return how many samples a file has at a rate, by its header; the most if only decoding tells.

    Raises as `check_kind` and `read_layout` do, and TooLarge for more.
    """
    check_kind(data)
    if not is_wav(data):
        return most
    layout = read_layout(data)
    count = math.ceil(layout.count * rate / layout.written.rate)
    if count > most:
        raise TooLarge(f"audio: at most {most / rate:g} seconds, given {layout.seconds:.1f}")
    return count


def decode_sound(data: bytes, rule: SoundRule, most: int, announced: int) -> Sound:
    """Return the samples of a file at the rate of a rule: at most `announced`, of which `most` are allowed.

    Raises TooLarge for a sound that is longer, Unsupported for what is no sound, and Unacceptable for one that cannot
    be decoded.
    """
    check_kind(data)
    samples, rate = decode_wav(data) if is_wav(data) else _decode_compressed(data, most / rule.rate)
    found = resample(samples, rate, rule.rate)
    if len(found) > announced:
        raise TooLarge(f"audio: at most {most / rule.rate:g} seconds, given more")
    return Sound(np.clip(found, -1.0, 1.0), rule.rate)


def _decode_compressed(data: bytes, most_seconds: float) -> tuple[Samples, int]:
    """Return the mean of channels, block by block: a header may announce any number of samples."""
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if not 1 <= file.channels <= MOST_CHANNELS:
                raise Unacceptable(f"audio: must have 1 to {MOST_CHANNELS} channels, given {file.channels}")
            if not RATES[0] <= file.samplerate <= RATES[1]:
                raise Unacceptable(
                    f"audio: must have {RATES[0]} to {RATES[1]} samples a second, given {file.samplerate}"
                )
            rate, blocks, count = file.samplerate, list[Samples](), 0
            while len(block := file.read(BLOCK_SAMPLES, dtype="float32", always_2d=True)):
                count += len(block)
                if count > most_seconds * rate:
                    raise TooLarge(f"audio: at most {most_seconds:g} seconds, given more")
                blocks.append(block.mean(axis=1))
    except soundfile.SoundFileError as error:
        raise Unacceptable("audio: must be a file that can be decoded, given one that cannot") from error
    if not count:
        raise Unacceptable("audio: must hold samples, given none")
    found: Samples = np.concatenate(blocks)
    if not np.isfinite(found).all():
        raise Unacceptable("audio: must have samples that are numbers")
    return found, rate


def sounds_to_try() -> list[bytes]:
    """Return a file of each kind, so that all that decoding imports late is imported before it is confined."""
    form = struct.pack("<HHIIHH", 1, 1, 8000, 16_000, 2, 16)
    files = [b"RIFF\x34\0\0\0WAVEfmt \x10\0\0\0" + form + b"data\x10\0\0\0" + bytes(16)]
    if "soundfile" in globals():
        for kind, subtype in (("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")):
            file = io.BytesIO()
            soundfile.write(file, np.zeros(4000), 16_000, format=kind, subtype=subtype)
            files.append(file.getvalue())
    return files
