"""The base of the families of decoders alone, which continue, embed or classify texts."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from tokenizers import Tokenizer
from torch import nn

from contract.chat import PairForm
from contract.input_rules import TextRule
from contract.manifest import Task
from export.checkpoints.building.family import ExportOptions, Family, made_by
from export.checkpoints.building.tensor_names import Names, copy_of
from export.checkpoints.building.text_family import (
    ReadConfig,
    layers_behind,
    names_behind,
    scores_of,
)
from export.checkpoints.reading.checkpoint import CONFIG, Checkpoint
from export.checkpoints.reading.generation_config import read_generation
from export.checkpoints.reading.ranking import declared_form, ranks_by_words, read_ranking
from export.checkpoints.reading.sentence_transformers import check_declaration, read_sentence_settings
from export.checkpoints.reading.tokenizers.tokenizer import check_text_fits, config_prompt, read_tokenizer, text_rule
from export.errors import CheckpointError
from export.plan import Source
from export.tasks.generation import text_continuer
from export.tasks.text import text_model
from model.architectures.gpt import GPT, GPTConfig, gpt, text_reader
from model.parts.heads import Pool


class DecoderConfig(ReadConfig):
    """What configurations of decoders have in common."""

    is_causal: bool = True

    @property
    def sees_all(self) -> bool:
        """Return whether tokens see those behind them, too."""
        return not self.is_causal


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
    output_bias: bool = False
    """True if it has a bias, where they are not tied."""

    @abstractmethod
    def sizes(self, config: C) -> GPTConfig:
        """Return the definition's sizes."""

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: C, task: Task) -> Source:
        """Compose the definition, fill it with the checkpoint's tensors, and return the source."""
        ranks = task == "text-classification" and ranks_by_words(checkpoint)
        if config.sees_all and (ranks or task == "text-generation"):
            raise CheckpointError(f"{CONFIG}: tokens must not see those behind them (is_causal), to be continued")
        if task == "text-generation":
            return self._continuer(checkpoint, options, config)
        if task == "feature-extraction":
            return self._embedder(checkpoint, options, config)
        return (self._ranker if ranks else self._classifier)(checkpoint, options, config)

    def _continuer(self, checkpoint: Checkpoint, options: ExportOptions, config: C) -> Source:
        """Return the source of a model that continues texts."""
        tokenizer = read_tokenizer(checkpoint, config.vocab_size)
        sizes = self.sizes(config)
        module, unused = self._of_words(checkpoint, config, sizes)
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

    def _of_words(self, checkpoint: Checkpoint, config: C, sizes: GPTConfig) -> tuple[GPT, list[str]]:
        """Return the definition with its layer over the vocabulary, and the names of unused tensors."""
        head = None if config.tie_word_embeddings else nn.Linear(sizes.width, sizes.vocabulary, self.output_bias)
        return self.fill(gpt(sizes, head), checkpoint, config, "text-generation")

    def _embedder(self, checkpoint: Checkpoint, options: ExportOptions, config: C) -> Source:
        """Return the source of a model that embeds texts."""
        declared, sizes = read_sentence_settings(checkpoint), self.sizes(config)
        tokenizer = read_tokenizer(checkpoint, config.vocab_size, lower_case=declared.lower_case)
        text = text_rule(
            checkpoint,
            tokenizer,
            sizes.length,
            declared.max_tokens,
            prompts=declared.prompts,
            default_prompt=declared.default_prompt,
        )
        checkpoint = checkpoint.with_folders(layer.path for layer in declared.layers)
        head = Pool(declared.pooling, nn.Sequential(*layers_behind(sizes.width, declared)))
        module, unused = self.fill(gpt(sizes, head), checkpoint, config, "feature-extraction", names_behind(declared))
        more = {"truncate_dim": declared.dimensions} if declared.dimensions else {}
        made = made_by(self.model_type, sizes, checkpoint, unused) | more
        return self._reader(options, config, module, sizes, text, tokenizer, made)

    def _classifier(self, checkpoint: Checkpoint, options: ExportOptions, config: C) -> Source:
        """Return the source of a model that classifies texts by the last token, which has seen all of them."""
        form = declared_form(checkpoint)
        if form is None:
            check_declaration(checkpoint)
        sizes, tokenizer = self.sizes(config), read_tokenizer(checkpoint, config.vocab_size)
        last = [*tokenizer.encode("a").ids, None][-2]
        if last is not None and last == checkpoint.config.get("pad_token_id"):
            raise CheckpointError(f"{CONFIG}: pad_token_id must not be the token that ends texts, which answers")
        head = Pool("last", nn.Linear(sizes.width, len(config.labels), bias=False))
        module, unused = self.fill(gpt(sizes, head), checkpoint, config, "text-classification")
        text = _around_pairs(text_rule(checkpoint, tokenizer, sizes.length), form, tokenizer)
        made, scores = made_by(self.model_type, sizes, checkpoint, unused), scores_of(checkpoint, config)
        return self._reader(options, config, module, sizes, text, tokenizer, made, labels=config.labels, scores=scores)

    def _ranker(self, checkpoint: Checkpoint, options: ExportOptions, config: C) -> Source:
        """Return the source of a model that ranks texts: by the logit of yes less that of no, at the last token."""
        sizes, tokenizer = self.sizes(config), read_tokenizer(checkpoint, config.vocab_size)
        ranking = read_ranking(checkpoint, tokenizer, config.vocab_size)
        text = text_rule(checkpoint, tokenizer, sizes.length, ranking.max_tokens)
        text = _around_pairs(text, ranking.form, tokenizer)
        module, unused = self._of_words(checkpoint, config, sizes)
        words = module.get_submodule("head").get_parameter("weight").detach().double()
        score = nn.Linear(sizes.width, 1, bias=False)
        with torch.no_grad():
            score.weight.copy_(words[ranking.true] - (0 if ranking.false is None else words[ranking.false]))
        module.head = Pool("last", score)
        asked = {"true_token": ranking.true, "false_token": ranking.false}
        more = {name: token for name, token in asked.items() if token is not None}
        made = made_by(self.model_type, sizes, checkpoint, unused) | more
        labels = {"id2label": {"0": tokenizer.decode([ranking.true]).strip() or "yes"}, "num_labels": 1}
        config = config.model_copy(update=labels)
        scores = scores_of(checkpoint, config)
        return self._reader(options, config, module, sizes, text, tokenizer, made, labels=config.labels, scores=scores)

    def _reader(
        self,
        options: ExportOptions,
        config: C,
        module: GPT,
        sizes: GPTConfig,
        text: TextRule,
        tokenizer: Tokenizer,
        made: dict[str, Any],
        **classes: Any,  # noqa: ANN401 # those of text_model
    ) -> Source:
        """Return the source of a model whose head answers of a whole text: by classes, or a vector."""
        return text_model(
            options.name,
            text_reader(module.eval(), sizes.around() if config.sees_all else sizes.before()),
            sizes,
            family=self.model_type,
            task="text-classification" if classes else "feature-extraction",
            text=text,
            tokenizer=tokenizer.to_str(pretty=True),
            made_by=made,
            **classes,
        )

    def head_names(self, config: C, task: Task) -> Names:
        """Return the head's names: its matrix is the embedding's, unless they are not tied."""
        if task != "text-generation":
            return self.heads[task]
        tied = copy_of("embed.tokens.weight") if config.tie_word_embeddings else "head.weight"
        return {**self.heads[task], f"{self.output_layer}.weight": tied}


def _around_pairs(rule: TextRule, form: PairForm | None, tokenizer: Tokenizer) -> TextRule:
    """Return a rule with the form of pairs, if there is one. Raises CheckpointError if that leaves no room for any."""
    rule = rule.model_copy(update={"pair": form})
    check_text_fits(rule, tokenizer, "the text around a query and a document")
    return rule
