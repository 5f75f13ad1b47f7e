"""What relevance starts from, beside the way that rows are carried through stages in the definition."""

import numpy as np
import pytest
import torch

from contract.manifest import Kind, Window
from model.methods.windows import only_rows, spread
from service.explanations.relevance_identity import identity_rows
from service.explanations.selection import MEAN_ROW
from tests.samples.attention_queries import query_of, translator
from tests.samples.small_manifest import manifest_of

GRIDS = ((8, 12), (4, 6), (2, 3))


def staged():
    """Return the manifest of three stages of windows, each of which has a quarter of the tokens of the one before."""
    names = ("image", "stage2", "stage3")
    return manifest_of(
        attention=tuple(
            Kind(name=f"stage{number}", kind="encoder", maps=(f"a.{number}",), heads=1, query=axis, key=axis,
                 normalized=True, methods=("raw", "relevance"), grid=grid, windows=(Window(side=2),),
                 carried="stage1" if number > 1 else None, pooled="all")
            for number, (axis, grid) in enumerate(zip(names, GRIDS, strict=True), 1)
        ),
        labels=("cat", "cow", "3"),
    )  # fmt: skip


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_a_row_of_a_later_stage_begins_in_equal_parts_at_what_was_merged_into_it(stage):
    query = query_of(staged())
    kind = query.model_kinds[stage]
    tokens = GRIDS[stage][0] * GRIDS[stage][1]
    wanted = only_rows(torch.arange(tokens), tokens, torch.zeros(1, dtype=torch.float64))
    for rows, columns in reversed(GRIDS[:stage]):
        wanted = spread(wanted, rows, columns)
    shown = kind.model_copy(update={"key": "image", "grid": GRIDS[0]})
    found = identity_rows(query, shown, tuple(range(tokens)), 96)
    assert np.array_equal(found, wanted[0].numpy())
    assert np.allclose(identity_rows(query, shown, (MEAN_ROW,), 96)[0], found.mean(0), atol=1e-9)


def test_a_token_begins_as_itself_and_what_looks_at_another_text_at_nothing():
    query = query_of(translator())
    _, decoder, cross = query.model_kinds
    assert identity_rows(query, decoder, (2, 0), 4).tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]
    assert not identity_rows(query, cross, (0, 1), 5).any()
