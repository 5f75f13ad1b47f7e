"""Names of models: those that come with the repository, and what is said of a name that is none."""

import difflib
from collections.abc import Collection

BUNDLED = (
    "digits", "digits-dino", "scenes-dino", "dates", "dates-mlm", "dates-clm", "dates-tags", "dates-rank",
    "dates-bilinear", "dates-recurrent", "dates-convolutional", "captions-soft", "captions-hard", "scenes-detr",
    "scenes-swin", "scenes-clip", "graphs-graphormer", "graphs-gtn", "spoken-digits", "spoken-tera",
    "digits-plain", "digits-dot", "digits-additive",
    "digits-bilinear", "digits-hard", "digits-re-attention", "digits-parallel", "digits-layer-scale",
    "digits-macaron", "digits-branchformer", "digits-e-branchformer", "digits-axial", "digits-sinusoidal",
    "digits-no-positions", "minilm", "photos", "whisper-tiny-en",
)  # fmt: skip
"""What the exporter makes of the repository alone (`export/bundled.py`)."""

UNSERVED = ("dates-plain",)
"""What is bundled to be compared with these, and attends to nothing: there are no maps to export."""

MOST_LISTED = 8
"""More names than this are counted rather than listed."""
MAX_CHARACTERS = 128
"""No name is longer, so that nothing longer is compared with names."""
LEAST_LIKENESS = 0.75
"""The least likeness of a name that may have been meant: twice the characters in common, by the characters of both."""


def listed(names: Collection[str]) -> str:
    """Return names as a list for people: the first of them, and how many more there are."""
    first = list(names)[:MOST_LISTED]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def nearest(given: str, names: Collection[str]) -> str | None:
    """Return the one of the names that is most like a given one, or None if none is like it."""
    if len(given) > MAX_CHARACTERS:
        return None
    return next(iter(difflib.get_close_matches(given, names, n=1, cutoff=LEAST_LIKENESS)), None)


def suggestion(given: str, names: Collection[str], prefix: str = "") -> str:
    """Return what is said behind a name that is none, if one of the names may have been meant; else nothing.

    A prefix that all of them have is not compared: it would make all of them alike.
    """
    near = nearest(given.removeprefix(prefix), [name.removeprefix(prefix) for name in names])
    return f"; did you mean {prefix}{near}?" if near else ""
