"""Filled masks as Hugging Face's clients take them: every candidate with the whole text that it makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
from pydantic import Field
from starlette.responses import Response

from service.answering.call import Answered
from service.api import responses
from service.arrays import softmax
from service.errors import TooLarge, Unacceptable
from service.generation.token_selection import likeliest
from service.options.masks import FillMaskOptions
from service.options.predictions import CANDIDATE_BYTES
from service.options.readers import MOST_TARGETS
from service.repository.models.mask_filler import MaskFiller
from service.repository.models.served_model import Prediction

Candidates = list[tuple[int, float]]
"""Of one mask: tokens with their probabilities, best first."""
Spans = list[tuple[int, int]]
"""Of the masks of a text, in characters."""


class FilledTexts(FillMaskOptions):
    """Options of fill-mask where each candidate is answered with its whole text."""

    text_bytes: int = 0
    """Of the longest text, in JSON."""

    def check_answer(self, lengths: Sequence[Mapping[str, int]], limit: int) -> None:
        """Raise TooLarge if the candidates of all masks, each with its text, would exceed a limit in bytes."""
        size = sum(one["masked"] for one in lengths) * self.top_k * (CANDIDATE_BYTES + self.text_bytes)
        if size > limit:
            raise TooLarge(f"candidates: at most {limit} bytes an answer, this one would have {size}; lower top_k")


class FillMaskParameters(FillMaskOptions):
    """Parameters of fill-mask."""

    targets: list[str] | None = Field(
        None, min_length=1, max_length=MOST_TARGETS, description="the tokens that a mask may stand for; all, by default"
    )

    def tokens(self, served: MaskFiller) -> list[int] | None:
        """Return the targets' tokens, each once; None for all. Raises Unacceptable for a target that is no token."""
        if self.targets is None:
            return None
        found = [served.token_of(target) for target in self.targets]
        tokens = [token for token in found if token is not None and token < served.output_size]
        if len(tokens) < len(found):
            raise Unacceptable(f"targets: each must be one token, given {len(found) - len(tokens)} that are not")
        return list(dict.fromkeys(tokens))

    def filled(self, texts: Sequence[object]) -> FilledTexts:
        """Return the options of a prediction for these texts."""
        longest = max((len(orjson.dumps(text)) for text in texts if isinstance(text, str)), default=0)
        top_k = self.top_k if self.targets is None else min(self.top_k, len(self.targets))
        return FilledTexts(top_k=top_k, truncate=self.truncate, priority=self.priority, text_bytes=longest)


@dataclass(frozen=True)
class Filling:
    """How the masks of texts are filled: by the likeliest tokens, or by the likeliest of some."""

    served: MaskFiller
    top_k: int
    targets: list[int] | None

    def __call__(self, logits: Prediction) -> list[Candidates]:
        """Return the candidates of every mask of a text. Probabilities are among all tokens."""
        return [self._candidates(row) for row in logits]

    def _candidates(self, row: Prediction) -> Candidates:
        chances = softmax(row)
        if self.targets is None:
            order = likeliest(chances, self.top_k)
        else:
            some = np.array(self.targets)
            order = some[likeliest(chances[some], self.top_k)]
        return list(zip(order.tolist(), chances[order].tolist(), strict=True))

    def write(
        self, texts: Sequence[str], spans: Sequence[Spans], found: Sequence[list[Candidates]], *, several: bool
    ) -> Response:
        """Return the answer to texts, or to a single one."""
        filled = [self._filled(*one) for one in zip(texts, spans, found, strict=True)]
        return responses.respond(filled if several else filled[0])

    def _filled(self, text: str, spans: Spans, found: list[Candidates]) -> object:
        masks = [self._shown(text, *one) for one in zip(spans, found, strict=True)]
        return masks[0] if len(masks) == 1 else masks

    def _shown(self, text: str, span: tuple[int, int], candidates: Candidates) -> list[dict[str, object]]:
        before, behind = text[: span[0]], text[span[1] :]
        swallowed = text[slice(*span)][:1].isspace()
        return [
            {
                "score": chance,
                "token": token,
                "token_str": self.served.text_of(token),
                "sequence": self._joined(before, token, swallowed) + behind,
            }
            for token, chance in candidates
        ]

    def _joined(self, before: str, token: int, swallowed: bool) -> str:
        """Return a text with a token behind it."""
        piece = self.served.tokenizer.piece(token)
        text = self.served.text_of(token)
        if piece.startswith("##") and text.startswith("##"):  # WordPiece: it goes on with the word before
            return before.rstrip() + text[2:]
        if piece.startswith("\u2581") and not text[:1].isspace() and before and (swallowed or not before[-1].isspace()):
            return f"{before} {text}"  # SentencePiece: its own space is lost where it is decoded alone
        return before + text


async def mask_spans(served: MaskFiller, answered: Answered[list[Candidates]]) -> list[Spans]:
    """Return where the masks of each input are."""
    items = [await one.decode() for one in answered.inputs]
    return [[token.span for token in item.tokens if token.index == served.mask_index and token.span] for item in items]
