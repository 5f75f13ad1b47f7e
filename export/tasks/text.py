"""TODO: what export/tasks/text.py is."""

from typing import Any

from contract.manifest import (
    Scores,
    Task,
    TextRule,
)
from export.plan import Below, Source
from export.tasks.ports import LONG, _answer, _base, _encoder, _looks, _tokens, _visible
from export.tasks.traced import (
    TextLook,
)
from model.text_encoder import TextEncoder, TextEncoderConfig


def text_model(
    name: str,
    model: TextEncoder,
    config: TextEncoderConfig,
    *,
    family: str,
    task: Task,
    text: TextRule,
    tokenizer: str,
    made_by: dict[str, Any],
    labels: tuple[str, ...] = (),
    scores: Scores = "softmax",
) -> Source:
    """Plan the roles of an encoder that classifies texts, embeds them or fills their gaps."""
    kind = _encoder(task, config.layers, config.heads, "source", prefix=1)
    ports = [_tokens("source"), _visible("source")]
    below: Below = {"source": config.vocabulary, "source_types": max(config.types, 1)}
    if config.types:
        ports.append(_tokens("source_types", "source"))
    if task == "fill-mask":
        ports.append(_tokens("masked"))
        below["masked"] = "source"
    answer = _answer(model, task, "batch", *(("masked",) if task == "fill-mask" else ()))
    look = TextLook(model, (kind,), typed=config.types > 0)
    base = _base(look, tuple(ports), answer, {}, config.width, below)
    long = min(config.length, LONG)
    return Source(
        name=name,
        family=family,
        task=task,
        labels=labels,
        scores=scores,
        text=text,
        tokenizer=tokenizer,
        base=base,
        plans=_looks(base, {}),
        attention=(kind,),
        made_by=made_by,
        traced={"batch": 2, "source": 7, "masked": 3},
        tried=(
            {"batch": 1, "source": 1, "masked": 1},
            {"batch": 3, "source": min(13, long), "masked": 2},
            {"batch": 5, "source": long, "masked": 4},
        ),
        longest={"batch": 1, "source": config.length, "masked": 1},
    )
