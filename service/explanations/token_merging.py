"""Merging tokens into words: a word is a run of the text without white space; a special token is its own word."""

import unicodedata
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from service.inputs.model_input import Token


def group_by_word(tokens: Sequence[Token], texts: Sequence[str]) -> list[list[int]]:
    """Return the indices of tokens by word; `texts` are those that the spans lie in, one for each sequence."""
    groups: list[list[int]] = []
    for index, token in enumerate(tokens):
        if index and _same_word(tokens[index - 1], token, texts):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def _same_word(before: Token, token: Token, texts: Sequence[str]) -> bool:
    if before.span is None or token.span is None or before.sequence != token.sequence:
        return False
    text = texts[token.sequence or 0]
    (_, end), (start, _) = before.span, token.span
    return start <= end and not text[end - 1 : end].isspace() and not text[start : start + 1].isspace()


def merge_tokens(tokens: Sequence[Token], groups: Sequence[Sequence[int]], texts: Sequence[str]) -> list[Token]:
    """Return one token for each word, with the span of the whole word."""
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
    """Sum the columns of each word's tokens: attention to the parts of a word adds up."""
    return np.add.reduceat(values, [group[0] for group in groups], axis=-1)


def average_rows(values: npt.NDArray[np.float32], groups: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
    """Average the rows of each word's tokens: each token attends by itself."""
    sums = np.add.reduceat(values, [group[0] for group in groups], axis=-2)
    counts = np.array([len(group) for group in groups], values.dtype)
    return np.asarray(sums / counts[:, None], values.dtype)
