"""ModernBERT (Warner et al. 2024): a BERT with rotary positions, most of whose layers look at near tokens alone."""

from typing import Literal

from torch import nn

from export.checkpoints.building.rotary_keys import LayeredKeys, joined
from export.checkpoints.building.tensor_names import cut
from export.checkpoints.building.text_family import of_words
from export.checkpoints.families.bert import EncoderConfig, EncoderFamily, sizes_of
from export.checkpoints.reading.config import Activation, Depth, Epsilon, Size
from model.architectures.text_encoder import TextEncoderConfig
from model.architectures.text_encoder_variants import ModernBertConfig
from model.parts.feed_forward import ACTIVATIONS
from model.parts.heads import EachLinear, EachThen, Pool, WordParts


class Config(LayeredKeys, EncoderConfig):
    """`config.json`, of which `hidden_act` and `layer_norm_eps` change nothing."""

    num_hidden_layers: Depth = 22
    intermediate_size: Size = 1152
    max_position_embeddings: Size = 8192
    hidden_activation: Activation = "gelu"
    norm_eps: Epsilon = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    decoder_bias: bool = True
    classifier_bias: bool = False
    classifier_activation: Activation = "gelu"
    classifier_pooling: Literal["cls", "mean"] = "cls"


class ModernBertFamily(EncoderFamily[Config]):
    """All heads but that of features begin with a layer, an activation and a norm."""

    def sizes(self, config: Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        biases = {"attention_bias": config.attention_bias, "norm_bias": config.norm_bias, "gate_bias": config.mlp_bias}
        more = {"activation": config.hidden_activation, "epsilon": config.norm_eps}
        return sizes_of(config, ModernBertConfig, **config.windows(config.num_hidden_layers), **biases, **more)

    def classifier(self, config: Config, sizes: TextEncoderConfig) -> nn.Module:
        """Compose the head that classifies texts."""
        behind = nn.Sequential(*_first(config, sizes), nn.Linear(sizes.width, len(config.labels)))
        return Pool("mean" if config.classifier_pooling == "mean" else "first", behind)

    def tagger(self, config: Config, sizes: TextEncoderConfig, classes: int) -> nn.Module:
        """Compose the head that classifies tokens."""
        return EachThen(nn.Sequential(*_first(config, sizes)), EachLinear(sizes.width, classes))

    def word_parts(self, config: Config, sizes: TextEncoderConfig) -> WordParts:
        """Compose the parts of a head over the vocabulary."""
        return WordParts(*_first(config, sizes), nn.Linear(sizes.width, sizes.vocabulary, config.decoder_bias))


def _first(config: Config, sizes: TextEncoderConfig) -> tuple[nn.Module, nn.Module, nn.Module]:
    dense = nn.Linear(sizes.width, sizes.width, config.classifier_bias)
    return dense, ACTIVATIONS[config.classifier_activation](), sizes.norm()


OF_TEXTS = {"head.dense": "head.behind.0", "head.norm": "head.behind.2", "classifier": "head.behind.3"}
OF_TOKENS = {"head.dense": "head.each.0", "head.norm": "head.each.2", "classifier": "head.head"}

MODERNBERT = ModernBertFamily(
    "modernbert",
    Config,
    {
        "embeddings.tok_embeddings": "embed.tokens",
        "embeddings.norm": "embed.norm",
        "layers.{}.attn_norm": "encoder.blocks.{}.attention_norm",
        **joined("layers.{}.attn.Wqkv"),
        "layers.{}.attn.Wo": "encoder.blocks.{}.attention.output",
        "layers.{}.mlp_norm": "encoder.blocks.{}.feed_forward_norm",
        "layers.{}.mlp.Wi": cut("encoder.blocks.{}.feed_forward.gate", "encoder.blocks.{}.feed_forward.up"),
        "layers.{}.mlp.Wo": "encoder.blocks.{}.feed_forward.output",
        "final_norm": "encoder.norm",
    },
    heads={
        "text-classification": {**OF_TEXTS},
        "token-classification": {**OF_TOKENS},
        "question-answering": {**OF_TOKENS},
        **of_words({"head.dense": "head.dense", "head.norm": "head.norm"}),
        "feature-extraction": {},
    },
    prefix="model.",
    output_layer="decoder",
    output_bias="decoder.bias",
)
