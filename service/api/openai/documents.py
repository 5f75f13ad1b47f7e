"""What OpenAI's endpoints answer: documents, and the chunks of a stream."""

import base64
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from starlette.responses import Response

from contract.chat import ASSISTANT
from service.answering.call import Answered, Call
from service.answering.generations import StreamedToken
from service.api import responses
from service.api.openai.errors import Errors
from service.generation.token_selection import Alternatives, Hypothesis
from service.http.server_sent_events import event
from service.inputs.tokenization import rest_of
from service.repository.models.generator import Generator
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction

T = TypeVar("T")
Json = dict[str, object]


@dataclass(frozen=True)
class Completion:
    """A generated text, the text and log-probability of each of its tokens, and `stop` or `length`."""

    text: str
    tokens: list[str]
    logs: list[float]
    finish_reason: str
    top_logprobs: list[dict[str, float]]
    """The likeliest tokens at each place with their log-probabilities; empty if they were not asked for."""
    others: Sequence["Completion"] = ()
    """The other texts of the prompt."""


def completion(served: Generator, hypothesis: Hypothesis) -> Completion:
    """Return the text of a target. Its end token is none of its tokens; others without a text have an empty one."""
    indices = served.generation.without_end(hypothesis.tokens)
    found_tokens = served.target_tokenizer.generated(indices, served.generation.ends)
    tokens = [one.text if one.span else "" for one in found_tokens]
    logs = list(hypothesis.logs[: len(indices)])
    found = zip(indices, tokens, logs, hypothesis.alternatives, strict=False)
    top = [top_logprobs(served, *one) for one in found]
    reason = "length" if hypothesis.cut else "stop"
    others = [completion(served, one) for one in hypothesis.others]
    text = served.target_tokenizer.decode(indices)[: hypothesis.until]
    return Completion(text, tokens, logs, reason, top, others)


def top_logprobs(served: Generator, token: int, text: str, log: float, found: Alternatives) -> dict[str, float]:
    """Return the log-probabilities of the likeliest texts at a place, best first, and of the one that was chosen.

    Two tokens can have the same text, such as parts of a character; then the likelier one counts.
    """
    top: dict[str, float] = {}
    for other, its_log in found:
        top.setdefault(text if other == token else served.target_tokenizer.text_of(other), its_log)
    top.setdefault(text, log)
    return top


def embedding(vector: Prediction) -> Json:
    """Return an embedding as a list of numbers."""
    return {"embedding": vector}


def base64_embedding(vector: Prediction) -> Json:
    """Return an embedding as base64 of little-endian float32."""
    return {"embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode()}


@dataclass(frozen=True)
class Embeddings:
    """Writes the answer of `/v1/embeddings`."""

    call: Call[Predictor]

    async def __call__(self, answered: Answered[Json]) -> Response:
        """Return the answer."""
        return await self.call.present(lambda: responses.respond(self._document(answered)))

    def _document(self, answered: Answered[Json]) -> Json:
        """Return the answer's document; by its id, attention can be asked for later."""
        tokens = answered.cost
        return {
            "object": "list",
            "id": answered.id,
            "model": self.call.served.manifest.name,
            "data": [
                responses.result({"object": "embedding", "index": index, **(shown or {})}, attention)
                for index, (shown, attention) in enumerate(answered.results)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }


@dataclass(frozen=True)
class Completions:
    """Writes the answer of `/v1/completions`."""

    call: Call[Generator]
    with_logs: bool
    """True if the log-probabilities of tokens are asked for."""
    prefix: ClassVar[str] = "cmpl"
    """Of the id of an answer, behind which is ours."""
    kind: ClassVar[str] = "text_completion"
    chunk_kind: ClassVar[str] = "text_completion"

    async def __call__(self, answered: Answered[Completion]) -> Response:
        """Return the answer."""
        return await self.call.present(lambda: responses.respond(self._document(answered)))

    def _document(self, answered: Answered[Completion]) -> Json:
        texts = [
            (one, None if place else found)  # attention is of the first text of a prompt
            for first, found in answered.results
            if first
            for place, one in enumerate((first, *first.others))
        ]
        choices = [
            responses.result(
                self.choice(index, one.text, one.finish_reason, self.logprobs(one.tokens, one.logs, one.top_logprobs)),
                found,
            )
            for index, (one, found) in enumerate(texts)
        ]
        return {**self.frame(self.kind), "choices": choices, "usage": self.usage(answered)}

    def frame(self, kind: str) -> Json:
        """Return what the answer, or a chunk of it, begins with."""
        return {
            "id": f"{self.prefix}-{self.call.exchange.own_id}",
            "object": kind,
            "created": int(time.time()),
            "model": self.call.served.manifest.name,
        }

    def choice(self, index: int, text: str, finish_reason: str | None, logprobs: Json | None) -> Json:
        """Return the completion of a prompt."""
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}

    def part(self, text: str, finish_reason: str | None, logprobs: Json | None, *, first: bool) -> Json:
        """Return a part of the only completion."""
        return self.choice(0, text, finish_reason, logprobs)

    def logprobs(
        self, tokens: Sequence[str], logs: Sequence[float], top: Sequence[dict[str, float]], start: int = 0
    ) -> Json | None:
        """Return what is said of tokens whose first one begins at character `start` of the completion."""
        if not self.with_logs:
            return None
        offsets = itertools.accumulate(map(len, tokens[:-1]), initial=start)
        return {
            "tokens": tokens,
            "token_logprobs": logs,
            "top_logprobs": top or None,
            "text_offset": list(offsets)[: len(tokens)],
        }

    def usage(self, answered: Answered[Completion]) -> dict[str, int]:
        """Return how many tokens the prompts and their completions have."""
        prompts = answered.cost
        completions = sum(len(one.tokens) for first in answered.shown for one in (first, *first.others))
        return {"prompt_tokens": prompts, "completion_tokens": completions, "total_tokens": prompts + completions}


class ChatCompletions(Completions):
    """Writes the answer of `/v1/chat/completions`."""

    prefix, kind, chunk_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def choice(self, index: int, text: str, finish_reason: str | None, logprobs: Json | None) -> Json:
        """Return an answer to the messages."""
        message = {"role": ASSISTANT, "content": text, "refusal": None}
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": finish_reason}

    def part(self, text: str, finish_reason: str | None, logprobs: Json | None, *, first: bool) -> Json:
        """Return a part of the only answer, the first of which says whose it is."""
        delta = {"role": ASSISTANT, "content": text} if first else {"content": text} if text else {}
        return {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}

    def logprobs(
        self, tokens: Sequence[str], logs: Sequence[float], top: Sequence[dict[str, float]], start: int = 0
    ) -> Json | None:
        """Return what is said of tokens."""
        if not self.with_logs:
            return None
        content = [
            _token(text, log) | {"top_logprobs": [_token(*other) for other in likely.items()]}
            for text, log, likely in zip(tokens, logs, top or [{}] * len(tokens), strict=True)
        ]
        return {"content": content, "refusal": None}


def _token(text: str, log: float) -> Json:
    """Return what a chat says of a token."""
    return {"token": text, "logprob": log, "bytes": list(text.encode())}


class Chunks:
    """Writes the events of a stream of one completion: a chunk for each token, a last one, the usage if asked."""

    def __init__(self, whole: Completions, errors: Errors, *, with_usage: bool) -> None:
        self._whole, self._errors = whole, errors
        self._frame = whole.frame(whole.chunk_kind)
        self._begun = False
        self._usage: Json = {"usage": None} if with_usage else {}
        self._text = ""
        self._length = 0
        """Of the texts of all tokens so far, in characters: those of a word that stops the text count, too."""

    def token(self, streamed: StreamedToken) -> bytes:
        """Return the chunk of a token."""
        top, served, one = [], self._whole.call.served, streamed
        if one.alternatives:
            top = [top_logprobs(served, one.token, one.text, one.log, one.alternatives)]
        logprobs = self._whole.logprobs([one.text], [one.log], top, self._length)
        choice = self._part(one.shown, None, logprobs)
        self._text += one.shown
        self._length += len(one.text)
        return self._chunk([choice | {"attention": one.attention} if one.attention else choice])

    def done(self, answered: Answered[Completion]) -> bytes:
        """Return the last chunks, and the mark of the end."""
        ((completion, attention),) = answered.results
        assert completion is not None  # noqa: S101 # a stream shows what it generates
        # characters whose last bytes never came are in the text of the whole alone
        rest = rest_of(completion.text, self._text)
        choice = self._part(rest, completion.finish_reason, self._whole.logprobs([], [], []))
        last = self._chunk([responses.result(choice, attention)])
        if self._usage:
            last += event("", {**self._frame, "choices": [], "usage": self._whole.usage(answered)})
        return last + b"data: [DONE]\n\n"

    def failed(self, status: int, detail: str) -> bytes:
        """Return the event of a failure."""
        return event("", self._errors.document(status, detail))

    def _part(self, text: str, finish_reason: str | None, logprobs: Json | None) -> Json:
        first, self._begun = not self._begun, True
        return self._whole.part(text, finish_reason, logprobs, first=first)

    def _chunk(self, choices: list[Json]) -> bytes:
        return event("", {**self._frame, "choices": choices, **self._usage})
