"""Transcription: sounds are decoded, heard window by window, and explained if a request asks for attention."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.generations import check_explained
from service.answering.modalities import PendingInput, permit_decoding
from service.answering.predictions import keep
from service.concurrency import together
from service.errors import Unacceptable, about_input
from service.explanations.answer import AttentionAnswer
from service.explanations.pictures import Space
from service.http.server_sent_events import EventStream
from service.inputs.model_input import ModelInput
from service.options.transcription import TranscribeOptions
from service.repository.explaining.explain import explain_generated
from service.repository.models.transcriber import Transcriber
from service.repository.models.transcript import Segment, Transcript
from service.store.stored_request import StoredRequest

T = TypeVar("T")
TOKENS_PER_WINDOW = 100
"""What half a minute of speech has, more or less."""


class SegmentEvents(Protocol[T]):
    """How a protocol writes the events of a stream."""

    def segment(self, heard: Segment) -> bytes:
        """Return the event of a segment, or nothing."""

    def done(self, answered: Answered[T]) -> bytes:
        """Return the event, or events, after the last segment."""

    def failed(self, status: int, detail: str) -> bytes:
        """Return the last event of a stream that fails: the status that the answer would have had, and why."""


async def transcribe(
    call: Call[Transcriber],
    options: TranscribeOptions,
    show: Callable[[Transcript], T] | None,
    respond: Callable[[Answered[T]], Awaitable[Response]],
    events: SegmentEvents[T] | None = None,
    targets: Sequence[Sequence[int]] | None = None,
) -> Response:
    """Return what `respond` makes of what was said in all sounds, each as `show` has it, and of its attention.

    Without `show` the request is for attention alone. `events` writes the answer of a request that asks for a stream;
    `targets` are those that were written before.
    """
    state, served, count = call.state, call.served, len(call.inputs)
    served.language_of(options)  # refuses what cannot be answered before anything is done
    served.prompt_of(options)
    if options.stream and (events is None or show is None):
        raise Unacceptable("stream: is for transcribe; this is answered whole")
    if options.stream and count > 1:
        raise Unacceptable(f"stream: takes one sound, given {count}")
    caller = call.caller(options)
    pending = await call.modality.prepare(state, call.inputs)
    cost = sum(_cost(served, one) for one in pending)
    space = Space(state.settings.max_image_pixels, count)

    async def hear(
        number: int, heard: Callable[[Segment], None] | None = None
    ) -> tuple[T | None, ModelInput, list[int]]:
        item = await pending[number].decode()
        with about_input(number, count):
            if call.query and item.sound and item.sound.seconds > served.inputs.rule.seconds:
                raise Unacceptable(
                    f"attention: is of sounds of at most {served.inputs.rule.seconds:g} seconds, "
                    f"given {item.sound.seconds:.1f}; cut it"
                )
            if targets is not None:
                return None, item, list(targets[number])
            assert item.sound  # noqa: S101 # as its rule says
            transcript = await served.transcribe(item.sound, options, caller, heard)
            return (show(transcript) if show else None), item, list(transcript.target)

    async def explain(number: int, item: ModelInput, target: Sequence[int]) -> AttentionAnswer | None:
        if call.query is None:
            return None
        with about_input(number, count):
            bytes_of_maps = check_explained(state, served, call.query, item, len(target), space)
            with served.attention_budget.permit(bytes_of_maps, caller):
                return await explain_generated(served, item, "", target, call.query, caller)

    async def answer(
        number: int, heard: Callable[[Segment], None] | None = None
    ) -> tuple[T | None, AttentionAnswer | None, list[int]]:
        shown, item, target = await hear(number, heard)
        return shown, await explain(number, item, target), target

    async def stored(found: Sequence[list[int]]) -> str:
        given, manifest = tuple(one.given for one in pending), served.manifest
        return await keep(call, StoredRequest(manifest.name, manifest.version, given, targets=tuple(map(tuple, found))))

    with contextlib.ExitStack() as held:
        held.enter_context(served.prediction_budget.permit(cost if targets is None else 0, caller, count))
        held.enter_context(permit_decoding(pending, caller))
        if options.stream and events:
            held.enter_context(served.uses.used())

            async def produce(send: Callable[[bytes], None]) -> None:
                shown, attention, target = await answer(0, lambda one: send(events.segment(one)))
                answered = Answered(await stored([target]), [(shown, attention)], pending)
                send(await state.present(served.manifest.name, served.prediction_budget, events.done, answered))

            seconds = state.settings.request_seconds
            return EventStream(produce, events.failed, seconds, held.pop_all(), call.exchange, state.unread)
        results = await together(answer(number) for number in range(count))
        answer_id = await stored([target for *_, target in results])
        return await respond(Answered(answer_id, [(one, attention) for one, attention, _ in results], pending))


def _cost(served: Transcriber, pending: PendingInput) -> int:
    """Return the tokens that a sound probably costs: those of its windows' frames, and what is written of them."""
    samples = pending.files.announced[pending.number] if pending.files else 0
    return served.windows(samples) * (served.inputs.rule.frames + TOKENS_PER_WINDOW)
