"""Trials are few where few tell as much, and always hold one row that is padded."""

import dataclasses

import pytest

from export.checks.trials import rounds_of
from export.errors import ExportError
from export.plan import format_sizes
from tests.samples.export_models import classifier, translator


def told(source, extent):
    return [
        [(trial.where, trial.seed, trial.in_every_case) for trial in trials] for trials in rounds_of(source, extent)
    ]


def test_in_full_every_size_is_tried_with_both_seeds():
    source = translator()
    assert told(source, "full") == [
        [(format_sizes(sizes), 2, False), (format_sizes(sizes), 1, True)] for sizes in source.verified_at
    ]


def test_usually_the_first_lengths_and_the_last_are_tried():
    first, alone, pair = (
        format_sizes(sizes)
        for sizes in (
            {"batch": 1, "source": 1, "target": 1, "answered": 1, "capacity": 1},
            {"batch": 1, "source": 48, "target": 12, "answered": 8, "capacity": 12},
            {"batch": 2, "source": 48, "target": 12, "answered": 8, "capacity": 12},
        )
    )
    assert told(translator(), "usual") == [[(first, 1, False)], [(alone, 2, False), (pair, 1, True)]]
    assert told(classifier(), "usual") == [[("batch 1", 2, False), ("batch 2", 1, True)]], (
        "nothing but the batch varies"
    )


@pytest.mark.parametrize("extent", ["usual", "full"])
def test_the_last_row_of_the_last_trial_is_padded(extent):
    source = translator()
    (*_, trial) = rounds_of(source, extent)[-1]
    (visible,) = (
        tensor
        for port, tensor in zip(source.base.inputs, source.base.example(trial.sizes, trial.seed), strict=True)
        if port.name == "source_visible"
    )
    assert visible[0].all()
    assert visible[-1].sum() == trial.sizes["source"] / 2


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (({"batch": 1}, {"batch": 2}), "verification needs 3 sizes, the last of a batch, given 2"),
        (({"batch": 1},) * 3, "verification needs 3 sizes, the last of a batch, given 3"),
        (({"batch": 4},) * 3, "sizes to verify must differ from the traced ones, given batch 4"),
    ],
)
def test_sizes_that_show_too_little_are_refused(sizes, words):
    with pytest.raises(ExportError, match=words):
        rounds_of(dataclasses.replace(classifier(), verified_at=sizes), "usual")
