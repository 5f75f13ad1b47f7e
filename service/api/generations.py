"""TODO: what service/api/generations.py is."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import structlog
from fastapi import Request
from starlette.responses import Response

from service.api import responses as present
from service.api.predictions import _ask, _check_picture, _check_size, _respond, _shown, _targets
from service.api.request_parsing import Sent
from service.batching.admission import PRIORITY
from service.batching.batcher import together
from service.errors import Refusal, Unacceptable
from service.explanations.answer import AttentionAnswer
from service.explanations.query import AttentionQuery
from service.generation.token_selection import Hypothesis
from service.http.deadline import _too_slow
from service.http.server_sent_events import Stream, _event
from service.inputs.model_input import ModelInput, Pair, cost_of
from service.options import (
    GenerateOptions,
)
from service.repository.explain import explain_generated, explain_step
from service.repository.generator import Generator
from service.repository.served_model import ServedModel
from service.state import State
from service.store.stored_request import StoredRequest

log = structlog.get_logger()


@dataclass(frozen=True)
class Prompt:
    """An image or a text to generate from, and how; or what was generated from it before."""

    given: bytes | str
    item: ModelInput | None
    """A text in tokens; an image is decoded once there is room for it."""
    size: int
    """How many tokens or patches it has."""
    most: int
    """How many tokens its target can have."""
    options: GenerateOptions
    target: Sequence[int] | None = None

    @property
    def text(self) -> str:
        """Return what the spans of its tokens lie in, nothing for an image."""
        return "" if isinstance(self.given, bytes) else self.given


async def _generate_all(
    request: Request,
    state: State,
    served: Generator,
    sent: Sent,
    options: GenerateOptions,
    *,
    asked: bool = False,
    targets: Sequence[Sequence[int]] | None = None,
) -> Response:
    """Answer with what is generated from every input, or was (`targets`), and its attention if that is asked for."""
    PRIORITY.set(options.priority)
    served.search(options)  # refuses what cannot be searched before anything is done
    ask = _ask(request, sent, served, asked=asked)
    if options.stream and asked:
        raise Unacceptable("stream: is for generate; attention is answered whole")
    if options.stream and len(sent.inputs) > 1:
        raise Unacceptable(f"stream: takes one input, given {len(sent.inputs)}")
    if ask and ask.options.steps and not options.stream:
        raise Unacceptable("steps: is for stream")
    inputs = [given for given in sent.inputs if not isinstance(given, Pair)]
    if len(inputs) < len(sent.inputs):
        raise Unacceptable(f"text_pair: is for text-classification, this model's task is {served.manifest.task}")
    texts = [given for given in inputs if isinstance(given, str)]
    likely = served.likely_cost(texts, options) if texts and targets is None else 0
    with served.predicting.permit(likely) if likely else contextlib.nullcontext():  # else it was tokenized in vain
        items = await state.decode_texts(served, served.text_item, texts) if texts else [None] * len(inputs)

    def prompt(index: int) -> Prompt:
        given, item = inputs[index], items[index]
        size = cost_of(item.lengths if item else served.image_lengths)
        # the last token is fed too; where targets continue their source, there is room for it
        spare = int(ask is not None and ask.options.align == "input" and not served.continues)
        if targets is not None:
            if len(targets[index]) + spare > served.generation.max_new_tokens:
                raise Unacceptable("align: this answer is as long as the model allows, its last token cannot be fed")
            return Prompt(given, item, size, len(targets[index]), options, targets[index])
        limit = served.limit(options, size, spare)
        return Prompt(given, item, size, limit, options.model_copy(update={"max_new_tokens": limit}))

    prompts = [prompt(index) for index in range(len(sent.inputs))]
    with contextlib.ExitStack() as permits:
        permits.enter_context(_permit(state, served, prompts, ask))
        if options.stream:
            item = await _source(state, served, prompts[0], ask)  # what it is refused for has a status of its own
            permits.enter_context(served.used())
            return Stream(_events(request, state, served, prompts[0], item, ask), permits.pop_all())
        results = await together(_generate_one(state, served, prompt, ask, asked=asked) for prompt in prompts)
    return await _respond(
        request, state, served, [(shown, sight) for shown, sight, _ in results], ask,
        _kept(served, prompts, [target for *_, target in results]),
    )  # fmt: skip


def _permit(
    state: State, served: Generator, prompts: Sequence[Prompt], ask: AttentionQuery | None
) -> contextlib.AbstractContextManager[None]:
    """Hold what prompts may cost, and refuse an attention answer that could become too large before anything runs."""
    lengths = [served.lengths(prompt.size, prompt.most) for prompt in prompts]
    explained = [_targets(ask, prompt.most) for prompt in prompts]
    if ask:
        _check_size(state, ask, lengths, explained)
    generated = [prompt for prompt in prompts if prompt.target is None]
    maps = sum(served.map_bytes(one) * targets for one, targets in zip(lengths, explained, strict=True)) if ask else 0
    return served.permit([(prompt.size, prompt.options) for prompt in generated], maps)


async def _source(state: State, served: Generator, prompt: Prompt, ask: AttentionQuery | None) -> ModelInput:
    """Return what is generated from. Raises what decoding it does, and TooLarge for what cannot be drawn of it."""
    item = prompt.item
    if item is None:
        assert isinstance(prompt.given, bytes)  # noqa: S101 # for the type checker
        item = await state.decode_image(served, prompt.given)
    if ask:
        _check_picture(state, ask, item, served.lengths(prompt.size, prompt.most), _targets(ask, prompt.most))
    return item


async def _generate_one(
    state: State, served: Generator, prompt: Prompt, ask: AttentionQuery | None, *, asked: bool
) -> tuple[dict[str, object], AttentionAnswer | None, Sequence[int]]:
    """Return what is shown of a prompt, what was seen of it, and the tokens of its target."""
    item = await _source(state, served, prompt, ask)
    if prompt.target is not None:
        assert ask is not None  # noqa: S101 # what was generated before is only looked at
        return {}, await explain_generated(served, item, prompt.text, prompt.target, ask), prompt.target
    hypothesis = await served.generate(item, prompt.options)
    sight = await explain_generated(served, item, prompt.text, hypothesis.tokens, ask) if ask else None
    shown = {} if asked else present.sequence(served, hypothesis, served.penalty(prompt.options))
    return shown, sight, hypothesis.tokens


def _kept(served: ServedModel, prompts: Sequence[Prompt], targets: Sequence[Sequence[int]]) -> StoredRequest:
    inputs = tuple(prompt.given for prompt in prompts)
    return StoredRequest(
        served.manifest.name, served.manifest.version, inputs, targets=tuple(tuple(target) for target in targets)
    )


async def _events(
    request: Request, state: State, served: Generator, prompt: Prompt, item: ModelInput, ask: AttentionQuery | None
) -> AsyncIterator[bytes]:
    """Yield an event a token, then the whole answer; leaving the loop early cancels the generation."""
    grown: asyncio.Queue[Hypothesis | None] = asyncio.Queue()
    steps = ask if ask and ask.options.steps else None
    PRIORITY.set(prompt.options.priority)  # this is another task than the one that read the request
    try:
        async with asyncio.timeout(state.settings.request_seconds):
            task = asyncio.ensure_future(served.generate(item, prompt.options, grown.put_nowait))
            task.add_done_callback(lambda _: grown.put_nowait(None))
            try:
                growing = served.targets.growing()
                while hypothesis := await grown.get():
                    place, index = len(hypothesis.tokens) - 1, hypothesis.tokens[-1]
                    if index != served.generation.end:
                        event: dict[str, object] = {"index": place, "token": index, "text": growing.add(index)}
                        if steps:
                            event["attention"] = await explain_step(served, item, hypothesis.tokens, steps)
                        yield _event("token", event)
                hypothesis = await task
                sight = await explain_generated(served, item, prompt.text, hypothesis.tokens, ask) if ask else None
            finally:
                task.cancel()
        result = present.sequence(served, hypothesis, served.penalty(prompt.options))
        await state.store.put(request.state.id, _kept(served, [prompt], [hypothesis.tokens]))

        def done() -> bytes:
            return _event("done", present.answer(request.state.id, served, [_shown(result, sight)]))

        yield await state.present(served, done)
    except TimeoutError:
        yield _event("error", {"status": 504, "detail": _too_slow(state)})
    except Refusal as refusal:
        yield _event("error", {"status": int(refusal.status), "detail": refusal.detail})
    except Exception as error:  # the status line is long sent; the stream must still say that it failed
        log.error("stream failed", exc_info=error)
        yield _event("error", {"status": 500, "detail": "service: failed; the log has the request's id"})
