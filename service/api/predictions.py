"""TODO: what service/api/predictions.py is."""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fastapi import Request
from starlette.responses import Response

from service.api import responses as present
from service.api.request_parsing import Sent, negotiate
from service.batching.admission import PRIORITY
from service.batching.batcher import together
from service.errors import Unacceptable
from service.explanations.answer import TYPES, AttentionAnswer, check_picture, npz, unshown
from service.explanations.query import AttentionQuery, resolve
from service.inputs.model_input import ModelInput, Picture
from service.options import (
    FillMaskOptions,
    RequestOptions,
    TextOptions,
)
from service.repository import faithfulness as faithful
from service.repository.explain import explain
from service.repository.predictor import Predictor
from service.repository.served_model import Prediction, ServedModel
from service.state import State
from service.store.stored_request import StoredRequest


async def _predict(
    request: Request,
    state: State,
    served: Predictor,
    sent: Sent,
    options: RequestOptions,
    show: Callable[[Prediction], dict[str, object]] | None = None,
    *,
    asked: bool = False,
) -> Response:
    """Answer with what `show` makes of every input's prediction, and its attention if that is asked for.

    `show` runs on a thread of its own where it reads logits over a vocabulary.
    """
    PRIORITY.set(options.priority)
    ask = _ask(request, sent, served, asked=asked)
    truncate = isinstance(options, TextOptions) and options.truncate
    ready: list[ModelInput] = []
    if served.manifest.image:
        lengths = [served.image_lengths] * len(sent.inputs)
    else:  # how long texts are is known once they are tokens, which costs little
        decode = functools.partial(served.decode_text, truncate=truncate)
        ready = await state.decode_texts(served, decode, sent.inputs)
        lengths = [item.lengths for item in ready]
    targets = [_targets(ask, one.get("masked", 1)) for one in lengths]
    if ask:
        _check_size(state, ask, lengths, targets)
    if isinstance(options, FillMaskOptions):
        options.check_size(sum(one["masked"] for one in lengths), state.settings.max_answer_bytes)

    async def one(index: int) -> tuple[dict[str, object], AttentionAnswer | None]:
        given = sent.inputs[index]
        item = await state.decode_image(served, given) if isinstance(given, bytes) else ready[index]
        if ask is None:
            return await shown(await served.predict(item)), None
        _check_picture(state, ask, item, item.lengths, targets[index])
        row, sight = await explain(served, item, ask, "" if isinstance(given, bytes) else given)
        return await shown(row), sight

    async def shown(row: Prediction) -> dict[str, object]:
        if show is None:
            return {}
        return await state.present(served, show, row) if served.mask else show(row)

    curves = faithful.rows(ask.options.evaluate) if ask else 0
    with (
        served.permit(lengths, looking=ask is not None, targets=max(targets)),
        served.permit(lengths * curves, looking=False) if curves else contextlib.nullcontext(),
    ):
        found = await together(one(index) for index in range(len(sent.inputs)))
    kept = StoredRequest(served.manifest.name, served.manifest.version, tuple(sent.inputs), truncate)
    return await _respond(request, state, served, found, ask, kept)


async def _respond(
    request: Request,
    state: State,
    served: ServedModel,
    found: Sequence[tuple[dict[str, object], AttentionAnswer | None]],
    ask: AttentionQuery | None,
    kept: StoredRequest,
) -> Response:
    """Keep what was asked, and answer in the form that was asked for; what was kept keeps its id."""
    identity = request.path_params.get("id", request.state.id)
    if identity == request.state.id:
        await state.store.put(identity, kept)

    def whole() -> Response:
        return present.respond(present.answer(identity, served, [_shown(*one) for one in found]))

    if ask is None:
        return whole()
    if ask.options.format == "json":
        return await state.present(served, whole)
    sights = [sight for _, sight in found if sight]
    if ask.options.format == "npz":
        answer = present.answer(identity, served, [])
        return Response(await state.present(served, npz, answer, sights), media_type=TYPES["npz"])
    sent = kept.inputs[0]
    async with state.decoders.upright(sent) if isinstance(sent, bytes) else contextlib.nullcontext() as pixels:
        picture = await state.present(served, sights[0].png, pixels, state.settings.max_image_pixels)
    return Response(picture, media_type=TYPES["png"])


def _shown(shown: dict[str, object], sight: AttentionAnswer | None) -> dict[str, object]:
    return {**shown, "attention": sight.json()} if sight else shown


def _ask(request: Request, sent: Sent, served: ServedModel, *, asked: bool = False) -> AttentionQuery | None:
    """Return what the request wants to see beside its prediction, if anything; the default where it must be `asked`."""
    options = sent.attention(asked=asked)
    if options is None:
        return None
    ask = resolve(options, served.manifest)
    if not asked and options.format not in (None, "json"):
        raise Unacceptable(f"format: a prediction is answered in json; for {options.format}, ask .../attention")
    form = options.format or (negotiate(request.headers.getlist("accept")) if asked else "json")
    for name in unshown(options, form):
        raise Unacceptable(f"{name}: has no effect on {form}, leave it out")
    if form == "png" and len(sent.inputs) > 1:
        raise Unacceptable(f"format: a png shows one input, given {len(sent.inputs)}")
    return replace(ask, options=options.model_copy(update={"format": form}))


def _targets(ask: AttentionQuery | None, every: int) -> int:
    """Return how many relevances are computed of an input in which `every` token can be explained."""
    if ask is None or ask.method != "relevance":
        return 1
    return every if ask.targets is None else len(ask.targets)


def _check_size(
    state: State, ask: AttentionQuery, lengths: Sequence[Mapping[str, int]], targets: Sequence[int]
) -> None:
    if ask.options.format != "png":  # whose pixels are counted
        sizes = [ask.size(one, count) for one, count in zip(lengths, targets, strict=True)]
        ask.check_size(sizes, state.settings.max_answer_bytes)


def _check_picture(
    state: State, ask: AttentionQuery, item: ModelInput, lengths: Mapping[str, int], targets: int
) -> None:
    if ask.options.format == "png":
        size = (item.shown.width, item.shown.height) if isinstance(item.shown, Picture) else None
        check_picture(ask, lengths, size, targets, state.settings.max_image_pixels)
