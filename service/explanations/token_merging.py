"""Merging tokens: into words, runs of the text without white space, or into sentences. A special token stays alone."""

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from service.explanations.sentences import sentence_starts
from service.inputs.model_input import Token
from service.options.attention import Merge

Joins: TypeAlias = Callable[[tuple[int, int], tuple[int, int]], bool]
"""Whether the second of two spans of a text, one behind the other, is of the same word or sentence as the first."""


def _in_words(text: str, apart: int) -> Joins:
    def joins(before: tuple[int, int], span: tuple[int, int]) -> bool:
        (_, end), (start, _) = before, span
        return start <= end and not text[end - 1 : end].isspace() and not text[start : start + 1].isspace()

    return joins


def _in_sentences(text: str, apart: int) -> Joins:
    """Return the rule of sentences: a token is of the one that its last character is in, and none goes on `apart`."""
    starts = sorted({*sentence_starts(text), apart})
    return lambda *spans: len({bisect_right(starts, max(end - 1, 0)) for _, end in spans}) == 1


RULES: Mapping[Merge, Callable[[str, int], Joins]] = {"words": _in_words, "sentences": _in_sentences}


def group_tokens(tokens: Sequence[Token], texts: Sequence[str], into: Merge, apart: int = 0) -> list[list[int]]:
    """Return the indices of tokens by word or sentence.

    `texts` are those that the spans lie in, one for each sequence; in the last, an answer begins at character `apart`.
    """
    rules = [RULES[into](text, apart if number == len(texts) else 0) for number, text in enumerate(texts, 1)]
    groups: list[list[int]] = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        if before and before.sequence == token.sequence and _joined(before, token, rules[token.sequence or 0]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def _joined(before: Token, token: Token, joins: Joins) -> bool:
    return before.span is not None and token.span is not None and joins(before.span, token.span)


def merge_tokens(tokens: Sequence[Token], groups: Sequence[Sequence[int]], texts: Sequence[str]) -> list[Token]:
    """Return one token for each group, with the span of all of it."""
    merged = []
    for group in groups:
        first, last = tokens[group[0]], tokens[group[-1]]
        if first.span is None or last.span is None:
            merged.append(first)
            continue
        start, end = first.span[0], max(first.span[1], last.span[1])
        text = texts[first.sequence or 0]
        while end < len(text) and unicodedata.combining(text[end]):  # a mark that no token stands for
            end += 1
        merged.append(replace(first, text=text[start:end], span=(start, end)))
    return merged


def sum_columns(values: npt.NDArray[np.float32], groups: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
    """Sum the columns of each group's tokens: attention to the parts of a word adds up."""
    return np.add.reduceat(values, [group[0] for group in groups], axis=-1)


def average_rows(values: npt.NDArray[np.float32], groups: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
    """Average the rows of each group's tokens: each token attends by itself."""
    sums = np.add.reduceat(values, [group[0] for group in groups], axis=-2)
    counts = np.array([len(group) for group in groups], values.dtype)
    return np.asarray(sums / counts[:, None], values.dtype)
