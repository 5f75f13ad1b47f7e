"""What speaks for one pair of texts rather than for another with the same first text: a query and two passages."""

from dataclasses import replace

from service.explanations.answer import AttentionAnswer


def rather_than(own: AttentionAnswer, other: AttentionAnswer) -> AttentionAnswer:
    """Return the answer to a pair, from whose values on the first text those of another pair are taken off.

    Two passages are read apart, so the difference of their scores is explained by the maps of both: a word of the query
    by the difference of its values, a word of a passage by its own value, which the other pair takes off.
    """
    columns, others = (
        [place for place, token in enumerate(one.axes["source"]) if token.sequence == 0] for one in (own, other)
    )
    maps = []
    for mine, theirs in zip(own.maps, other.maps, strict=True):
        values = mine.values.copy()
        values[..., columns] -= theirs.values[..., others]
        maps.append(replace(mine, values=values))
    return replace(own, maps=maps)
