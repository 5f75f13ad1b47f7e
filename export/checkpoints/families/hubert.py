"""HuBERT (Hsu et al. 2021)."""

from typing import Literal

from export.checkpoints.building.speech_family import HEADS, NAMES, OF_TRAINING, SpeechConfig, SpeechFamily


class Config(SpeechConfig):
    """`config.json`."""

    feat_proj_layer_norm: bool = True
    conv_pos_batch_norm: Literal[False] = False

    @property
    def projection_norm(self) -> bool:
        """Whether the features of a wave are normalised."""
        return self.feat_proj_layer_norm


HUBERT = SpeechFamily("hubert", Config, NAMES, heads=HEADS, prefix="hubert.", unused=OF_TRAINING)
