"""See: run what an attention request asks for, and gather what was seen of one input."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from service.explanations.answer import AttentionAnswer
from service.explanations.query import Array, AttentionQuery, Map, Target
from service.inputs.model_input import ModelInput, Pair, Picture, Text, Token
from service.repository import faithfulness as faithful
from service.repository.generator import Generator
from service.repository.predictor import Predictor
from service.repository.served_model import AttentionResult, Prediction, ServedModel


async def explain(
    served: Predictor, item: ModelInput, ask: AttentionQuery, text: Text = ""
) -> tuple[Prediction, AttentionAnswer]:
    """Return the prediction of an input and what was seen of it; `text` is what its tokens' spans lie in."""
    targets = served.targets(item, ask) if ask.method == "relevance" else []
    looked = await _look(served, item, ask, targets)
    maps = looked.maps
    if targets:
        names = [_named(served, one, looked.prediction) for one in targets]
        maps = [replace(one, entry={**one.entry, "target": name}) for one, name in zip(maps, names, strict=True)]
    if not isinstance(item.shown, Picture):
        texts = [text.text, text.text_pair] if isinstance(text, Pair) else [text]
        axes = {"source": item.shown}
        return looked.prediction, AttentionAnswer(ask, maps, None, axes, {"source": texts}, looked.diagnostics)
    evaluation = None
    if ask.options.evaluate:
        scores, target = _scores(maps, looked.prediction)
        asked = ask.options.evaluate, ask.options.digits
        evaluation = await faithful.evaluate(served, item.shown, scores, target, *asked)
    return looked.prediction, AttentionAnswer(
        ask, maps, item.shown, diagnostics=looked.diagnostics, evaluation=evaluation
    )


async def explain_generated(
    served: Generator, source: ModelInput, text: str, target: Sequence[int], ask: AttentionQuery
) -> AttentionAnswer:
    """Return what was seen of a finished target, in one teacher-forced pass; spans of its source lie in `text`."""
    item = served.finished(source, target, ask)
    targets = served.targets_of(source, target, ask) if ask.method == "relevance" else []
    looked = await _look(served, item, ask, targets)
    maps = looked.maps
    axes, texts = _axes(served, source, text, target, ask)
    if targets:
        shown: list[dict[str, object]] = [
            {"position": one.shown, "token": one.token, "text": axes["target"][one.position].text} for one in targets
        ]
        maps = [_joined([own for own in maps if own.kind == one.kind], shown) for one in ask.wanted]
    picture = source.shown if isinstance(source.shown, Picture) else None
    return AttentionAnswer(ask, maps, picture, axes, texts, looked.diagnostics)


async def explain_step(served: Generator, source: ModelInput, target: Sequence[int], ask: AttentionQuery) -> object:
    """Return the maps of cross-attention of the last token of a target that is still growing."""
    last = [replace(one, queries=(len(target) - 1,)) for one in ask.wanted if one.kind.kind == "cross"]
    step = replace(ask, wanted=tuple(last), options=ask.options.model_copy(update={"diagnostics": False}))
    looked = await served.look(served.finished(source, target, step), step)
    return AttentionAnswer(step, looked.maps).json()["maps"]


async def _look(
    served: ServedModel, item: ModelInput, ask: AttentionQuery, targets: Sequence[Target]
) -> AttentionResult:
    """Run the graphs that are needed. Relevance is a map a kind and target, those of one kind after the other."""
    if ask.method != "relevance":
        return await served.look(item, ask)
    explaining = asyncio.ensure_future(served.explain(item, ask, targets))
    try:
        looked = await served.look(item, ask) if ask.options.diagnostics else None
        prediction, found = await explaining
    finally:
        explaining.cancel()
    maps = [
        ask.explained(one, values, target.rows)
        for one in ask.wanted
        for target, values in zip(targets, found[one.kind.kind], strict=True)
    ]
    return AttentionResult(prediction, maps, looked.diagnostics if looked else None)


def _joined(maps: Sequence[Map], targets: Sequence[dict[str, object]]) -> Map:
    """Return the relevance of several tokens as one map, a row each."""
    rows = tuple(row for one in maps for row in one.rows)
    values = np.concatenate([one.values for one in maps], axis=1)
    return replace(maps[0], entry={**maps[0].entry, "targets": list(targets)}, values=values, rows=rows)


def _named(served: Predictor, one: Target, prediction: Prediction) -> dict[str, object]:
    """Return what a target is called."""
    if served.manifest.task == "fill-mask":
        token = int(prediction[one.position].argmax())
        return {"mask": one.shown, "token": token, "label": served.words(token)}
    index = int(prediction.argmax()) if one.token < 0 else one.token
    names = served.manifest.labels
    return {"index": index, "label": names[index] if names else str(index)}


def _scores(maps: Sequence[Map], prediction: Prediction) -> tuple[Array, int]:
    """Return the one row that an evaluation is of, without the prefix, and the class that it explains."""
    (one,) = maps
    target = one.entry.get("target")
    index = target["index"] if isinstance(target, dict) else int(prediction.argmax())
    return one.values[0, 0, one.kind.prefix :], index


def _axes(
    served: Generator, source: ModelInput, text: str, target: Sequence[int], ask: AttentionQuery
) -> tuple[dict[str, list[Token]], dict[str, list[str]]]:
    """Return the tokens of every axis but an image's, and the texts that their spans lie in.

    `target` is what each row emitted, `target_input` what it was fed, and one more where tokens' own rows are read.
    Where targets continue their source, both begin with it, and places count through both texts as one.
    """
    start, end = served.generation.start, served.generation.end
    behind = text if start is None else ""
    written = served.targets.generated(target, end, behind=len(behind))
    tokens = [] if isinstance(source.shown, Picture) else list(source.shown)
    if start is None:
        emitted = [*tokens[1:], *written]
        axes = {"target": emitted, "target_input": [tokens[0], *emitted]}
    else:
        emitted = written
        axes = {
            **({"source": tokens} if tokens else {}),
            "target": emitted,
            "target_input": [Token(start, served.targets.piece(start), None), *emitted],
        }
    if ask.options.align != "input":
        axes["target_input"].pop()
    whole = behind + "".join(token.text for token in written if token.span)
    return axes, {axis: [text if axis == "source" else whole] for axis in axes}
