"""Segments: the parts that a model that hears cuts its target into, by the times that it writes."""

import math
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Part(NamedTuple):
    """A part of a target, from a token to before another, and its steps of time from the start of the window."""

    tokens: slice
    start: int
    end: int


def cut(target: Sequence[int], first_time: int, steps: int) -> tuple[list[Part], int]:
    """Return the parts of a target without its end, and the step at which the next window begins.

    Times come in pairs, an end and a start, between parts. A window of `steps` is heard whole if its target ends with a
    single time, or has no pair; else the next one begins at the last pair (`_retrieve_segment` of the transformers
    library).
    """
    is_time = [token >= first_time for token in target]
    ends_single = is_time[-2:] == [False, True]
    pairs = [place + 1 for place in range(len(target) - 1) if is_time[place] and is_time[place + 1]]
    if not pairs:
        times = [token - first_time for token in target if token >= first_time]
        return [Part(slice(0, len(target)), 0, times[-1] if times and times[-1] else steps)], steps
    places = [0, *pairs, len(target)] if ends_single else [0, *pairs]
    parts = [
        Part(slice(begin, end), target[begin] - first_time, target[end - 1] - first_time)
        for begin, end in pairwise(places)
    ]
    return parts, steps if ends_single else parts[-1].end


def compression_of(tokens: Sequence[int], vocabulary: int) -> float:
    """Return how many times shorter the bytes of tokens become by zlib: many repeat themselves where it is over 2.4.

    As the transformers library counts them.
    """
    length = int(math.log2(vocabulary) / 8) + 1
    written = b"".join(token.to_bytes(length, "little") for token in tokens)
    return len(written) / len(zlib.compress(written))
