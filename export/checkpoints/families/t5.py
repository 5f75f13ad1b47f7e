"""T5 (Raffel et al. 2020) and its version 1.1, mT5 (Xue et al. 2021) and umT5 (Chung et al. 2023)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator
from torch import nn

from contract.manifest import Task
from export.checkpoints.building.sequence_family import SHARED_EMBEDDING, EncoderDecoderFamily
from export.checkpoints.building.tensor_names import Names, copy_of
from export.checkpoints.reading import config as reading
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import ACTIVATIONS, Activation, Depth, Epsilon, Size
from model.architectures.t5 import T5Config, t5
from model.architectures.transformer import Transformer
from model.parts.stacks import StackSizes

GATED = "gated-"


def _projection(name: str) -> str:
    if name.removeprefix(GATED) not in ACTIVATIONS:
        raise ValueError(f"must be one of {', '.join(ACTIVATIONS)}, or one of them behind {GATED}")
    return name


Projection = Annotated[str, AfterValidator(_projection)]


class Config(reading.Config):
    """`config.json`."""

    vocab_size: Size
    n_positions: Size = 512
    d_model: Size
    d_kv: Size
    d_ff: Size
    num_layers: Depth
    num_decoder_layers: Depth | None = None
    num_heads: Size
    relative_attention_num_buckets: Size = 32
    relative_attention_max_distance: Size = 128
    layer_norm_epsilon: Epsilon = 1e-6
    feed_forward_proj: Projection = "relu"
    is_gated_act: bool | None = None
    dense_act_fn: Activation | None = None
    """These two hold where they are given, as in the reference library; else `feed_forward_proj` says both."""
    scale_decoder_outputs: bool | None = None
    is_encoder_decoder: Literal[True] = True  # type: ignore[assignment] # the other of two
    irrelevant_keys = frozenset({"dropout_rate", "scalable_attention"})

    @property
    def gated(self) -> bool:
        """Whether feed-forwards are gated."""
        return self.feed_forward_proj.startswith(GATED) if self.is_gated_act is None else self.is_gated_act

    @property
    def activation(self) -> str:
        """The activation of feed-forwards."""
        usual = {f"{GATED}gelu": "gelu_tanh"}.get(self.feed_forward_proj)
        return self.dense_act_fn or usual or ACTIVATIONS[self.feed_forward_proj.removeprefix(GATED)]


class GatedConfig(Config):
    """`config.json` of mT5 and umT5."""

    feed_forward_proj: Projection = "gated-gelu"


@dataclass(frozen=True)
class T5Family(EncoderDecoderFamily[Config]):
    """Encoder-decoders that are told distances."""

    own: bool = False
    """Whether each layer has a table of distances of its own."""
    rescales: bool = True
    """Whether states may be multiplied by 1/√width before logits are made of them."""

    def rescaled(self, config: Config) -> bool:
        """Return whether they are: where the output is the matrix of the embedding, as before version 1.1."""
        said = config.scale_decoder_outputs
        return self.rescales and (config.tie_word_embeddings if said is None else said)

    def sizes(self, config: Config) -> T5Config:
        """Return the definition's sizes."""
        return T5Config(
            config.vocab_size,
            length=config.n_positions,
            width=config.d_model,
            encoder=StackSizes(config.num_layers, config.num_heads, config.d_ff),
            decoder=StackSizes(config.num_decoder_layers or config.num_layers, config.num_heads, config.d_ff),
            activation=config.activation,
            key_width=config.d_kv,
            buckets=config.relative_attention_num_buckets,
            farthest=config.relative_attention_max_distance,
            own=self.own,
            gated=config.gated,
            rescaled=self.rescaled(config),
            epsilon=config.layer_norm_epsilon,
        )

    def compose(self, checkpoint: Checkpoint, config: Config, sizes: T5Config) -> Transformer:
        """Compose the definition. Where states are not rescaled, weights may hold a matrix of the output's own."""
        untied = not sizes.rescaled and "lm_head.weight" in checkpoint.tensors
        return t5(sizes, nn.Linear(sizes.width, sizes.vocabulary, bias=False) if untied else None)

    def head_names(self, config: Config, task: Task) -> Names:
        """Return the name of the output's matrix."""
        return {"lm_head.weight": copy_of("head.weight") if self.rescaled(config) else "head.weight"}

    def body(self, config: Config) -> Names:
        """Return the body's names: feed-forwards have others where they are gated."""
        inside = {"wi_0": "gate", "wi_1": "up", "wo": "output"} if config.gated else {"wi": "0", "wo": "2"}
        names: dict[str, str] = {}
        for side, contexts, parts in (
            ("encoder", "source_contexts", (OWN, FEED_FORWARD)),
            ("decoder", "target_contexts", (OWN, CROSS, FEED_FORWARD)),
        ):
            for place, (their, our) in enumerate(parts):
                path, block = f"{side}.block.{{}}.layer.{place}", f"{side}.blocks.{{}}.{our}"
                tensors = inside if their == FEED_FORWARD[0] else PROJECTIONS
                names |= {f"{path}.{their}.{one}": f"{block}.{name}" for one, name in tensors.items()}
                names[f"{path}.layer_norm"] = f"{block}_norm"
            table = f"{side}.block.{{}}.layer.0.SelfAttention.relative_attention_bias"
            names |= {table: f"{contexts}.biases.{{}}.table", f"{side}.final_layer_norm": f"{side}.norm"}
        return {**names, **SHARED_EMBEDDING}


OWN, CROSS = ("SelfAttention", "attention"), ("EncDecAttention", "cross")
FEED_FORWARD = ("DenseReluDense", "feed_forward")
"""The parts of a block, by their name and ours."""
PROJECTIONS = {"q": "query", "k": "key", "v": "value", "o": "output"}
HEADS: dict[Task, Names] = {"text2text-generation": {}}
UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias",)  # of older checkpoints

T5 = T5Family("t5", Config, {}, HEADS, unused=UNUSED)
MT5 = T5Family("mt5", GatedConfig, {}, HEADS, unused=UNUSED, rescales=False)
UMT5 = T5Family("umt5", GatedConfig, {}, HEADS, unused=UNUSED, own=True)
