"""What an evaluation costs, before anything of it runs. Curves are tested over HTTP."""

from types import SimpleNamespace

import pytest

from service.errors import Unacceptable
from service.explanations.query import resolve
from service.repository.explaining.subjects import evaluation_cost
from tests.samples.attention_queries import query_of, vit

INTERIOR = 9
"""Points of a curve between its ends, which all curves share."""


def cost(manifest=None, **options):
    manifest = manifest or vit()
    served = SimpleNamespace(query=lambda asked: resolve(asked, manifest))
    return evaluation_cost(served, query_of(manifest, **options))


@pytest.mark.parametrize(
    ("options", "scores"),
    [({}, 0), ({"evaluate": "deletion"}, 2 + 2 * INTERIOR), ({"evaluate": ["deletion", "insertion"]}, 2 + 4 * INTERIOR),
     ({"evaluate": "insertion", "method": "relevance", "target": 1}, 2 + 2 * INTERIOR)],
)  # fmt: skip
def test_an_evaluation_of_one_map_costs_the_inner_points_of_its_curves_and_both_ends(options, scores):
    assert cost(**options) == (scores, 0)


def test_a_comparison_costs_two_curves_of_each_method_and_the_maps_of_all():
    four = vit("raw", "rollout", "norm", "relevance")
    assert cost(four, evaluate="compare") == (2 + 2 * (4 + 1) * INTERIOR, 4)
    assert cost(vit("raw", "rollout"), evaluate="compare", method="rollout") == (2 + 2 * (2 + 1) * INTERIOR, 2)


def test_the_points_of_integrated_gradients_count_in_a_comparison():
    with_path = vit("raw", "relevance", "integrated")
    assert cost(with_path, evaluate="compare") == (2 + 2 * (3 + 1) * INTERIOR, 1 + 1 + 48 + 2)


def test_a_method_without_one_row_is_left_out_and_a_comparison_of_none_is_refused():
    (kind,) = vit("raw", "rollout", "integrated").attention
    averaged = vit().model_copy(update={"attention": (kind.model_copy(update={"prefix": 0, "pooled": "all"}),)})
    assert cost(averaged, evaluate="compare") == (2 + 2 * (3 + 1) * INTERIOR, 52)  # the mean of all patches is one row
    plain = kind.model_copy(update={"prefix": 0, "grid": None})
    assert cost(vit().model_copy(update={"attention": (plain,)}), evaluate="compare") == (
        2 + 2 * (1 + 1) * INTERIOR,
        50,
    )
    none = vit().model_copy(update={"attention": (plain.model_copy(update={"methods": ("raw", "rollout")}),)})
    with pytest.raises(Unacceptable, match=r"^evaluate: compare needs a method whose map has one row, and this model"):
        cost(none, evaluate="compare")
