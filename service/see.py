"""See: run what an attention request asks for, and gather what was seen of one input."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from service import faithful, sight
from service.attention import Array, Ask, Explained, Map
from service.errors import Unacceptable
from service.images import Picture
from service.served import Generator, Item, Looked, Prediction, Predictor, Served
from service.sight import Sight
from service.texts import Pair, Text, Token


async def see(served: Predictor, item: Item, ask: Ask, text: Text = "") -> tuple[Prediction, Sight]:
    """Return the prediction of an input and what was seen of it; `text` is what its tokens' spans lie in."""
    targets = served.targets(item, ask) if ask.method == "relevance" else []
    looked = await _look(served, item, ask, targets)
    maps = list(looked.maps)
    if ask.method == "relevance":
        maps = _by_target(maps, [_named(served, one, looked.prediction) for one in targets])
    picture = item.shown if isinstance(item.shown, Picture) else None
    seen = Sight(ask, maps, picture, None if picture else {"source": _tokens(item)}, looked.diagnostics)
    if ask.options.merge:
        texts = [text.text, text.text_pair] if isinstance(text, Pair) else [text]
        seen = seen.merged({"source": texts})
    if ask.options.evaluate and picture:
        scores, target = _scores(maps, looked.prediction)
        evaluation = await faithful.evaluate(served, picture, scores, target, ask.options.evaluate, ask.options.digits)
        seen = Sight(ask, maps, picture, diagnostics=looked.diagnostics, evaluation=evaluation)
    return looked.prediction, seen


async def see_generated(
    served: Generator, source: Sequence[Token], text: str, target: Sequence[int], ask: Ask
) -> Sight:
    """Return what was seen of a finished target, in one teacher-forced pass."""
    item = served.finished(source, target, ask)
    targets = served.targets_of(source, target, ask) if ask.method == "relevance" else []
    looked = await _look(served, item, ask, targets)
    maps = list(looked.maps)
    axes, written = _axes(served, source, text, target, ask)
    if ask.method == "relevance":
        shown: list[dict[str, object]] = [
            {"position": one.shown, "token": one.token, "text": axes["target"][one.position].text} for one in targets
        ]
        maps = [Map(one.kind, {**one.entry, "targets": shown}, one.values, one.rows) for one in maps]
    seen = Sight(ask, maps, axes=axes, diagnostics=looked.diagnostics)
    return seen.merged(sight.texts_of(ask.every, [text], written)) if ask.options.merge else seen


async def row_of(served: Generator, source: Sequence[Token], target: Sequence[int], ask: Ask) -> object:
    """Return the maps of cross-attention of the last token of a target that is still growing."""
    last = [replace(one, queries=(len(target) - 1,)) for one in ask.wanted if one.kind.kind == "cross"]
    step = replace(ask, wanted=tuple(last), options=ask.options.model_copy(update={"merge": None}))
    looked = await served.look(served.finished(source, target, step), step)
    return Sight(step, looked.maps, axes={}).json()["maps"]


async def _look(served: Served, item: Item, ask: Ask, targets: Sequence[Explained]) -> Looked:
    """Run the graphs that are needed; relevance of all targets is rows of one map a kind."""
    if ask.method != "relevance":
        return await served.look(item, ask)
    explaining = served.explain(item, ask, targets)
    if not ask.looks:
        prediction, found = await explaining
        diagnostics = None
    else:
        looked, (prediction, found) = await asyncio.gather(served.look(item, ask), explaining)
        diagnostics = looked.diagnostics
    rows = [row for one in targets for row in one.rows]
    maps = [ask.explained(one, np.concatenate(found[one.kind.kind]), rows, []) for one in ask.wanted]
    return Looked(prediction, maps, diagnostics)


def _by_target(maps: Sequence[Map], targets: Sequence[dict[str, object]]) -> list[Map]:
    """Return a map a target, of maps whose rows are those of all targets."""
    found = []
    for one in maps:
        entry = {name: value for name, value in one.entry.items() if name != "targets"}
        each = len(one.rows) // len(targets)
        for index, target in enumerate(targets):
            own = slice(index * each, (index + 1) * each)
            found.append(Map(one.kind, {**entry, "target": target}, one.values[:, own], one.rows[own]))
    return found


def _named(served: Predictor, one: Explained, prediction: Prediction) -> dict[str, object]:
    """Return what a target is called."""
    if served.manifest.task == "fill-mask":
        token = int(prediction[one.position].argmax())
        return {"mask": one.shown, "token": token, "label": served.words(token)}
    index = int(prediction.argmax()) if one.token < 0 else one.token
    names = served.manifest.labels
    return {"index": index, "label": names[index] if names else str(index)}


def _scores(maps: Sequence[Map], prediction: Prediction) -> tuple[Array, int]:
    """Return the one row that an evaluation is of, without the prefix, and the class that it explains."""
    if len(maps) != 1 or maps[0].values.shape[:2] != (1, 1):
        raise Unacceptable("evaluate: needs one map of one row; ask for one layer, fused heads, one query and target")
    target = maps[0].entry.get("target")
    index = target["index"] if isinstance(target, dict) else int(prediction.argmax())
    return maps[0].values[0, 0, maps[0].kind.prefix :], index


def _tokens(item: Item) -> Sequence[Token]:
    assert not isinstance(item.shown, Picture)  # noqa: S101 # for the type checker
    return item.shown


def _axes(
    served: Generator, source: Sequence[Token], text: str, target: Sequence[int], ask: Ask
) -> tuple[dict[str, list[Token]], str]:
    """Return the tokens of every axis, and the text that the spans of targets lie in.

    `target` is what each row emitted, `target_input` what it was fed, and one more where tokens' own rows are read.
    Where targets continue their source, both begin with it, and places count through both texts as one.
    """
    start, end = served.generation.start, served.generation.end
    behind = text if start is None else ""
    written = served.targets.generated(target, end, behind=len(behind))
    if start is None:
        emitted = [*source[1:], *written]
        axes = {"target": emitted, "target_input": [source[0], *emitted]}
    else:
        emitted = written
        axes = {
            "source": list(source),
            "target": emitted,
            "target_input": [Token(start, served.targets.piece(start), None), *emitted],
        }
    if ask.options.align != "input":
        axes["target_input"].pop()
    return axes, behind + "".join(token.text for token in written if token.span)
