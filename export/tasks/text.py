"""The plan of a text encoder: it classifies texts or tokens, embeds texts, weighs words, fills gaps, finds answers."""

from dataclasses import dataclass
from typing import Any, Literal

from tokenizers import Tokenizer
from torch import nn

from contract.input_rules import TextRule
from contract.manifest import ANSWERED, Scores, Task
from export.plan import Source, UpperBounds
from export.tasks.generation import VERIFIED_ANSWERS, transformer_base
from export.tasks.ports import (
    MAX_VERIFIED_TOKENS,
    answer_port,
    base_plan,
    derived_plans,
    encoder_kind,
    token_port,
    visible_port,
)
from export.traced.texts import TracedTextEncoder
from model.architectures.gpt import GPTConfig
from model.architectures.text_encoder import TextEncoder, TextEncoderConfig
from model.architectures.transformer import Transformer, TransformerConfig
from model.parts.heads import EachThen, Pool, SparseWords, first_state, last_state


@dataclass(frozen=True)
class TextTask:
    """What is particular to a task of text encoders."""

    labelled: bool = False
    """True if its answers are logits of labels."""
    takes_pairs: bool = False
    """True if two texts are one input."""
    every_token: bool = False
    """True if every token has an answer; else a text has one, or one at each of some places."""
    places: str | None = None
    """The input that holds the positions that are answered, which needs a mask token; by default a text has one answer.
    """
    of_words: bool = False
    """True if its last layer is over the vocabulary, and may repeat the embedding."""
    scores: Scores = "softmax"
    """How its answers are read, unless the checkpoint says that."""


TEXT_TASKS: dict[Task, TextTask] = {
    "text-classification": TextTask(labelled=True, takes_pairs=True),
    "token-classification": TextTask(labelled=True, every_token=True),
    "question-answering": TextTask(takes_pairs=True, every_token=True),
    "feature-extraction": TextTask(),
    "fill-mask": TextTask(places="masked", of_words=True),
    "sparse-embedding": TextTask(of_words=True, scores="identity"),
}


def leading_specials(tokenizer: str) -> int:
    """Return how many special tokens a tokenizer, the content of `tokenizer.json`, puts before every text."""
    marks: list[int] = Tokenizer.from_str(tokenizer).encode("a").special_tokens_mask
    return [*marks, 0].index(0)


def _pooled(head: nn.Module) -> Literal["first", "last", "all"]:
    """Return which tokens an answer is made of."""
    if isinstance(head, SparseWords):
        return "all"
    if isinstance(head, EachThen):
        return _pooled(head.head)
    if not isinstance(head, Pool) or head.pool is first_state:
        return "first"
    return "last" if head.pool is last_state else "all"


def text_model(
    name: str,
    model: TextEncoder,
    config: TextEncoderConfig | GPTConfig,
    *,
    family: str,
    task: Task,
    text: TextRule,
    tokenizer: str,
    made_by: dict[str, Any],
    labels: tuple[str, ...] = (),
    scores: Scores = "softmax",
) -> Source:
    """Plan the graphs of an encoder of texts."""
    kind = encoder_kind(config.layers, config.heads, "source", prefix=leading_specials(tokenizer))
    kind = kind.model_copy(update={"pooled": _pooled(model.head)})
    ports = [token_port("source"), visible_port("source")]
    upper_bounds: UpperBounds = {"source": config.vocabulary, "source_types": max(config.types, 1)}
    if config.types:
        ports.append(token_port("source_types", "source"))
    places = [place for place in (TEXT_TASKS[task].places,) if place]
    for place in places:
        ports.append(token_port(place))
        upper_bounds[place] = "source"
    answered = ["source"] if TEXT_TASKS[task].every_token else places
    answer = answer_port(model, task, "batch", *answered)
    traced = TracedTextEncoder(model, (kind,), typed=config.types > 0)
    base = base_plan(traced, tuple(ports), (answer,), {}, config.width, upper_bounds, head=config.head_width)
    long = min(config.length, MAX_VERIFIED_TOKENS)
    return Source(
        name=name,
        family=family,
        task=task,
        labels=labels,
        scores=scores,
        inputs=(text,),
        tokenizer=tokenizer,
        traced=traced,
        base=base,
        plans=derived_plans(traced, base, {}),
        attention=(kind,),
        made_by=made_by,
        traced_at={"batch": 4, "source": 7, "masked": 3},
        verified_at=(
            {"batch": 1, "source": 1, "masked": 1},
            {"batch": 2, "source": min(13, long), "masked": 2},
            {"batch": 3, "source": long, "masked": 4},
        ),
        verified_longest={"batch": 1, "source": config.length, "masked": 1},
    )


def sequence_classifier(
    name: str,
    model: Transformer,
    config: TransformerConfig,
    *,
    family: str,
    text: TextRule,
    tokenizer: str,
    made_by: dict[str, Any],
    labels: tuple[str, ...],
    scores: Scores,
) -> Source:
    """Plan the graphs of an encoder-decoder that is given a text on both sides: its answer is at the last token.

    The graphs answer at the tokens that they are asked for, as those of one that generates.
    """
    upper_bounds: UpperBounds = dict.fromkeys(("source", "target"), config.vocabulary)
    traced, base = transformer_base(model, config, len(labels), upper_bounds)
    long = min(config.length, MAX_VERIFIED_TOKENS)
    return Source(
        name=name,
        family=family,
        task="text-classification",
        labels=labels,
        scores=scores,
        inputs=(text,),
        tokenizer=tokenizer,
        traced=traced,
        base=base,
        plans=derived_plans(traced, base, {}),
        attention=traced.kinds,
        made_by=made_by,
        traced_at={"batch": 4, "source": 7, "target": 5, ANSWERED: 3},
        verified_at=(
            {"batch": 1, "source": 1, "target": 1, ANSWERED: 1},
            {"batch": 2, "source": min(13, long), "target": min(8, long), ANSWERED: 3},
            {"batch": 3, "source": long, "target": min(long, 24), ANSWERED: VERIFIED_ANSWERS},
        ),
        verified_longest={"batch": 1, "source": config.length, "target": config.length, ANSWERED: VERIFIED_ANSWERS},
    )
