"""Answers an attention query: runs the graphs that it needs and gathers the maps of one input."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from service.batching.admission import Priority
from service.explanations.answer import AttentionAnswer, AttentionMap
from service.explanations.query import AttentionQuery, Target
from service.inputs.model_input import ModelInput, Pair, Picture, Text, Token
from service.repository import faithfulness
from service.repository.generator import Generator
from service.repository.graph_controls import relevance_map
from service.repository.predictor import Predictor
from service.repository.served_model import AttentionResult, Prediction, ServedModel


async def explain(
    served: Predictor, item: ModelInput, query: AttentionQuery, text: Text, priority: Priority
) -> tuple[Prediction, AttentionAnswer]:
    """Return the prediction of an input and its attention answer; the spans of its tokens lie in `text`."""
    targets = served.targets(item, query) if query.method == "relevance" else []
    result = await _attend(served, item, query, targets, priority)
    maps = result.maps
    if targets:
        entries = [served.target_entry(one, result.prediction) for one in targets]
        maps = [replace(one, entry={**one.entry, "target": entry}) for one, entry in zip(maps, entries, strict=True)]
    evaluation = None
    if query.options.evaluate and item.picture:
        evaluation = await _evaluate(served, item.picture, query, maps, result.prediction, priority)
    axes: dict[str, Sequence[Token]] = {"source": item.tokens} if item.tokens else {}
    texts = {axis: [text.text, text.text_pair] if isinstance(text, Pair) else [text] for axis in axes}
    answer = AttentionAnswer(query, maps, item.picture, axes, texts, result.diagnostics, evaluation)
    return result.prediction, answer


async def explain_generated(
    served: Generator, source: ModelInput, text: str, target: Sequence[int], query: AttentionQuery, priority: Priority
) -> AttentionAnswer:
    """Return the attention answer to a finished target, from one teacher-forced pass over it.

    The spans of its source's tokens lie in `text`.
    """
    item = served.finished(source, target, query)
    targets = served.targets_of(source, target, query) if query.method == "relevance" else []
    result = await _attend(served, item, query, targets, priority)
    maps = result.maps
    axes, texts = _axes(served, source, text, target, query)
    if targets:
        entries: list[dict[str, object]] = [
            {"position": one.index, "token": one.token, "text": axes["target"][one.position].text} for one in targets
        ]
        maps = [_join_rows([own for own in maps if own.kind == one.kind], entries) for one in query.kinds]
    return AttentionAnswer(query, maps, source.picture, axes, texts, result.diagnostics)


async def explain_step(
    served: Generator, source: ModelInput, target: Sequence[int], query: AttentionQuery, priority: Priority
) -> object:
    """Return the maps of cross-attention of the last token of a target that is still growing."""
    last = [replace(one, queries=(len(target) - 1,)) for one in query.kinds if one.kind.kind == "cross"]
    step = replace(query, kinds=tuple(last), options=query.options.model_copy(update={"diagnostics": False}))
    result = await served.attend(served.finished(source, target, step), step, priority)
    return AttentionAnswer(step, result.maps).json()["maps"]


async def _attend(
    served: ServedModel, item: ModelInput, query: AttentionQuery, targets: Sequence[Target], priority: Priority
) -> AttentionResult:
    """Run the graphs that a query needs. Relevance is one map for each kind and target, sorted by kind."""
    if query.method != "relevance":
        return await served.attend(item, query, priority)
    explaining = asyncio.ensure_future(served.relevance(item, query, targets, priority))
    try:
        attended = await served.attend(item, query, priority) if query.options.diagnostics else None
        prediction, found = await explaining
    finally:
        explaining.cancel()
    maps = [
        relevance_map(one, values, target.rows)
        for one in query.kinds
        for target, values in zip(targets, found[one.kind.kind], strict=True)
    ]
    return AttentionResult(prediction, maps, attended.diagnostics if attended else None)


def _join_rows(maps: Sequence[AttentionMap], targets: Sequence[dict[str, object]]) -> AttentionMap:
    """Return the relevance of several tokens as one map with a row for each."""
    rows = tuple(row for one in maps for row in one.rows)
    values = np.concatenate([one.values for one in maps], axis=1)
    return replace(maps[0], entry={**maps[0].entry, "targets": list(targets)}, values=values, rows=rows)


async def _evaluate(
    served: Predictor,
    picture: Picture,
    query: AttentionQuery,
    maps: Sequence[AttentionMap],
    prediction: Prediction,
    priority: Priority,
) -> dict[str, object]:
    """Evaluate the one row that was asked for, without its prefix columns, for the class that it explains."""
    (one,) = maps
    target = one.entry.get("target")
    index = target["index"] if isinstance(target, dict) else int(prediction.argmax())
    scores = one.values[0, 0, one.kind.prefix :]
    options = query.options
    return await faithfulness.evaluate(served, picture, scores, index, options.evaluate, options.digits, priority)


def _axes(
    served: Generator, source: ModelInput, text: str, target: Sequence[int], query: AttentionQuery
) -> tuple[dict[str, Sequence[Token]], dict[str, list[str]]]:
    """Return the tokens of every axis but an image's, and the texts that their spans lie in.

    `target` holds the token that each row emitted, `target_input` the one it was fed, and with `align=input` also
    the last token. Where targets continue their source, both begin with it, and spans count through both texts as one.
    """
    start, end = served.generation.start, served.generation.end
    behind = text if start is None else ""
    written = served.target_tokenizer.generated(target, end, behind=len(behind))
    tokens = list(source.tokens)
    axes: dict[str, Sequence[Token]]
    if start is None:
        emitted = [*tokens[1:], *written]
        fed = [tokens[0], *emitted]
        axes = {}
    else:
        emitted = written
        fed = [Token(start, served.target_tokenizer.piece(start), None), *emitted]
        axes = {"source": tokens} if tokens else {}
    axes |= {"target": emitted, "target_input": fed if query.options.align == "input" else fed[:-1]}
    whole = behind + "".join(token.text for token in written if token.span)
    return axes, {axis: [text if axis == "source" else whole] for axis in axes}
