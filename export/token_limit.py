"""The most tokens of a text that a model is exported for: as many as are asked for, or else no more than usual."""

import dataclasses

from tokenizers import Tokenizer

from contract.input_rules import TextRule
from export.checkpoints.reading.tokenizers.tokenizer import check_text_fits
from export.errors import CheckpointError
from export.plan import Source

USUAL_MAX_TOKENS = 2048
"""Where the command does not say: what is verified grows with the square of it, and few texts are longer."""


def with_max_tokens(source: Source, asked: int | None) -> Source:
    """Return a source whose texts, and what it generates, have at most as many tokens as are asked for.

    Its tokenizer, its positions or its settings may allow fewer. Raises CheckpointError if it reads no text, or if so
    few leave no room for one.
    """
    if source.partner:  # which reads the texts
        return dataclasses.replace(source, partner=with_max_tokens(source.partner, asked))
    if source.text is None:
        if asked is not None:
            raise CheckpointError("--max-tokens: is for models that read text")
        return source
    most = asked or USUAL_MAX_TOKENS
    if source.text.filled and most < source.text.max_tokens:
        raise CheckpointError(
            f"--max-tokens: must be {source.text.max_tokens} or more, since texts are filled up to that, given {most}"
        )
    text = source.text.model_copy(update={"max_tokens": min(source.text.max_tokens, most)})
    if source.tokenizer:
        check_text_fits(text, Tokenizer.from_str(source.tokenizer), "--max-tokens")
    generation = source.generation and source.generation.model_copy(
        update={
            name: min(given, most)
            for name in ("max_new_tokens", "default_new_tokens", "default_length", "min_new_tokens", "min_length")
            if (given := getattr(source.generation, name)) is not None
        }
    )
    lengths = {"source": text.max_tokens, "target": most, "capacity": most}
    longest = source.verified_longest and {
        axis: min(size, lengths.get(axis, size)) for axis, size in source.verified_longest.items()
    }
    inputs = tuple(text if isinstance(one, TextRule) else one for one in source.inputs)
    return dataclasses.replace(source, inputs=inputs, generation=generation, verified_longest=longest)
