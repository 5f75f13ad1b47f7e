"""The base of the families of text encoders: configuration, heads and tokenizer of a BERT's checkpoint."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from tokenizers import Tokenizer
from torch import nn

from contract.manifest import Scores, Task
from export.checkpoints.building.family import ExportOptions, Family, made_by
from export.checkpoints.building.tensor_names import Names, copy_of, spare
from export.checkpoints.reading.checkpoint import CONFIG, Checkpoint
from export.checkpoints.reading.config import Config, Index, Size
from export.checkpoints.reading.sentence_transformers import (
    DECLARATION_FILE,
    SentenceSettings,
    check_declaration,
    read_sentence_settings,
    read_sparse_settings,
)
from export.checkpoints.reading.tokenizers.tokenizer import (
    TOKENIZER_FILE,
    of_one_type,
    read_tokenizer,
    sends_types,
    text_rule,
)
from export.checkpoints.reading.tokenizers.vocabulary_files import SETTINGS_FILE
from export.errors import CheckpointError
from export.plan import Source
from export.tasks.text import TEXT_TASKS, text_model
from model.architectures.text_encoder import TextEncoderConfig, text_encoder
from model.parts.feed_forward import ACTIVATIONS
from model.parts.heads import (
    Cut,
    Dense,
    EachLinear,
    FirstClassifier,
    MaskedWords,
    Pool,
    SparseWords,
    Unit,
    WordParts,
    Words,
    word_parts,
)


class ReadConfig(Config):
    """What configurations of models that read texts have in common."""

    vocab_size: Size
    sentence_transformers: dict[str, Any] | None = None
    sbert_ce_default_activation_function: str | None = None


class TextConfig(ReadConfig):
    """What configurations of text encoders have in common."""

    max_position_embeddings: Size = 512
    pad_token_id: Index | None = None
    position_embedding_type: Literal["absolute"] = "absolute"


ENDS = 2
"""Logits of a token in an answer: that it is the first of it, and the last."""
CROSS_ENCODER_ACTIVATIONS: dict[str, Scores] = {
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.modules.linear.Identity": "identity",
}
"""Activation that a cross-encoder of sentence-transformers declares -> how its logits are answered."""

C = TypeVar("C", bound=TextConfig)

EMBEDDING_NAMES: Names = {
    "embeddings.word_embeddings": "embed.tokens",
    "embeddings.position_embeddings": "embed.positions",
    "embeddings.LayerNorm": "embed.norm",
}


def of_words(names: Names) -> dict[Task, Names]:
    """Return the heads of the tasks whose last layer is over the vocabulary: they have the same tensors."""
    return {task: names for task, one in TEXT_TASKS.items() if one.of_words}


@dataclass(frozen=True)
class TextFamily(Family[C]):
    """A family whose definition is a text encoder."""

    output_layer: str = ""
    """The layer over the vocabulary. Its matrix repeats the embedding unless the configuration unties them."""
    output_bias: str = ""
    """The bias of that layer, which the layer itself repeats unless they are untied."""
    classifier_activation: str = "tanh"
    """The activation before the classifier."""
    mask_activation: str | None = None
    """The activation before the layer over the vocabulary; by default the configuration's."""

    @abstractmethod
    def sizes(self, config: C) -> TextEncoderConfig:
        """Return the definition's sizes."""

    def head_names(self, config: C, task: Task) -> Names:
        """Return a head's names."""
        if not TEXT_TASKS[task].of_words:
            return self.heads[task]
        if not config.tie_word_embeddings:
            return {**self.heads[task], self.output_bias: spare("head.output.bias"), self.output_layer: "head.output"}
        repeated = {
            f"{self.output_layer}.weight": copy_of("embed.tokens.weight"),
            f"{self.output_layer}.bias": copy_of("head.output.bias"),
        }
        return {**self.heads[task], **repeated, self.output_bias: "head.output.bias"}

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: C, task: Task) -> Source:
        """Compose the definition, fill it with the checkpoint's tensors, and return the source."""
        declared = declared_of(checkpoint, config, task)
        tokenizer = read_tokenizer(checkpoint, config.vocab_size, lower_case=declared.lower_case)
        sizes = self.sizes(config)
        if sizes.types and not sends_types(checkpoint):
            tokenizer = of_one_type(tokenizer)
        module = text_encoder(sizes, self._head(config, sizes, task, declared))
        if isinstance(module.head, Words) and config.tie_word_embeddings:
            module.head.output.weight = module.embed.tokens.weight
        labelled, takes_pairs = TEXT_TASKS[task].labelled, TEXT_TASKS[task].takes_pairs
        if takes_pairs:
            check_declaration(checkpoint)
            _check_pairs(tokenizer, sizes)
        text = text_rule(
            checkpoint,
            tokenizer,
            sizes.length,
            declared.max_tokens,
            prompts=declared.prompts,
            default_prompt=declared.default_prompt,
        )
        if TEXT_TASKS[task].places and text.mask is None:
            raise CheckpointError(f"{SETTINGS_FILE}: must name a mask_token that {TOKENIZER_FILE} holds")
        checkpoint = checkpoint.with_folders(layer.path for layer in declared.layers)
        module, unused = self.fill(module, checkpoint, config, task, names_behind(declared))
        more: dict[str, Any] = {"truncate_dim": declared.dimensions} if declared.dimensions else {}
        if isinstance(module.head, SparseWords):
            more = {"pooling": module.head.pooling, "logarithms": module.head.logs}
        return text_model(
            options.name,
            module,
            sizes,
            family=self.model_type,
            task=task,
            text=text,
            tokenizer=tokenizer.to_str(pretty=True),
            labels=config.labels if labelled else (),
            scores=scores_of(checkpoint, config) if labelled and takes_pairs else TEXT_TASKS[task].scores,
            made_by=made_by(self.model_type, sizes, checkpoint, unused) | more,
        )

    def _head(self, config: C, sizes: TextEncoderConfig, task: Task, declared: SentenceSettings) -> nn.Module:
        if TEXT_TASKS[task].every_token:
            return self.tagger(config, sizes, len(config.labels) if TEXT_TASKS[task].labelled else ENDS)
        if TEXT_TASKS[task].labelled:
            return self.classifier(config, sizes)
        if not TEXT_TASKS[task].of_words:
            return Pool(declared.pooling, nn.Sequential(*layers_behind(sizes.width, declared)))
        parts, words = self.word_parts(config, sizes), declared.words
        return MaskedWords(parts) if TEXT_TASKS[task].places else SparseWords(parts, words.pooling, words.logs)

    def classifier(self, config: C, sizes: TextEncoderConfig) -> nn.Module:
        """Compose the head that classifies texts."""
        return FirstClassifier(sizes.width, len(config.labels), ACTIVATIONS[self.classifier_activation]())

    def tagger(self, config: C, sizes: TextEncoderConfig, classes: int) -> nn.Module:
        """Compose the head that classifies tokens."""
        return EachLinear(sizes.width, classes)

    def word_parts(self, config: C, sizes: TextEncoderConfig) -> WordParts:
        """Compose the parts of a head over the vocabulary."""
        width = sizes.embedding or sizes.width
        activation, norm = ACTIVATIONS[self.mask_activation or sizes.activation](), nn.LayerNorm(width, sizes.epsilon)
        return word_parts(sizes.width, sizes.vocabulary, activation, norm, width)


def declared_of(checkpoint: Checkpoint, config: ReadConfig, task: Task) -> SentenceSettings:
    """Return what a folder of sentence-transformers declares of a task."""
    if task == "sparse-embedding":
        return read_sparse_settings(checkpoint, config.vocab_size)
    return read_sentence_settings(checkpoint) if task == "feature-extraction" else SentenceSettings()


def layers_behind(width: int, declared: SentenceSettings) -> list[nn.Module]:
    """Return what is behind pooling to a width. Raises CheckpointError for a layer that takes another."""
    made: list[nn.Module] = []
    for layer in declared.behind:
        if layer == "unit":
            made.append(Unit())
            continue
        if layer.inputs != width:
            raise CheckpointError(f"{layer.path}/config.json: in_features must be {width}, given {layer.inputs}")
        activation = nn.Identity() if layer.activation == "identity" else ACTIVATIONS[layer.activation]()
        made.append(Dense(width, layer.outputs, activation, bias=layer.bias, residual=layer.residual))
        width = layer.outputs
    return made if declared.dimensions is None else [*made, Cut(min(width, declared.dimensions))]


def names_behind(declared: SentenceSettings) -> Names:
    """Return the names of the tensors behind pooling, each in its own folder."""
    layers = [(one.path, place) for place, one in enumerate(declared.behind) if one != "unit"]
    parts = ("linear", "residual")
    return {f"{path}/{part}": f"head.behind.{place}.{part}" for path, place in layers for part in parts}


def scores_of(checkpoint: Checkpoint, config: ReadConfig) -> Scores:
    """Return how logits are answered: as a cross-encoder of sentence-transformers declares, or as the configuration.

    Its Sigmoid holds for each label. Its Identity is the logit itself if there is one label; several are a softmax, as
    of every classifier. Raises CheckpointError for another activation.
    """
    declared = (
        (DECLARATION_FILE, "activation_fn", checkpoint.json(DECLARATION_FILE).get("activation_fn")),
        (CONFIG, "sentence_transformers.activation_fn", (config.sentence_transformers or {}).get("activation_fn")),
        (CONFIG, "sbert_ce_default_activation_function", config.sbert_ce_default_activation_function),
    )
    for file, key, activation in declared:
        if activation is None:
            continue
        if activation not in CROSS_ENCODER_ACTIVATIONS:
            raise CheckpointError(f"{file}: {key} must be Sigmoid or Identity, given {str(activation)[:64]!r}")
        if CROSS_ENCODER_ACTIVATIONS[activation] == "sigmoid" or len(config.labels) == 1:
            return CROSS_ENCODER_ACTIVATIONS[activation]
        break
    return config.scores


def _check_pairs(tokenizer: Tokenizer, sizes: TextEncoderConfig) -> None:
    """Raise CheckpointError for a tokenizer with types of texts that the model lacks."""
    types = max(tokenizer.encode("a", "b").type_ids, default=0)
    if sizes.types and types >= sizes.types:
        raise CheckpointError(f"tokenizer.json: gives a second text type {types}, but type_vocab_size is {sizes.types}")
