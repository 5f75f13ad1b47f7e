"""Transcription: sounds are decoded, heard window by window, and explained if a request asks for attention."""

import contextlib
import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

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
Result: TypeAlias = tuple[T | None, AttentionAnswer | None, list[int]]
"""What is shown of a sound, its attention answer, and its target."""
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
    work = _Work(call, options, await call.modality.prepare(state, call.inputs), show, targets)
    with contextlib.ExitStack() as held:
        cost = sum(_cost(served, one) for one in work.pending) if targets is None else 0
        held.enter_context(served.prediction_budget.permit(cost, caller, count))
        held.enter_context(permit_decoding(work.pending, caller))
        if options.stream and events:
            held.enter_context(served.uses.used())
            produce = functools.partial(work.stream, events)
            seconds = state.settings.request_seconds
            return EventStream(produce, events.failed, seconds, held.pop_all(), call.exchange, state.unread)
        results = await together(work.answer(number) for number in range(count))
        return await respond(await work.answered(results))


@dataclass(frozen=True)
class _Work(Generic[T]):
    """The sounds of a request, none of which is decoded yet."""

    call: Call[Transcriber]
    options: TranscribeOptions
    pending: Sequence[PendingInput]
    show: Callable[[Transcript], T] | None
    targets: Sequence[Sequence[int]] | None

    async def answer(self, number: int, heard: Callable[[Segment], None] | None = None) -> Result[T]:
        """Return what is shown of a sound, its attention answer, and its target."""
        item = await self.pending[number].decode()
        with about_input(number, len(self.pending)):
            served, seconds = self.call.served, item.sound.seconds if item.sound else 0.0
            if self.call.query and seconds > served.inputs.rule.seconds:
                most = served.inputs.rule.seconds
                raise Unacceptable(f"attention: is of sounds of at most {most:g} seconds, given {seconds:.1f}; cut it")
            if self.targets is not None:
                target = list(self.targets[number])
                return None, await self._explain(item, target), target
            assert item.sound  # noqa: S101 # as its rule says
            caller = self.call.caller(self.options)
            transcript = await served.transcribe(item.sound, self.options, caller, heard)
            attention = await self._explain(item, transcript.target)
            shown = self.show(transcript.with_shares(shares_of(attention))) if self.show else None
            return shown, attention, list(transcript.target)

    async def _explain(self, item: ModelInput, target: Sequence[int]) -> AttentionAnswer | None:
        call = self.call
        if call.query is not None and not target and self.show is None:
            raise Unacceptable("attention: is of what was said, and nothing was")
        if call.query is None or not target:
            return None
        space = Space(call.state.settings.max_image_pixels, len(self.pending))
        cost = check_explained(call.state, call.served, call.query, item, len(target), space)
        caller = call.caller(self.options)
        with call.served.attention_budget.permit(cost, caller):
            return await explain_generated(call.served, item, "", target, call.query, caller)

    async def stream(self, events: SegmentEvents[T], send: Callable[[bytes], None]) -> None:
        """Send an event for each segment, then the whole answer."""
        result = await self.answer(0, lambda one: send(events.segment(one)))
        served = self.call.served
        answered = await self.answered([result])
        send(await self.call.state.present(served.manifest.name, served.prediction_budget, events.done, answered))

    async def answered(self, results: Sequence[Result[T]]) -> Answered[T]:
        """Store the request, and return what it is answered with."""
        manifest, given = self.call.served.manifest, tuple(one.given for one in self.pending)
        targets = tuple(tuple(target) for *_, target in results)
        stored = StoredRequest(manifest.name, manifest.version, given, targets=targets)
        shown = [(one, attention) for one, attention, _ in results]
        return Answered(await keep(self.call, stored), shown, self.pending)


def shares_of(attention: AttentionAnswer | None) -> dict[int, float]:
    """Return the share of the sound in what each explained token rests on, by its place in the target."""
    entries: Any = attention.maps[0].entry.get("targets", ()) if attention and attention.maps else ()
    return {one["position"]: one["parts"]["source"]["share"] for one in entries if "parts" in one}


def _cost(served: Transcriber, pending: PendingInput) -> int:
    """Return the tokens that a sound probably costs: those of its windows' frames, and what is written of them."""
    samples = pending.files.announced[pending.number] if pending.files else 0
    return served.windows(samples) * (served.inputs.rule.frames + TOKENS_PER_WINDOW)
