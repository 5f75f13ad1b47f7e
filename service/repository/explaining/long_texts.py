"""Texts that are too long for what explains a generated token, as far as is known before anything runs."""

from collections.abc import Mapping, Sequence
from typing import cast

from contract.manifest import GradientMethod
from service.errors import Unacceptable
from service.explanations.query import AttentionQuery, runs_of
from service.repository.models.generator import Generator
from service.repository.models.reach import SURE


def explained_tokens(served: Generator, method: GradientMethod, runs: int, target: int | None = None) -> int:
    """Return the most tokens of a text of which one can be explained, by a number of runs of a method's graph.

    Of a target that continues its source it is the length of both, up to that token; else that of a source, for a
    target of a length, by default the longest one.
    """
    most = served.generation.max_new_tokens
    if served.continues:
        return served.reach.most(method, lambda count: served.lengths(count, 1), most, runs)
    limit = served.inputs.longest[served.inputs.axis]
    return served.reach.most(method, lambda count: served.lengths(count, target or most), limit, runs)


def check_explained_tokens(
    served: Generator, query: AttentionQuery, lengths: Sequence[Mapping[str, int]], targets: Sequence[int]
) -> None:
    """Raise Unacceptable for texts of these axis lengths that are too long to explain a token of, or too many tokens.

    `targets` says how many of each. Too long is what takes too much memory, or more time than there is.
    """
    if not query.by_gradient or not served.inputs.tokenizer:
        return
    method, runs = cast(GradientMethod, query.method), runs_of(query.method, query.points)
    axis, what = ("target", "text and answer") if served.continues else (served.inputs.axis, "the text")
    for own in lengths:
        if not served.reach.fits(method, own, runs):
            most = explained_tokens(served, method, runs, own["target"])
            raise Unacceptable(
                f"attention: at most {most} tokens of {what} fit into {method} of one token, given {own[axis]}"
            )
    counts = zip(lengths, targets, strict=True)
    seconds = sum(served.reach.takes(method, own, count * runs) for own, count in counts)
    if seconds > (deadline := served.reach.deadline):
        fewer = max(int(sum(targets) * SURE * deadline / seconds), 1)
        raise Unacceptable(
            f"target: {method} of {sum(targets)} tokens would take about {seconds:.0f} seconds, and a request may take "
            f"{deadline:g}; ask for fewer, such as {fewer}"
        )
