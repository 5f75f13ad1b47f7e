"""Filled masks as Hugging Face's clients take them: every candidate with the whole text that it makes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from starlette.responses import Response

from service.answering.call import Answered
from service.api import responses
from service.arrays import softmax
from service.generation.token_selection import likeliest
from service.repository.models.predictor import MaskFiller
from service.repository.models.served_model import Prediction

Candidates = list[tuple[int, float]]
"""Of one mask: tokens with their probabilities, best first."""
Spans = list[tuple[int, int]]
"""Of the masks of a text, in characters."""


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
        piece, text = self.served.tokenizer.piece(token), self.served.text_of(token)
        if piece.startswith("##") and text.startswith("##"):  # WordPiece: it goes on with the word before
            return before.rstrip() + text[2:]
        if piece.startswith("\u2581") and not text[:1].isspace() and before and (swallowed or not before[-1].isspace()):
            return f"{before} {text}"  # SentencePiece: its own space is lost where it is decoded alone
        return before + text


async def mask_spans(served: MaskFiller, answered: Answered[list[Candidates]]) -> list[Spans]:
    """Return where the masks of each input are."""
    items = [await one.decode() for one in answered.inputs]
    return [[token.span for token in item.tokens if token.index == served.mask_index and token.span] for item in items]
