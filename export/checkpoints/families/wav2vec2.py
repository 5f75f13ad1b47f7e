"""wav2vec 2.0 (Baevski et al. 2020)."""

from typing import Literal

from export.checkpoints.building.speech_family import HEADS, NAMES, OF_TRAINING, SpeechConfig, SpeechFamily


class Config(SpeechConfig):
    """`config.json`."""

    add_adapter: Literal[False] = False


WAV2VEC2 = SpeechFamily("wav2vec2", Config, NAMES, heads=HEADS, prefix="wav2vec2.", unused=OF_TRAINING)
