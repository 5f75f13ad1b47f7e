"""The bases of the families of encoder-decoders: of all, and of those that are configured as BART."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from contract.generation import Generation, Languages
from contract.manifest import Task
from export.checkpoints.building.family import ExportOptions, Family, made_by
from export.checkpoints.building.tensor_names import Names, copy_of
from export.checkpoints.reading.checkpoint import CONFIG, Checkpoint
from export.checkpoints.reading.config import Activation, Depth, Size
from export.checkpoints.reading.config import Config as BaseConfig
from export.checkpoints.reading.generation_config import read_generation
from export.checkpoints.reading.tokenizers.tokenizer import config_prompt, read_tokenizer, special_token, text_rule
from export.errors import CheckpointError
from export.plan import Source
from export.tasks.generation import text_to_text
from export.tasks.text import sequence_classifier
from model.architectures.transformer import Transformer, TransformerConfig, bart
from model.parts.stacks import POST_NORM, PRE_NORM, StackSizes

USUAL_START = 2
"""The `decoder_start_token_id` of a BartConfig that does not say it."""


class SequenceConfig(BaseConfig):
    """`config.json` of BART and those like it."""

    vocab_size: Size
    max_position_embeddings: Size = 1024
    d_model: Size = 1024
    encoder_layers: Depth = 12
    encoder_attention_heads: Size = 16
    encoder_ffn_dim: Size = 4096
    decoder_layers: Depth = 12
    decoder_attention_heads: Size = 16
    decoder_ffn_dim: Size = 4096
    activation_function: Activation = "gelu"
    scale_embedding: bool = False
    normalize_before: bool = False
    add_final_layer_norm: bool = False
    normalize_embedding: bool | None = None
    static_position_embeddings: bool | None = None
    extra_pos_embeddings: Literal[0, 2] | None = None
    add_bias_logits: Literal[False] = False
    do_blenderbot_90_layernorm: Literal[False] = False
    is_encoder_decoder: Literal[True] = True  # type: ignore[assignment] # the other of two
    force_bos_token_to_be_generated: bool | None = False
    """Of older checkpoints; `read_generation` reads it."""
    decoder_start_token_id: int | None = None
    """Of classifiers; `read_generation` reads that of others."""
    irrelevant_keys = frozenset({"num_hidden_layers", "max_length", "classif_dropout"})


class PreNormConfig(SequenceConfig):
    """`config.json` of encoder-decoders that normalise before each branch and behind each stack."""

    normalize_before: Literal[True] = True
    add_final_layer_norm: Literal[True] = True


G = TypeVar("G", bound=BaseConfig)
C = TypeVar("C", bound=SequenceConfig)


@dataclass(frozen=True)
class EncoderDecoderFamily(Family[G]):
    """A family whose definition is an encoder-decoder that writes a text."""

    @abstractmethod
    def sizes(self, config: G) -> TransformerConfig:
        """Return the definition's sizes."""

    @abstractmethod
    def compose(self, checkpoint: Checkpoint, config: G, sizes: Any) -> Transformer:  # noqa: ANN401 # those that `sizes` returns
        """Compose the definition, with the layer that makes logits."""

    def tokenizers(self, checkpoint: Checkpoint, sizes: TransformerConfig) -> tuple[str, str | None]:
        """Return the tokenizer of sources, and that of targets if it is another."""
        return read_tokenizer(checkpoint, sizes.vocabulary).to_str(pretty=True), None

    def languages(self, checkpoint: Checkpoint, tokenizer: Tokenizer, rules: Generation) -> Languages | None:
        """Return the languages of a model that translates among several."""
        return None

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: G, task: Task) -> Source:
        """Compose the definition, fill it with the checkpoint's tensors, and return the source."""
        sizes = self.sizes(config)
        tokenizer, target_tokenizer = self.tokenizers(checkpoint, sizes)
        rules = read_generation(
            checkpoint,
            continues=False,
            vocabulary=sizes.target_vocabulary or sizes.vocabulary,
            positions=sizes.length,
            ignored=options.ignored,
        )
        own = Tokenizer.from_str(target_tokenizer or tokenizer)
        told = {
            "padding": special_token(checkpoint, own, "pad_token"),
            "languages": self.languages(checkpoint, own, rules),
        }
        module, unused = self.fill(self.compose(checkpoint, config, sizes), checkpoint, config, task)
        return text_to_text(
            options.name,
            module,
            sizes,
            family=self.model_type,
            text=text_rule(checkpoint, Tokenizer.from_str(tokenizer), sizes.length, **config_prompt(checkpoint)),
            tokenizer=tokenizer,
            target_tokenizer=target_tokenizer,
            rules=rules.model_copy(update=told),
            made_by=made_by(self.model_type, sizes, checkpoint, unused),
        )


@dataclass(frozen=True)
class SequenceFamily(EncoderDecoderFamily[C]):
    """A family that is configured as BART."""

    definition: Callable[..., Transformer] = bart
    """Composes the definition of its sizes, its wiring, the scale of embeddings and an output layer."""
    sinusoids: bool = False
    """True if positions are sinusoids and embeddings have no norm."""

    def body(self, config: C) -> Names:
        """Return the body's names: one table of embeddings for both sides, or one for each."""
        tables = SHARED_EMBEDDING if self.sizes(config).target_vocabulary is None else SEPARATE_EMBEDDINGS
        return {**self.names, **tables}

    def head_names(self, config: C, task: Task) -> Names:
        """Return the head's names: its matrix is the targets' embedding, unless they are not tied."""
        if task == "text-classification":
            return self.heads[task]
        tied = config.tie_word_embeddings
        return {**self.heads[task], "lm_head.weight": copy_of("head.weight") if tied else "head.weight"}

    def adapt(self, config: C, module: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Set the bias of the logits, if there is one, to zero if the checkpoint has none."""
        bias = dict(module.named_parameters()).get("head.bias")
        return tensors if bias is None else {"head.bias": torch.zeros_like(bias), **tensors}

    def sizes(self, config: C) -> TransformerConfig:
        """Return the definition's sizes, after checking what it has."""
        own = {"normalize_embedding": not self.sinusoids, "static_position_embeddings": self.sinusoids}
        for key, wanted in own.items():
            if getattr(config, key) not in (None, wanted):
                raise ValueError(f"config.json: {key} must be {str(wanted).lower()} for {self.model_type}")
        if config.add_final_layer_norm != config.normalize_before:
            raise ValueError("config.json: add_final_layer_norm must be as normalize_before")
        return TransformerConfig(
            config.vocab_size,
            length=config.max_position_embeddings,
            width=config.d_model,
            encoder=StackSizes(config.encoder_layers, config.encoder_attention_heads, config.encoder_ffn_dim),
            decoder=StackSizes(config.decoder_layers, config.decoder_attention_heads, config.decoder_ffn_dim),
            activation=config.activation_function,
        )

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: C, task: Task) -> Source:
        """Return the source of a classifier, or of what writes a text."""
        if task == "text-classification":
            return self._classifier(checkpoint, options, config)
        return super().build(checkpoint, options, config, task)

    def compose(self, checkpoint: Checkpoint, config: C, sizes: TransformerConfig) -> Transformer:
        """Compose the definition, with the layer that makes logits."""
        targets = sizes.target_vocabulary or sizes.vocabulary
        return self._composed(config, sizes, None if config.tie_word_embeddings else nn.Linear(sizes.width, targets))

    def _composed(self, config: C, sizes: TransformerConfig, head: nn.Module | None) -> Transformer:
        wiring = PRE_NORM if config.normalize_before else POST_NORM
        scale = sizes.width**0.5 if config.scale_embedding else 1.0
        return self.definition(sizes, wiring, scale=scale, head=head)

    def _classifier(self, checkpoint: Checkpoint, options: ExportOptions, config: C) -> Source:
        """Compose and fill a classifier, which reads a text on both sides."""
        sizes = self.sizes(config)
        tokenizer, _ = self.tokenizers(checkpoint, sizes)
        width = sizes.width
        head = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, len(config.labels)))
        module, unused = self.fill(self._composed(config, sizes, head), checkpoint, config, "text-classification")
        rule = text_rule(checkpoint, Tokenizer.from_str(tokenizer), sizes.length)
        return sequence_classifier(
            options.name,
            module,
            sizes,
            family=self.model_type,
            text=rule.model_copy(update={"decoder_start": self._start(config)}),
            tokenizer=tokenizer,
            labels=config.labels,
            scores=config.scores,
            made_by=made_by(self.model_type, sizes, checkpoint, unused),
        )

    @staticmethod
    def _start(config: C) -> int:
        """Return the token before the text in a classifier's decoder. Raises CheckpointError for one out of range."""
        start = USUAL_START if config.decoder_start_token_id is None else config.decoder_start_token_id
        if not 0 <= start < config.vocab_size:
            most = config.vocab_size - 1
            raise CheckpointError(f"{CONFIG}: decoder_start_token_id must be from 0 to {most}, given {start}")
        return start


def stack_names() -> Names:
    """Return the names of the blocks of encoder and decoder."""
    names: dict[str, str] = {}
    for stack in ("encoder", "decoder"):
        theirs, ours = f"{stack}.layers.{{}}", f"{stack}.blocks.{{}}"
        attentions = {"self_attn": "attention"} | ({"encoder_attn": "cross"} if stack == "decoder" else {})
        for their, our in attentions.items():
            for part, name in (("q", "query"), ("k", "key"), ("v", "value"), ("out", "output")):
                names[f"{theirs}.{their}.{part}_proj"] = f"{ours}.{our}.{name}"
            names[f"{theirs}.{their}_layer_norm"] = f"{ours}.{our}_norm"
        names |= {
            f"{theirs}.fc1": f"{ours}.feed_forward.0",
            f"{theirs}.fc2": f"{ours}.feed_forward.2",
            f"{theirs}.final_layer_norm": f"{ours}.feed_forward_norm",
            f"{stack}.layer_norm": f"{stack}.norm",
        }
    return names


SHARED_EMBEDDING: Names = {
    "shared": "source.tokens",
    "encoder.embed_tokens": copy_of("source.tokens"),
    "decoder.embed_tokens": copy_of("target.tokens"),
}


SEPARATE_EMBEDDINGS: Names = {"encoder.embed_tokens": "source.tokens", "decoder.embed_tokens": "target.tokens"}
