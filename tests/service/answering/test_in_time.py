"""What cannot end before the deadline is refused by its name, or has fewer points."""

import pytest

from service.answering.in_time import in_time
from service.errors import TooLarge, Unacceptable
from tests.samples.attention_queries import query_of

DEADLINE = 30.0


def test_what_ends_in_time_is_as_it_was():
    query = query_of(method="integrated")
    assert in_time(query, 0.5, DEADLINE) is query
    assert query.refines
    assert (query.points, query.runs) == (16, 50)


def test_a_path_has_no_further_points_where_they_would_take_too_long():
    query = in_time(query_of(method="integrated"), 1.0, DEADLINE)
    assert not query.refines
    assert (query.points, query.runs) == (16, 18)


def test_a_path_whose_first_points_take_too_long_is_refused_with_fewer():
    with pytest.raises(Unacceptable) as refused:
        in_time(query_of(method="integrated"), 2.0, DEADLINE)
    assert refused.value.detail == (
        "steps: 16 would take about 36 seconds, and a request may take 30; ask for fewer, such as 10"
    )
    with pytest.raises(Unacceptable, match="steps: 64 would take about 66 seconds"):
        in_time(query_of(method="integrated", steps=64), 1.0, DEADLINE)
    assert in_time(query_of(method="integrated", steps=10), 2.0, DEADLINE).points == 10


def test_what_no_number_of_points_makes_short_is_too_large():
    with pytest.raises(
        TooLarge, match=r"attention: would take about .* seconds, and a request may take 30; ask for fewer"
    ):
        in_time(query_of(method="integrated"), 31.0, DEADLINE)
