"""The entities of a text, made of the probabilities of its tokens' labels.

The rules are those of the reference library's pipeline for token-classification (transformers 5,
`TokenClassificationPipeline`): how tokens are words, and how labels that begin with B- and I- are joined.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from service.arrays import Array
from service.inputs.model_input import Token
from service.inputs.tokenization import TextTokenizer
from service.options.tags import Strategy


@dataclass(frozen=True)
class Entity:
    """A part of a text that has a label: a token, a word, or several of them."""

    label: str
    """Without B- or I-, where entities are joined."""
    index: int
    """That of its first token's or word's label among all."""
    probability: float
    """Of the label; of several tokens or words, the mean."""
    tokens: tuple[int, ...]
    """Their positions."""
    span: tuple[int, int]
    """Characters of the text."""
    word: str
    """What the tokenizer writes of its tokens."""


def find_entities(
    text: str,
    tokens: Sequence[Token],
    chances: Array,
    labels: Sequence[str],
    tokenizer: TextTokenizer,
    strategy: Strategy,
    ignored: Sequence[str],
) -> list[Entity]:
    """Return the entities of a text, in order, but those whose label is ignored.

    `chances` are the probabilities (token, label).
    """
    best = chances.argmax(axis=1).tolist()
    of_words = strategy not in ("none", "simple")
    found = [
        Entity(labels[best[place]], best[place], float(chances[place, best[place]]), (place,), token.span, word)
        for place, token in enumerate(tokens)
        if token.span
        for word in (_piece(text, token, tokenizer),)
    ]
    if of_words:
        found = [
            _as_word(group, chances, labels, tokenizer, strategy) for group in _words(text, tokens, found, tokenizer)
        ]
    if strategy != "none":
        found = [_joined(group, tokenizer) for group in _groups(found)]
    return [one for one in found if one.label not in ignored]


def without_overlaps(found: Sequence[Sequence[Entity]]) -> list[tuple[int, Entity]]:
    """Return the entities of all windows of a text, each with the number of its window, in the order of the text.

    Of those that overlap, the longest is left; of two of one length, the surer.
    """
    every = [(number, entity) for number, own in enumerate(found) for entity in own]
    if len(found) == 1:
        return every
    every.sort(key=lambda one: one[1].span[0])
    kept = every[:1]
    for window, entity in every[1:]:
        last = kept[-1][1]
        if not last.span[0] <= entity.span[0] < last.span[1]:
            kept.append((window, entity))
        elif (_length(entity), entity.probability) > (_length(last), last.probability):
            kept[-1] = window, entity
    return kept


def _length(entity: Entity) -> int:
    return entity.span[1] - entity.span[0]


def _piece(text: str, token: Token, tokenizer: TextTokenizer) -> str:
    """Return the entry of the vocabulary for a token, or the text of one that is not known."""
    if tokenizer.is_unknown(token.index) and token.span:
        return text[slice(*token.span)]
    return tokenizer.piece(token.index)


def _words(
    text: str, tokens: Sequence[Token], found: Sequence[Entity], tokenizer: TextTokenizer
) -> Iterator[list[Entity]]:
    """Yield the tokens of each word. A tokenizer that does not mark where words go on has words between spaces."""
    group: list[Entity] = []
    for token in found:
        start, stop = token.span
        if tokenizer.is_unknown(tokens[token.tokens[0]].index):
            goes_on = False
        elif tokenizer.marks_words:
            goes_on = len(token.word) != stop - start
        else:
            goes_on = start > 0 and " " not in text[start - 1 : start + 1]
        if group and not goes_on:
            yield group
            group = []
        group.append(token)
    if group:
        yield group


def _as_word(
    group: Sequence[Entity], chances: Array, labels: Sequence[str], tokenizer: TextTokenizer, strategy: Strategy
) -> Entity:
    places = [one.tokens[0] for one in group]
    if strategy == "first":
        row = chances[places[0]]
    elif strategy == "max":
        row = chances[max(places, key=lambda place: float(chances[place].max()))]
    else:
        row = chances[places].mean(axis=0)
    index = int(row.argmax())
    word = tokenizer.joined([one.word for one in group])
    span = group[0].span[0], group[-1].span[1]
    return Entity(labels[index], index, float(row[index]), tuple(places), span, word)


def _groups(found: Sequence[Entity]) -> Iterator[list[Entity]]:
    """Yield what has the same label, one behind the other; a label that begins with B- begins another group."""
    group: list[Entity] = []
    for part in found:
        if group and (part.label.startswith("B-") or _tag(part.label) != _tag(group[-1].label)):
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _tag(label: str) -> str:
    return label[2:] if label.startswith(("B-", "I-")) else label


def _joined(group: Sequence[Entity], tokenizer: TextTokenizer) -> Entity:
    return Entity(
        group[0].label.split("-", 1)[-1],
        group[0].index,
        float(np.mean([one.probability for one in group])),
        tuple(place for one in group for place in one.tokens),
        (group[0].span[0], group[-1].span[1]),
        tokenizer.joined([one.word for one in group]),
    )
