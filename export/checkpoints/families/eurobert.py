"""EuroBERT (Boizard et al. 2025): blocks of a LLaMA in which all tokens see each other."""

from typing import Literal

from torch import nn

from contract.manifest import Task
from export.checkpoints.building.rotary_keys import BLOCK_NAMES, RotaryKeys
from export.checkpoints.building.tensor_names import Names
from export.checkpoints.building.text_family import of_words
from export.checkpoints.families import bert
from export.checkpoints.reading.config import Activation, Epsilon, Size
from model.architectures.text_encoder import TextEncoderConfig
from model.architectures.text_encoder_variants import EuroBertConfig
from model.parts.heads import EachThen, Pool, WordParts


class Config(RotaryKeys, bert.EncoderConfig):
    """`config.json`."""

    hidden_size: Size = 768
    num_attention_heads: Size = 12
    num_key_value_heads: Size | None = None
    hidden_act: Activation = "silu"
    max_position_embeddings: Size = 8192
    rms_norm_eps: Epsilon = 1e-5
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    classifier_pooling: Literal["bos", "mean", "late"] = "late"
    clf_pooling: Literal["late"] = "late"  # of the authors' code, which the reference library does not read
    irrelevant_keys = frozenset(
        "auto_map bos_token eos_token hidden_dropout mask_token pad_token pretraining_tp".split()
    )


class EuroBertFamily(bert.EncoderFamily[Config]):
    """Texts are classified by the first token, by the mean, or by the mean of what each token says."""

    def sizes(self, config: Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        more = {"attention_bias": config.attention_bias, "gate_bias": config.mlp_bias, "epsilon": config.rms_norm_eps}
        return bert.sizes_of(config, EuroBertConfig, theta=config.theta, key_heads=config.num_key_value_heads, **more)

    def classifier(self, config: Config, sizes: TextEncoderConfig) -> nn.Module:
        """Compose the head that classifies texts."""
        first = nn.Sequential(nn.Linear(sizes.width, sizes.width), nn.GELU())
        last = nn.Linear(sizes.width, len(config.labels))
        if config.classifier_pooling == "late":  # the mean of logits is the logits of a mean
            return EachThen(first, Pool("mean", last))
        return Pool("mean" if config.classifier_pooling == "mean" else "first", nn.Sequential(*first, last))

    def head_names(self, config: Config, task: Task) -> Names:
        """Return the names of a head's tensors."""
        late = task == "text-classification" and config.classifier_pooling == "late"
        return OF_EACH if late else super().head_names(config, task)

    def word_parts(self, config: Config, sizes: TextEncoderConfig) -> WordParts:
        """Compose the parts of a head over the vocabulary: its last layer alone."""
        output = nn.Linear(sizes.width, sizes.vocabulary, config.mlp_bias)
        return WordParts(nn.Identity(), nn.Identity(), nn.Identity(), output)


OF_EACH: Names = {"dense": "head.each.0", "classifier": "head.head.behind"}

EUROBERT = EuroBertFamily(
    "eurobert",
    Config,
    {
        "embed_tokens": "embed.tokens",
        "layers.{}.input_layernorm": "encoder.blocks.{}.attention_norm",
        **BLOCK_NAMES,
        "layers.{}.post_attention_layernorm": "encoder.blocks.{}.feed_forward_norm",
        "norm": "encoder.norm",
    },
    heads={
        "text-classification": {"dense": "head.behind.0", "classifier": "head.behind.2"},
        "token-classification": {"classifier": "head"},
        **of_words({}),
        "feature-extraction": {},
    },
    prefix="model.",
    output_layer="lm_head",
    output_bias="lm_head.bias",
)
