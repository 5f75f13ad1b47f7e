"""ALBERT (Lan et al. 2020): a BERT whose layers share weights, and whose embeddings are narrower than its states."""

from export.checkpoints.building.tensor_names import Names
from export.checkpoints.building.text_family import EMBEDDING_NAMES, of_words
from export.checkpoints.families import bert
from export.checkpoints.reading.config import Activation, Depth, Size
from model.architectures.text_encoder import TextEncoderConfig
from model.architectures.text_encoder_variants import SharedEncoderConfig


class Config(bert.Config):
    """`config.json`. Layers are in groups that share weights; a group repeats what it holds."""

    embedding_size: Size = 128
    hidden_size: Size = 4096
    num_attention_heads: Size = 64
    intermediate_size: Size = 16384
    hidden_act: Activation = "gelu_tanh"
    num_hidden_groups: Depth = 1
    inner_group_num: Depth = 1
    irrelevant_keys = frozenset(  # the reference library reads none of them
        "classifier_dropout_prob down_scale_factor gap_size net_structure_type num_memory_blocks".split()
    )

    @property
    def layers(self) -> list[tuple[int, int]]:
        """The group of each layer, and its number in the group."""
        depth, groups, inner = self.num_hidden_layers, self.num_hidden_groups, self.inner_group_num
        return [(int(layer / (depth / groups)), part) for layer in range(depth) for part in range(inner)]


class AlbertFamily(bert.EncoderFamily[Config]):
    """The first token, [CLS], is classified."""

    def sizes(self, config: Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        layers = config.layers
        return bert.sizes_of(
            config,
            SharedEncoderConfig,
            layers=len(layers),
            types=config.type_vocab_size,
            embedding=config.embedding_size,
            weights=tuple(layers.index(one) for one in layers),
        )

    def body(self, config: Config) -> Names:
        """Return the names of the body's tensors; those of weights that layers share are the first one's."""
        layers = config.layers
        return dict(self.names) | {
            f"encoder.albert_layer_groups.{group}.albert_layers.{part}.{theirs}": (
                f"encoder.blocks.{layers.index((group, part))}.{ours}"
            )
            for group, part in dict.fromkeys(layers)
            for theirs, ours in PARTS.items()
        }


PARTS = {
    **{f"attention.{part}": f"attention.{part}" for part in ("query", "key", "value")},
    "attention.dense": "attention.output",
    "attention.LayerNorm": "attention_norm",
    "ffn": "feed_forward.0",
    "ffn_output": "feed_forward.2",
    "full_layer_layer_norm": "feed_forward_norm",
}

ALBERT = AlbertFamily(
    "albert",
    Config,
    {
        **EMBEDDING_NAMES,
        "embeddings.token_type_embeddings": "embed.types",
        "encoder.embedding_hidden_mapping_in": "embed.projection",
    },
    heads={
        "text-classification": {"pooler": "head.dense", "classifier": "head.output"},
        "token-classification": {"classifier": "head"},
        "question-answering": {"qa_outputs": "head"},
        **of_words({"predictions.dense": "head.dense", "predictions.LayerNorm": "head.norm"}),
        "feature-extraction": {},
    },
    prefix="albert.",
    unused=("embeddings.position_ids", "sop_classifier.classifier"),
    output_layer="predictions.decoder",
    output_bias="predictions.bias",
)
