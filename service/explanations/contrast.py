"""Contrast of two pairs with the same first text: why one passage answers a query rather than another."""

from dataclasses import replace

from service.explanations.answer import AttentionAnswer


def contrast(own: AttentionAnswer, other: AttentionAnswer) -> AttentionAnswer:
    """Return the attention of a pair, with another pair's values subtracted on the tokens of their first text.

    What the contrast has, less what the other pair has beside the tokens of the query, explains the difference of their
    scores: a token of the query by the difference of its values; a token of a passage by its own value, which the
    contrast keeps, as it keeps those of special tokens.
    """
    columns, others = (
        [place for place, token in enumerate(one.axes["source"]) if token.sequence == 0] for one in (own, other)
    )
    maps = []
    for mine, theirs in zip(own.maps, other.maps, strict=True):
        values = mine.values.copy()
        values[..., columns] -= theirs.values[..., others]
        maps.append(replace(mine, entry={**mine.entry, "signed": True}, values=values))
    return replace(own, maps=maps)
