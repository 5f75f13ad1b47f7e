"""Answers an attention query: runs the graphs that it needs and gathers the maps of one input."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from contract.chat import ASSISTANT
from service.arrays import Array, only_first
from service.batching.fair_queue import Caller
from service.explanations.answer import AttentionAnswer, AttentionMap, Diagnostics
from service.explanations.query import AttentionQuery
from service.explanations.states import SMALLEST_LENGTH
from service.inputs.model_input import Conversation, ModelInput, Text, Token, strings_of
from service.repository.explaining.gradients import (
    Explained,
    Figures,
    explain_scores,
    maps_of,
    maps_of_tokens,
    parts_of,
)
from service.repository.explaining.saliency import find_salient
from service.repository.explaining.states import compare_states
from service.repository.explaining.subjects import evaluation_of, generated, predicted
from service.repository.models.generator import Generator
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import AttentionResult, Prediction, ServedModel

T = TypeVar("T")


@dataclass(frozen=True)
class Other:
    """The input that another one is compared with, and the text that the spans of its tokens lie in."""

    item: ModelInput
    text: Text
    vector: Prediction
    """Its embedding, or what else the model answers."""
    name: str | None = None
    """How the request names it, as an answer says it: text, image or id."""
    states: Mapping[str, Array] = field(default_factory=dict)
    """Its states, as `AttentionResult` has them, if these are compared."""
    weight: float = 1.0
    """Of the cosine with `vector` in the score that is explained."""
    than: str | None = None
    """How the request names the input whose likeness is taken off."""
    served: Predictor | None = None
    """The model that has run on it: that of the input that is compared with it, or its partner."""


def rather_than(first: Other, second: Other | None = None) -> Other:
    """Return the other input by which the likeness to `first`, less that to `second`, is explained.

    cos(x, a) - cos(x, b) is the cosine of x and â - b̂, of the vectors of length 1, times the length of â - b̂.
    """
    if second is None:
        return first
    units = [one.vector / max(float(np.linalg.norm(one.vector)), SMALLEST_LENGTH) for one in (first, second)]
    apart = units[0] - units[1]
    return replace(first, vector=apart, weight=float(np.linalg.norm(apart)), than=second.name)


async def other_of(
    served: Predictor, item: ModelInput, query: AttentionQuery | None, text: Text, caller: Caller, name: str
) -> Other:
    """Return the other input that a query compares with, once a model has run on it."""
    if query and query.by_states:
        attended = await served.attend(item, query, caller)
        return Other(item, text, attended.prediction, name, attended.states, served=served)
    vector = await served.predict(item, caller)
    return Other(item, text, only_first(vector, query.kept if query else None), name, served=served)


async def explain(
    served: Predictor,
    item: ModelInput,
    query: AttentionQuery,
    text: Text,
    caller: Caller,
    other: Other | None = None,
) -> tuple[Prediction, AttentionAnswer]:
    """Return the prediction of an input and its attention answer; the spans of its tokens lie in `text`.

    A gradient method explains the embedding of an input by that of the `other`.
    """
    if query.by_gradient:
        work = _explain_prediction(served, item, query, text, caller, other)
        (prediction, maps), diagnostics = await _with_diagnostics(served, item, query, caller, work)
        result = AttentionResult(prediction, maps, diagnostics)
    else:
        result = await served.attend(item, query, caller)
    if query.rules.by_picture:
        result = replace(result, maps=await find_salient(served, item, query, caller))
    opposite = None
    if query.by_states:
        others = [(other.item, other.states)] if other else []
        mine, *theirs = await compare_states(query, [(item, result.states), *others])
        result = replace(result, maps=mine)
        if other:
            shown = served.shown_maps(query, result.prediction, theirs[0])
            opposite = AttentionAnswer(
                query, shown, other.item.picture, *axes_of(other.item, other.text),
                objects=served.objects_of(other.vector), asking=item.tokens, of_other=True, sound=other.item.sound,
                graph=other.item.graph,
            )  # fmt: skip
    result = replace(result, maps=served.shown_maps(query, result.prediction, result.maps))
    evaluation = None
    if query.options.evaluate:
        subject = predicted(served, item, query, text, result.prediction, other.vector if other else None, caller)

        async def attend(one: AttentionQuery) -> Sequence[AttentionMap]:
            return (await explain(served, item, one, text, caller, other))[1].maps

        evaluation = await evaluation_of(served, subject, query, result.maps, attend)
    axes, texts = axes_of(item, text)
    answer = AttentionAnswer(
        query, result.maps, item.picture, axes, texts, result.diagnostics, evaluation,
        against=other.name if other else None, than=other.than if other else None,
        objects=served.objects_of(result.prediction), opposite=opposite, sound=item.sound,
        graph=item.graph,
    )  # fmt: skip
    if other and query.options.sides == "both":
        own_side = query.options.model_copy(update={"sides": "own", "evaluate": (), "diagnostics": False})
        own = Other(item, text, only_first(result.prediction, query.kept), served=served)
        partner, own_query = other.served or served, replace(query, options=own_side)
        if partner is not served:  # whose kinds, layers and rows are others
            asked = own_side.model_copy(update=dict.fromkeys(("kind", "layers", "queries", "baseline")))
            own_query = replace(partner.query(asked), form=query.form, kept=query.kept)
        _, opposite = await explain(partner, other.item, own_query, other.text, caller, own)
        answer = replace(answer, opposite=opposite)
    return result.prediction, answer


async def explain_generated(
    served: Generator, source: ModelInput, text: Text, target: Sequence[int], query: AttentionQuery, caller: Caller
) -> AttentionAnswer:
    """Return the attention answer to a finished target, from one teacher-forced pass over it.

    The spans of its source's tokens lie in `text`.
    """
    item = served.finished(source, target, query)
    axes, texts = axes_of_generated(served, source, text, target, query)
    if query.by_gradient:
        work = explain_scores(served, item, query, served.targets_of(source, target, query), caller)
        found, diagnostics = await _with_diagnostics(served, item, query, caller, work)
        entries = [_entries(served, source, query, one, axes["target"]) for one in found]
        maps: Sequence[AttentionMap] = maps_of_tokens(query, found, entries)
    else:
        result = await served.attend(item, query, caller)
        maps, diagnostics = result.maps, result.diagnostics
    evaluation = None
    if query.options.evaluate:
        subject = generated(served, source, target, query, caller)

        async def attend(one: AttentionQuery) -> Sequence[AttentionMap]:
            return (await explain_generated(served, source, text, target, one, caller)).maps

        evaluation = await evaluation_of(served, subject, query, maps, attend)
    return AttentionAnswer(
        query, maps, source.picture, axes, texts, diagnostics, evaluation, len(_continued(served, source, text)),
        sound=source.sound,
    )  # fmt: skip


def _continued(served: Generator, source: ModelInput, text: Text) -> str:
    """Return the text that a target continues, as one text with it; nothing of one that has a text of its own."""
    return text if served.start_token(source) is None and isinstance(text, str) else ""


def _entries(
    served: Generator, source: ModelInput, query: AttentionQuery, one: Explained, tokens: Sequence[Token]
) -> list[Figures]:
    """Return what an answer says of a generated token, for each layer."""
    target = one.target
    named: Figures = {"position": target.index, "token": target.token, "text": tokens[target.position].text}
    named |= served.against_entry(query)
    if not query.rules.signed:
        return [named]
    parts = parts_of(one, served.parts(source))
    return [named | figures | {"parts": own} for figures, own in zip(one.figures, parts, strict=True)]


async def explain_step(
    served: Generator, source: ModelInput, target: Sequence[int], query: AttentionQuery, caller: Caller
) -> object:
    """Return the maps of cross-attention of the last token of a target that is still growing."""
    last = [replace(one, queries=(len(target) - 1,)) for one in query.kinds if one.kind.kind == "cross"]
    step = replace(query, kinds=tuple(last), options=query.options.model_copy(update={"diagnostics": False}))
    result = await served.attend(served.finished(source, target, step), step, caller)
    return AttentionAnswer(step, result.maps).json()["maps"]


async def _explain_prediction(
    served: Predictor, item: ModelInput, query: AttentionQuery, text: Text, caller: Caller, other: Other | None
) -> tuple[Prediction, list[AttentionMap]]:
    """Return the prediction of an input, and the maps of each of its scores.

    The prediction comes first where targets are chosen by it.
    """
    prediction = None
    if query.predicts_first(served.manifest):
        prediction = await served.predict(item, caller)
        targets = served.targets_after(item, query, prediction, text)
    else:
        targets = served.targets(item, query)
    score = (other.vector, other.weight) if other else None
    found = await explain_scores(served, item, query, targets, caller, score, answers=prediction is None)
    answers = [answer for answer in (prediction, *(one.answer for one in found)) if answer is not None]
    against = served.against_entry(query)
    maps = [own for one in found for own in maps_of(query, one, served.score_entry(one.target, answers[0]) | against)]
    return answers[0], maps


async def _with_diagnostics(
    served: ServedModel, item: ModelInput, query: AttentionQuery, caller: Caller, work: Coroutine[Any, Any, T]
) -> tuple[T, Diagnostics | None]:
    """Return the result of some work, and the diagnostics of an input if they are asked for."""
    working = asyncio.ensure_future(work)
    working.add_done_callback(lambda done: done.cancelled() or done.exception())  # where both fail, nobody waits for it
    try:
        attended = await served.attend(item, query, caller) if query.options.diagnostics else None
        return await working, attended.diagnostics if attended else None
    finally:
        working.cancel()


def axes_of(item: ModelInput, text: Text) -> tuple[dict[str, Sequence[Token]], dict[str, list[str]]]:
    """Return the tokens of each axis of an input, if it is a text or a graph, and the texts that their spans lie in.

    Where a decoder is given it too, the row of a token is what has been read before it.
    """
    if not item.tokens:
        return {}, {}
    (own, *_) = item.special  # the axis of the input's own tokens
    axes = {own: item.tokens, **({"target": item.tokens, "target_input": item.fed} if item.fed else {})}
    return axes, dict.fromkeys(axes, strings_of(text))


def axes_of_generated(
    served: Generator, source: ModelInput, text: Text, target: Sequence[int], query: AttentionQuery
) -> tuple[dict[str, Sequence[Token]], dict[str, list[str]]]:
    """Return the tokens of every axis but an image's, and the texts that their spans lie in.

    `target` holds the token that each row emitted, `target_input` the one it was fed, and with `align=input` also
    the last token. Where targets continue their source, both begin with it, and spans count through both texts as one;
    the answer to messages is one more message.
    """
    start = served.start_token(source)
    messages = text.messages if isinstance(text, Conversation) else ()
    behind = _continued(served, source, text)
    written = served.target_tokenizer.generated(target, served.generation.ends, behind=len(behind))
    if messages:
        written = [replace(token, sequence=len(messages), role=ASSISTANT) for token in written]
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
    return axes, {
        axis: strings_of(text) if axis == "source" else [*(one.content for one in messages), whole] for axis in axes
    }
