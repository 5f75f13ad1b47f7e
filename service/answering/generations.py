"""Generation: a request's inputs are checked, admitted, generated from, and answered, whole or as a stream."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.modalities import PendingInput, check_pair, permit_decoding
from service.answering.predictions import keep
from service.concurrency import together
from service.errors import Unacceptable, about_input
from service.explanations.answer import AttentionAnswer
from service.explanations.answer_size import check_picture, check_size
from service.explanations.pictures import Space
from service.explanations.query import AttentionQuery, check_runs
from service.generation.token_selection import Alternatives, Hypothesis
from service.http.server_sent_events import EventStream
from service.inputs.model_input import ModelInput, Text, cost_of
from service.inputs.tokenization import rest_of
from service.options.generation import GenerateOptions
from service.repository.explaining.explain import explain_generated, explain_step
from service.repository.explaining.long_texts import check_explained_tokens
from service.repository.explaining.subjects import evaluation_cost
from service.repository.models.generator import Generator, stops_of, with_tokens
from service.state import State
from service.store.stored_request import StoredRequest

T = TypeVar("T")


@dataclass(frozen=True)
class StreamedToken:
    """A generated token as a stream sends it."""

    index: int
    """Its place in the target."""
    token: int
    text: str
    """What it adds to what the model writes."""
    shown: str
    """What may be shown since the last one: no word that stops the text, and no beginning of one."""
    log: float
    """Its log-probability."""
    alternatives: Alternatives = ()
    """The likeliest tokens at its place, if they were asked for."""
    attention: object = None
    """Its row of attention, if that was asked for."""
    last: bool = False
    """True if no other follows: there is no room, or a word stops the text."""


class Events(Protocol[T]):
    """How a protocol writes the events of a stream."""

    def token(self, streamed: StreamedToken) -> bytes:
        """Return the event of a token, or nothing."""

    def done(self, answered: Answered[T]) -> bytes:
        """Return the event, or events, after the last token."""

    def failed(self, status: int, detail: str) -> bytes:
        """Return the last event of a stream that fails: the status that the answer would have had, and why."""


@dataclass(frozen=True)
class Prompt:
    """An input to generate from, with its options, and its target if that was generated earlier."""

    pending: PendingInput
    size: int
    """Tokens or patches of the input."""
    most: int
    """The most tokens that its target can have."""
    options: GenerateOptions
    target: Sequence[int] | None = None

    @property
    def text(self) -> Text:
        """What the spans of its tokens lie in; empty for an image."""
        return self.pending.text


async def generate(
    call: Call[Generator],
    options: GenerateOptions,
    show: Callable[[Hypothesis], T] | None,
    respond: Callable[[Answered[T]], Awaitable[Response]],
    events: Events[T] | None = None,
    targets: Sequence[Sequence[int]] | None = None,
) -> Response:
    """Return what `respond` makes of the targets of all inputs, each as `show` has it, and of their attention.

    Without `show` the request is for attention alone. `events` writes the answer of a request that asks for a stream;
    `targets` are those that were generated before.
    """
    state, served, query, modality = call.state, call.served, call.query, call.modality
    languages = served.language_tokens(options)
    if options.num_return_sequences is None and (events is None or show is None):
        options = options.model_copy(update={"num_return_sequences": 1})  # whatever the model's own
    if options.bad_words:
        options = await asyncio.to_thread(with_tokens, served, options)
    served.search(options)  # refuses what cannot be searched before anything is done
    _check_options(call, options, events if show else None)
    count, texts = len(call.inputs), options.texts(served.generation)
    if count * texts > max(count, state.settings.max_inputs):
        most = max(1, state.settings.max_inputs // count)
        raise Unacceptable(f"num_return_sequences: at most {most} of {count} inputs, given {texts}")
    for number, given in enumerate(call.inputs):
        if not isinstance(given, bytes):
            with about_input(number, count):
                check_pair(served, given)
    caller = call.caller(options)
    likely = served.likely_cost(modality.likely_lengths(call.inputs), options) if targets is None else 0
    with served.prediction_budget.permit(likely, caller):  # without room, texts would be tokenized in vain
        pending = await modality.prepare(state, call.inputs, languages=languages)
    written = [None] * len(pending) if targets is None else targets
    prompts = []
    for number, (one, target) in enumerate(zip(pending, written, strict=True)):
        with about_input(number, count):
            prompts.append(_prompt(served, one, target, query, options))
    tokens, maps = _costs(state, served, prompts, query)
    options.check_size(texts * sum(one.most for one in prompts), state.settings.max_answer_bytes)
    space = Space(state.settings.max_image_pixels, len(prompts))
    with contextlib.ExitStack() as explaining, contextlib.ExitStack() as generating:
        explaining.enter_context(served.attention_budget.permit(maps, caller, len(prompts)))
        generating.enter_context(served.prediction_budget.permit(tokens, caller, len(prompts) * texts))
        explaining.enter_context(permit_decoding(pending, caller))
        if options.stream and events and show:  # as was checked
            (prompt,) = prompts
            item = await _decode(served, prompt, query, space)  # a refusal of it still has a status of its own
            explaining.enter_context(served.uses.used())
            generation = _Generation(call, prompt, item, show, events, generating.pop_all())
            held = explaining.pop_all()
            held.push(generation.held)
            return EventStream(
                generation.stream, events.failed, state.settings.request_seconds, held, call.exchange, state.unread
            )
        results = await together(_generate_one(call, prompt, show, space) for prompt in prompts)
        generating.close()
        answer_id = await keep(call, _stored(served, prompts, [target for *_, target in results]))
        shown = [(sequence, answer) for sequence, answer, _ in results]
        return await respond(Answered(answer_id, shown, pending))


def _check_options(call: Call[Generator], options: GenerateOptions, events: Events[T] | None) -> None:
    """Raise Unacceptable for a stream of what cannot be streamed, or what this endpoint has not (without `events`)."""
    if options.stream and events is None:
        raise Unacceptable("stream: is for generate; this is answered whole")
    if options.alternatives and events is None:
        raise Unacceptable("alternatives: is for generate; this answer shows no tokens that were chosen")
    if (options.num_return_sequences or 1) > 1 and events is None:
        raise Unacceptable("num_return_sequences: is for generate; this answer is of one text an input")
    if options.stream and len(call.inputs) > 1:
        raise Unacceptable(f"stream: takes one input, given {len(call.inputs)}")
    if call.query and call.query.streams_steps and not options.stream:
        raise Unacceptable("steps: is for stream")


def _prompt(
    served: Generator,
    pending: PendingInput,
    target: Sequence[int] | None,
    query: AttentionQuery | None,
    options: GenerateOptions,
) -> Prompt:
    """Return an input with the most tokens that its target can have. Raises Unacceptable if there is no room."""
    size = cost_of(pending.lengths)
    # with align=input the last token is fed too; where targets continue their source, there is room for it
    spare = int(query is not None and query.options.align == "input" and not served.continues)
    if target is not None:
        if len(target) + spare > served.generation.max_new_tokens:
            raise Unacceptable("align: this answer is as long as the model allows, its last token cannot be fed")
        return Prompt(pending, size, len(target), options, target)
    limit = served.limit(options, size, spare)
    return Prompt(pending, size, limit, options.model_copy(update={"max_new_tokens": limit}))


def _costs(state: State, served: Generator, prompts: Sequence[Prompt], query: AttentionQuery | None) -> tuple[int, int]:
    """Return the most that prompts may cost: tokens to generate, and bytes of maps to compute.

    Raises TooLarge for an attention answer that could become too large, or that takes too much memory to compute.
    """
    tokens = sum(served.cost(one.size, one.most, one.options) for one in prompts if one.target is None)
    if not query:
        return tokens, 0
    lengths = [served.lengths(prompt.size, prompt.most) for prompt in prompts]
    targets = [query.count_targets(prompt.most) for prompt in prompts]
    check_size(query, lengths, targets, state.settings.max_answer_bytes)
    check_explained_tokens(served, query, lengths, targets)
    served.check_run(query, lengths)
    evaluation = sum(evaluation_cost(served, query))  # its scores are read off the attention graph too
    runs = [count * query.runs + query.diagnosed_apart + evaluation for count in targets]
    if query.streams_steps:  # beside what explains the whole target, a run for each token as it is generated
        runs = [count + prompt.most for count, prompt in zip(runs, prompts, strict=True)]
    check_runs(sum(runs), query)
    size = served.footprint.gradient if query.by_gradient else served.footprint.maps
    return tokens, sum(size(one) * count for one, count in zip(lengths, runs, strict=True))


def check_explained(
    state: State, served: Generator, query: AttentionQuery, item: ModelInput, target: int, space: Space
) -> int:
    """Return the bytes of maps that explaining a target of `target` tokens computes.

    Raises TooLarge for an answer that would become too large, that takes too much memory, or cannot be drawn.
    """
    lengths = served.lengths(cost_of(item.lengths), target)
    targets = query.count_targets(target)
    check_size(query, [lengths], [targets], state.settings.max_answer_bytes)
    served.check_run(query, [lengths])
    check_picture(query, lengths, item.picture, targets, space)
    runs = targets * query.runs + query.diagnosed_apart + sum(evaluation_cost(served, query))
    check_runs(runs, query)
    size = served.footprint.gradient if query.by_gradient else served.footprint.maps
    return size(lengths) * runs


async def _decode(served: Generator, prompt: Prompt, query: AttentionQuery | None, space: Space) -> ModelInput:
    """Return the decoded input. Raises what decoding does, and TooLarge for a picture that cannot be drawn of it."""
    item = await prompt.pending.decode()
    if query:
        lengths = served.lengths(prompt.size, prompt.most)
        targets = query.count_targets(prompt.most)
        check_picture(query, lengths, item.picture, targets, space)
    return item


async def _generate_one(
    call: Call[Generator], prompt: Prompt, show: Callable[[Hypothesis], T] | None, space: Space
) -> tuple[T | None, AttentionAnswer | None, Sequence[int]]:
    """Return what is shown of a prompt's target, its attention answer, and its tokens."""
    served = call.served
    item = await _decode(served, prompt, call.query, space)
    shown, target = None, prompt.target
    if target is None:
        hypothesis = await _drawn(call, prompt, item)
        target = hypothesis.tokens
        shown = await _shown(call, prompt.options, show, hypothesis) if show else None
    return shown, await _explain(call, prompt, item, target), target


async def _drawn(call: Call[Generator], prompt: Prompt, item: ModelInput) -> Hypothesis:
    """Return the target of a prompt, with the others that are asked for: what is sampled is drawn again for each."""
    served, options, caller = call.served, prompt.options, call.caller(prompt.options)
    count = 1 if options.beams(served.generation) > 1 else options.texts(served.generation)
    seeds = [None if options.seed is None else (options.seed + place) % 2**63 for place in range(count)]
    first, *others = await together(
        served.generate(item, options.model_copy(update={"seed": seed}), caller=caller) for seed in seeds
    )
    return first._replace(others=(*first.others, *others))


async def _shown(
    call: Call[Generator], options: GenerateOptions, show: Callable[[Hypothesis], T], hypothesis: Hypothesis
) -> T:
    """Return what is shown of a target. Many alternatives take long, so they are made on a thread of their own."""
    if not options.alternatives:
        return show(hypothesis)
    served = call.served
    return await call.state.present(served.manifest.name, served.prediction_budget, show, hypothesis)


async def _explain(
    call: Call[Generator], prompt: Prompt, item: ModelInput, target: Sequence[int]
) -> AttentionAnswer | None:
    if call.query is None:
        return None
    caller = call.caller(prompt.options)
    return await explain_generated(call.served, item, prompt.text, target, call.query, caller)


def _stored(served: Generator, prompts: Sequence[Prompt], targets: Sequence[Sequence[int]]) -> StoredRequest:
    inputs, tokens = tuple(prompt.pending.given for prompt in prompts), tuple(map(tuple, targets))
    options = prompts[0].options
    return StoredRequest(
        served.manifest.name,
        served.manifest.version,
        inputs,
        targets=tokens,
        source_language=options.source_language,
        target_language=options.target_language,
    )


@dataclass(frozen=True)
class _Generation(Generic[T]):
    """One generation whose tokens are streamed."""

    call: Call[Generator]
    prompt: Prompt
    item: ModelInput
    show: Callable[[Hypothesis], T]
    events: Events[T]
    held: contextlib.ExitStack
    """What is held of the queue until the last token is generated."""

    async def stream(self, send: Callable[[bytes], None]) -> None:
        """Send an event for each token, then the whole answer. Raises what generating and explaining do."""
        call, prompt = self.call, self.prompt
        state, served, query = call.state, call.served, call.query
        with self.held:
            hypothesis = await self._generate(send)
        attention = await _explain(call, prompt, self.item, hypothesis.tokens)
        shown = await _shown(call, prompt.options, self.show, hypothesis)
        answer_id = await keep(call, _stored(served, [prompt], [hypothesis.tokens]))
        answered = Answered(answer_id, [(shown, attention)], [prompt.pending])
        budget = served.attention_budget if query else served.prediction_budget
        send(await state.present(served.manifest.name, budget, self.events.done, answered))

    async def _generate(self, send: Callable[[bytes], None]) -> Hypothesis:
        """Return the generated target; send an event for each of its tokens."""
        served, query, options = self.call.served, self.call.query, self.prompt.options
        caller = self.call.caller(options)
        grown: asyncio.Queue[Hypothesis | None] = asyncio.Queue()
        task = asyncio.ensure_future(served.generate(self.item, options, grown.put_nowait, caller))
        task.add_done_callback(lambda _: grown.put_nowait(None))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody waits where attention fails
        try:
            growing, written, shown = served.target_tokenizer.text_stream(), "", 0
            stops = stops_of(served, options)
            while hypothesis := await grown.get():
                index, token = len(hypothesis.tokens) - 1, hypothesis.tokens[-1]
                if token in served.generation.ends:
                    continue
                attention = None
                text = growing.add(token)
                if last := len(hypothesis.tokens) == self.prompt.most or stops.reached(hypothesis.tokens):
                    text += rest_of(served.target_tokenizer.decode(hypothesis.tokens), written + text)
                written += text
                before, shown = shown, stops.shown(written, ended=last)
                if query and query.streams_steps:
                    attention = await explain_step(served, self.item, hypothesis.tokens, query, caller)
                streamed = StreamedToken(
                    index,
                    token,
                    text,
                    written[before:shown],
                    hypothesis.logs[-1],
                    hypothesis.alternatives_at(-1),
                    attention,
                    last,
                )
                if one := self.events.token(streamed):
                    send(one)
            return await task
        finally:
            task.cancel()
