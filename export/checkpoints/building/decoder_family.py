"""The base of the families of decoders alone, which continue, embed or classify texts."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import nn

from contract.manifest import Task
from export.checkpoints.building.family import ExportOptions, Family, made_by
from export.checkpoints.building.tensor_names import Names, copy_of
from export.checkpoints.building.text_family import (
    ReadConfig,
    declared_of,
    layers_behind,
    names_behind,
    scores_of,
)
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.generation_config import read_generation
from export.checkpoints.reading.sentence_transformers import check_declaration
from export.checkpoints.reading.tokenizers.tokenizer import config_prompt, read_tokenizer, text_rule
from export.plan import Source
from export.tasks.generation import text_continuer
from export.tasks.text import text_model
from model.architectures.gpt import GPTConfig, gpt, text_reader
from model.parts.heads import Pool


class DecoderConfig(ReadConfig):
    """What configurations of decoders have in common."""


HEADS: Mapping[Task, Names] = {
    "text-generation": {},
    "text-classification": {"score": "head.behind"},
    "feature-extraction": {},
}
"""Names of the tensors of each task's head."""


C = TypeVar("C", bound=DecoderConfig)


@dataclass(frozen=True)
class DecoderFamily(Family[C]):
    """A family whose definition is a decoder alone."""

    heads: Mapping[Task, Names] = field(default_factory=lambda: HEADS)
    output_layer: str = "lm_head"
    """The layer over the vocabulary. Its matrix repeats the embedding where the configuration ties them."""

    @abstractmethod
    def sizes(self, config: C) -> GPTConfig:
        """Return the definition's sizes."""

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: C, task: Task) -> Source:
        """Compose the definition, fill it with the checkpoint's tensors, and return the source."""
        return (self._continuer if task == "text-generation" else self._reader)(checkpoint, options, config, task)

    def _continuer(self, checkpoint: Checkpoint, options: ExportOptions, config: C, task: Task) -> Source:
        """Return the source of a model that continues texts."""
        tokenizer = read_tokenizer(checkpoint, config.vocab_size)
        sizes = self.sizes(config)
        head = None if config.tie_word_embeddings else nn.Linear(sizes.width, sizes.vocabulary, bias=False)
        module, unused = self.fill(gpt(sizes, head), checkpoint, config, task)
        text = text_rule(checkpoint, tokenizer, sizes.length, **config_prompt(checkpoint))
        rules = read_generation(
            checkpoint,
            continues=True,
            vocabulary=config.vocab_size,
            positions=sizes.length,
            ignored=options.ignored,
        )
        before = len(tokenizer.encode(text.prompt, add_special_tokens=False).ids)
        # lengths of a text with its continuation leave the prompt out
        lengths = {"default_length": rules.default_length, "min_length": rules.min_length}
        return text_continuer(
            options.name,
            module,
            sizes,
            family=self.model_type,
            text=text,
            tokenizer=tokenizer.to_str(pretty=True),
            rules=rules.model_copy(update={name: length + before for name, length in lengths.items() if length}),
            made_by=made_by(self.model_type, sizes, checkpoint, unused),
        )

    def _reader(self, checkpoint: Checkpoint, options: ExportOptions, config: C, task: Task) -> Source:
        """Return the source of a model that embeds or classifies texts: the last token has seen all of them."""
        declared, sizes = declared_of(checkpoint, config, task), self.sizes(config)
        tokenizer = read_tokenizer(checkpoint, config.vocab_size, lower_case=declared.lower_case)
        more: dict[str, Any] = {}
        if task == "feature-extraction":
            head = Pool(declared.pooling, nn.Sequential(*layers_behind(sizes.width, declared)))
        else:
            check_declaration(checkpoint)
            head = Pool("last", nn.Linear(sizes.width, len(config.labels), bias=False))
            more = {"labels": config.labels, "scores": scores_of(checkpoint, config)}
        text = text_rule(
            checkpoint,
            tokenizer,
            sizes.length,
            declared.max_tokens,
            prompts=declared.prompts,
            default_prompt=declared.default_prompt,
        )
        checkpoint = checkpoint.with_folders(layer.path for layer in declared.layers)
        module, unused = self.fill(gpt(sizes, head), checkpoint, config, task, names_behind(declared))
        cut = {"truncate_dim": declared.dimensions} if declared.dimensions else {}
        return text_model(
            options.name,
            text_reader(module, sizes),
            sizes,
            family=self.model_type,
            task=task,
            text=text,
            tokenizer=tokenizer.to_str(pretty=True),
            made_by=made_by(self.model_type, sizes, checkpoint, unused) | cut,
            **more,
        )

    def head_names(self, config: C, task: Task) -> Names:
        """Return the head's names: its matrix is the embedding's, unless they are not tied."""
        if task != "text-generation":
            return self.heads[task]
        tied = copy_of("embed.tokens.weight") if config.tie_word_embeddings else "head.weight"
        return {**self.heads[task], f"{self.output_layer}.weight": tied}
