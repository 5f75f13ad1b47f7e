"""jina-embeddings-v3 (Sturua et al. 2024): an XLM-RoBERTa with rotary positions. Its adapters are not read."""

from typing import ClassVar

from export.checkpoints.building.rotary_keys import POST_NORM_NAMES, RotaryKeys, joined
from export.checkpoints.families import bert
from export.checkpoints.families.roberta import like_roberta
from export.checkpoints.reading.config import Depth, Epsilon, Index, Size
from model.architectures.text_encoder import TextEncoderConfig
from model.architectures.text_encoder_variants import RotaryEncoderConfig


class Config(RotaryKeys, bert.EncoderConfig):
    """`config.json`."""

    usual_theta: ClassVar[float] = 20_000.0
    hidden_size: Size = 1024
    num_hidden_layers: Depth = 24
    num_attention_heads: Size = 16
    intermediate_size: Size = 4096
    max_position_embeddings: Size = 8194
    type_vocab_size: Index = 1
    layer_norm_eps: Epsilon = 1e-5


class JinaFamily(bert.EncoderFamily[Config]):
    """A text encoder whose heads are those of RoBERTa."""

    def sizes(self, config: Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        return bert.sizes_of(config, RotaryEncoderConfig, types=config.type_vocab_size, theta=config.theta)


BLOCK = "encoder.blocks.{}"

JINA = like_roberta(
    JinaFamily,
    "jina_embeddings_v3",
    Config,
    {
        **POST_NORM_NAMES,
        "layers.{}.mlp.fc1": f"{BLOCK}.feed_forward.0",
        "layers.{}.mlp.fc2": f"{BLOCK}.feed_forward.2",
        "emb_ln": "embed.norm",
        **joined("encoder.layers.{}.mixer.Wqkv"),
        "encoder.layers.{}.mixer.out_proj": f"{BLOCK}.attention.output",
        "encoder.layers.{}.norm1": f"{BLOCK}.attention_norm",
        "encoder.layers.{}.mlp.fc1": f"{BLOCK}.feed_forward.0",
        "encoder.layers.{}.mlp.fc2": f"{BLOCK}.feed_forward.2",
        "encoder.layers.{}.norm2": f"{BLOCK}.feed_forward_norm",
    },
)
