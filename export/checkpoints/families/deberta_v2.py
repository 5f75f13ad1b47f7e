"""DeBERTa V2 and V3 (He et al. 2021, 2023): scores of what tokens are, and of how far away they are."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from torch import nn

from export.checkpoints.building.tensor_names import Names
from export.checkpoints.building.text_family import of_words
from export.checkpoints.families import bert
from export.checkpoints.reading.config import Activation, Depth, Epsilon, Index, Size
from model.architectures.text_encoder import TextEncoderConfig
from model.architectures.text_encoder_variants import DisentangledEncoderConfig
from model.parts.feed_forward import ACTIVATIONS
from model.parts.heads import FirstClassifier


def _both(terms: list[str] | str | None) -> list[str] | str:
    if terms and sorted(terms.split("|") if isinstance(terms, str) else terms) == ["c2p", "p2c"]:
        return terms
    raise ValueError("must be p2c and c2p")


class Config(bert.Config):
    """`config.json`. What models that were published say is supported, but for a convolution; defaults are others."""

    hidden_size: Size = 1536
    num_hidden_layers: Depth = 24
    num_attention_heads: Size = 24
    intermediate_size: Size = 6144
    type_vocab_size: Index = 0
    layer_norm_eps: Epsilon = 1e-7
    relative_attention: Literal[True] = Field(default=False, validate_default=True)
    position_biased_input: Literal[False] = Field(default=True, validate_default=True)
    share_att_key: Literal[True] = Field(default=False, validate_default=True)
    pos_att_type: Annotated[list[str] | str | None, AfterValidator(_both)] = Field(default=None, validate_default=True)
    position_buckets: int = -1
    max_relative_positions: int = -1
    norm_rel_ebd: Literal["layer_norm", "none"] = "none"
    conv_kernel_size: Literal[0] = 0
    pooler_hidden_act: Activation = "gelu"
    tie_word_embeddings: Literal[True] = True
    irrelevant_keys = frozenset({"pooler_dropout", "pooler_hidden_size", "legacy", "cls_dropout"})


class DebertaV2Family(bert.EncoderFamily[Config]):
    """The first token, [CLS], is classified. Heads over the vocabulary have the names of both forms that there are."""

    def sizes(self, config: Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        most, normed = config.max_relative_positions, config.norm_rel_ebd == "layer_norm"
        more = {"types": config.type_vocab_size, "buckets": max(0, config.position_buckets)}
        more |= {"farthest": most if most > 0 else config.max_position_embeddings}
        return bert.sizes_of(config, DisentangledEncoderConfig, **more, distances_normed=normed)

    def classifier(self, config: Config, sizes: TextEncoderConfig) -> nn.Module:
        """Compose the head that classifies texts."""
        return FirstClassifier(sizes.width, len(config.labels), ACTIVATIONS[config.pooler_hidden_act]())


NAMES: Names = {
    **{name + "_proj" * (".self." in name): ours for name, ours in bert.NAMES.items() if ".position" not in name},
    "encoder.rel_embeddings": "contexts.states",
    "encoder.LayerNorm": "contexts.norm",
}
FORMS = ("cls.predictions.transform", "lm_predictions.lm_head")
OTHER = ("dense", "LayerNorm", "classifier")
OF_WORDS: Names = {
    **{f"{form}.dense": "head.dense" for form in FORMS},
    **{f"{form}.LayerNorm": "head.norm" for form in FORMS},
    "lm_predictions.lm_head.bias": "head.output.bias",
}

DEBERTA_V2 = DebertaV2Family(
    "deberta-v2",
    Config,
    NAMES,
    heads={
        "text-classification": {"pooler.dense": "head.dense", "classifier": "head.output"},
        "token-classification": {"classifier": "head"},
        "question-answering": {"qa_outputs": "head"},
        **of_words(OF_WORDS),
        "feature-extraction": {},
    },
    prefix="deberta.",
    unused=("embeddings.position_ids", "embeddings.position_embeddings", *(f"mask_predictions.{one}" for one in OTHER)),
    output_layer="cls.predictions.decoder",
    output_bias="cls.predictions.bias",
)
