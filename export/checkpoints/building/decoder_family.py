"""The base of the families of decoders alone, which continue texts."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeVar

from torch import nn

from contract.manifest import Task
from export.checkpoints.building.family import ExportOptions, Family, made_by
from export.checkpoints.building.tensor_names import Names, copy_of
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Config, Size
from export.checkpoints.reading.generation_config import read_generation
from export.checkpoints.reading.tokenizers.tokenizer import config_prompt, read_tokenizer, text_rule
from export.plan import Source
from export.tasks.generation import text_continuer
from model.architectures.gpt import GPTConfig, gpt


class DecoderConfig(Config):
    """What configurations of decoders have in common."""

    vocab_size: Size


C = TypeVar("C", bound=DecoderConfig)


@dataclass(frozen=True)
class DecoderFamily(Family[C]):
    """A family whose definition is a decoder alone."""

    output_layer: str = "lm_head"
    """The layer over the vocabulary. Its matrix repeats the embedding where the configuration ties them."""

    @abstractmethod
    def sizes(self, config: C) -> GPTConfig:
        """Return the definition's sizes."""

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: C, task: Task) -> Source:
        """Compose the definition, fill it with the checkpoint's tensors, and return the source."""
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

    def head_names(self, config: C, task: Task) -> Names:
        """Return the head's names: its matrix is the embedding's, unless they are not tied."""
        tied = copy_of("embed.tokens.weight") if config.tie_word_embeddings else "head.weight"
        return {**self.heads[task], f"{self.output_layer}.weight": tied}
