"""Families of text encoders: what a BERT's checkpoint needs beyond its names."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeVar

from tokenizers import Tokenizer
from torch import nn

from contract.manifest import Task, TextRule
from export.checkpoints.checkpoint import Checkpoint
from export.checkpoints.family import Config, Family, Index, Size, Wish, made_by
from export.checkpoints.sentence_transformers import DECLARED, Sentences, sentences
from export.checkpoints.tensor_names import Names, copy_of, spare
from export.checkpoints.tokenizers.tokenizer import longest, of_checkpoint, special
from export.errors import CheckpointError
from export.plan import Source
from export.tasks.text import text_model
from model.heads import FirstClassifier, MaskedWords, Pool, Unit
from model.layers import ACTIVATIONS
from model.text_encoder import TextEncoderConfig, text_encoder


class TextConfig(Config):
    """What configurations of text encoders have in common."""

    vocab_size: Size
    max_position_embeddings: Size = 512
    pad_token_id: Index | None = None
    position_embedding_type: Literal["absolute"] = "absolute"
    sbert_ce_default_activation_function: Literal["torch.nn.modules.activation.Sigmoid"] | None = None


MASKS = ("[MASK]", "<mask>")
"""What mask tokens are called where nothing is said."""

C = TypeVar("C", bound=TextConfig)


@dataclass(frozen=True)
class TextFamily(Family[C]):
    """A family whose definition is a text encoder."""

    words: str = ""
    """The layer over the vocabulary, whose matrix repeats the embedding unless the configuration unties it."""
    bias: str = ""
    """What that layer's bias repeats, unless they are untied."""
    classified: str = "tanh"
    """Activation of the layer before the classifier."""
    filled: str | None = None
    """Activation of the layer before the vocabulary; the configuration's by default."""

    @abstractmethod
    def sizes(self, config: C) -> TextEncoderConfig:
        """Return the definition's sizes."""

    def head_names(self, config: C, task: Task) -> Names:
        """Return a head's names."""
        if task != "fill-mask":
            return self.heads[task]
        if not config.tie_word_embeddings:
            return {**self.heads[task], self.bias: spare("head.output.bias"), self.words: "head.output"}
        repeated = {
            f"{self.words}.weight": copy_of("embed.tokens.weight"),
            f"{self.words}.bias": copy_of("head.output.bias"),
        }
        return {**self.heads[task], **repeated, self.bias: "head.output.bias"}

    def build(self, checkpoint: Checkpoint, wish: Wish, config: C, task: Task) -> Source:
        """Compose the definition, fill it, and say what is to be exported."""
        declared = sentences(checkpoint) if task == "feature-extraction" else Sentences()
        tokenizer = of_checkpoint(checkpoint, config.vocab_size, lower_case=declared.lower_case)
        sizes = self.sizes(config)
        module = text_encoder(sizes, self._head(config, sizes, task, declared))
        if isinstance(module.head, MaskedWords) and config.tie_word_embeddings:
            module.head.output.weight = module.embed.tokens.weight
        if task == "text-classification":
            _check_pairs(checkpoint, tokenizer, sizes)
        module, aside = self.fill(module, checkpoint, config, task)
        return text_model(
            wish.name,
            module,
            sizes,
            family=self.model_type,
            task=task,
            text=TextRule(
                tokenizer="tokenizer.json",
                max_tokens=longest(checkpoint, sizes.length, declared.max_tokens),
                mask=special(checkpoint, tokenizer, "mask_token", MASKS) if task == "fill-mask" else None,
            ),
            tokenizer=tokenizer.to_str(pretty=True),
            labels=config.labels if task == "text-classification" else (),
            scores=config.scores if task.endswith("classification") else "softmax",
            made_by=made_by(self.model_type, sizes, checkpoint, aside),
        )

    def _head(self, config: C, sizes: TextEncoderConfig, task: Task, declared: Sentences) -> nn.Module:
        if task == "feature-extraction":
            return Pool(declared.pooling, Unit() if declared.unit else nn.Identity())
        if task == "text-classification":
            return FirstClassifier(sizes.width, len(config.labels), ACTIVATIONS[self.classified]())
        activation = ACTIVATIONS[self.filled or sizes.activation]()
        return MaskedWords(sizes.width, sizes.vocabulary, activation, nn.LayerNorm(sizes.width, eps=sizes.epsilon))


def _check_pairs(checkpoint: Checkpoint, tokenizer: Tokenizer, sizes: TextEncoderConfig) -> None:
    """Refuse a classifier of pairs that answers otherwise than by sigmoid, or whose tokenizer it has no types for."""
    activation = checkpoint.json(DECLARED).get("activation_fn")
    if activation not in (None, "torch.nn.modules.activation.Sigmoid"):
        raise CheckpointError(f"{DECLARED}: activation_fn must be Sigmoid, given {str(activation)[:64]!r}")
    types = max(tokenizer.encode("a", "b").type_ids, default=0)
    if sizes.types and types >= sizes.types:
        raise CheckpointError(f"tokenizer.json: gives a second text type {types}, but type_vocab_size is {sizes.types}")
