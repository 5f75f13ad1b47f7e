"""Chinese CLIP (Yang et al. 2022): CLIP's encoder of pictures beside a BERT."""

from typing import Any

from torch import nn

from export.checkpoints.building.tower_family import FEATURES, TextTower
from export.checkpoints.families.bert import NAMES, sizes_of
from export.checkpoints.families.bert import Config as BertConfig
from export.checkpoints.families.clip import CLIP, ClipFamily, ClipImage, Config, VisionConfig
from export.checkpoints.reading.config import Size
from model.architectures.text_encoder import TextEncoder, TextEncoderConfig, text_encoder
from model.parts.heads import Pool


class TextConfig(BertConfig):
    """`text_config` of `config.json`, and the numbers of a vector."""

    vocab_size: Size = 30522
    projection_dim: Size = 512


class BertTower(TextTower[TextConfig]):
    """The encoder of texts: the first token, projected."""

    def compose(self, config: TextConfig) -> tuple[TextEncoder, TextEncoderConfig]:
        """Return the definition, not yet filled, and its sizes."""
        sizes = sizes_of(config, TextEncoderConfig, types=config.type_vocab_size)
        return text_encoder(sizes, Pool("first", nn.Linear(sizes.width, config.projection_dim, bias=False))), sizes


class ChineseClipFamily(ClipFamily):
    """Both, whose texts have BERT's tokenizer where the folder names none."""

    def of_both(self, config: Config) -> dict[str, Any]:
        """Return how many numbers a vector has, and the class of the tokenizer."""
        return {**super().of_both(config), "tokenizer_class": "BertTokenizer"}


CHINESE_CLIP = ChineseClipFamily(
    "chinese_clip",
    Config,
    names={},
    heads=FEATURES,
    image=ClipImage(
        "chinese_clip",
        VisionConfig,
        CLIP.image.names,
        CLIP.image.heads,
        prefix=CLIP.image.prefix,
        unused=CLIP.image.unused,
        processor="ChineseCLIPImageProcessor",
    ),
    text=BertTower(
        "chinese_clip",
        TextConfig,
        NAMES,
        CLIP.text.heads,
        prefix=CLIP.text.prefix,
        unused=(*CLIP.text.unused, "pooler.dense"),
    ),
    scores="softmax",
)
