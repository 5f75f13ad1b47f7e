"""A path of gradients that cannot end before the deadline of its request, as far as is known, is refused at once."""

from dataclasses import replace

from service.errors import TooLarge, Unacceptable
from service.explanations.query import PATH_ENDS, AttentionQuery

SURE = 0.8
"""The share of the deadline that what is asked for instead may take."""


def in_time(query: AttentionQuery, each: float, deadline: float) -> AttentionQuery:
    """Return a query that can be answered before the deadline, in seconds: a path perhaps without its further points.

    One run for each target of all inputs takes `each` seconds, 0 where that is not known. Raises Unacceptable for a
    path of too many points, and TooLarge where fewer would not help.
    """
    if query.refines and each * query.runs > deadline:
        query = replace(query, may_refine=False)
    seconds = each * query.runs
    if seconds <= deadline:
        return query
    takes = f"would take about {seconds:.0f} seconds, and a request may take {deadline:g}"
    fewer = int(SURE * deadline / each) - len(PATH_ENDS)
    if fewer > 0:
        raise Unacceptable(f"steps: {query.points} {takes}; ask for fewer, such as {fewer}")
    raise TooLarge(f"attention: {takes}; ask for fewer inputs or targets")
