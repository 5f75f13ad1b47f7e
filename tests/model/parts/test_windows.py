"""Windows against loops over places, and explanations through them against products of whole squares in float64."""

import numpy as np
import pytest
import torch

from model.methods.windows import (
    WindowedStage,
    carry,
    mean_of_rows,
    mean_row,
    only_rows,
    spread,
    unfold,
    unfold_rows,
    windowed_norms,
    windowed_relevance,
    windowed_relevance_of,
    windowed_rollout,
)
from model.parts.windows import Windows, fitted, found_at
from tests.samples import explanations_reference as reference
from tests.samples.attention_reference import assert_same, randn

BATCH, HEADS = 2, 3
GRIDS = [
    Windows(4, 4, 2),
    Windows(4, 4, 2, 1),
    Windows(6, 9, 3, 1),
    Windows(8, 4, 4, 2),
    Windows(3, 3, 3),
    Windows(2, 4, 1),
]
grids = pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.rows}x{grid.columns} {grid.side} {grid.shift}")


def tokens_of(grid):
    """The token of each slot, place by place: (windows, slot)."""
    found = []
    for down in range(grid.rows // grid.side):
        for across in range(grid.columns // grid.side):
            inside = [(row, column) for row in range(grid.side) for column in range(grid.side)]
            found.append([
                (down * grid.side + row + grid.shift) % grid.rows * grid.columns
                + (across * grid.side + column + grid.shift) % grid.columns
                for row, column in inside
            ])  # fmt: skip
    return np.array(found)


def square(windowed, grid):
    """The square of all tokens of (batch, windows, slot, slot), entry by entry: (batch, token, token)."""
    size = grid.rows * grid.columns
    found = np.zeros((len(windowed), size, size))
    for window, tokens in enumerate(tokens_of(grid)):
        for query, row in enumerate(tokens):
            for key, column in enumerate(tokens):
                found[:, row, column] = windowed[:, window, query, key]
    return found


def draw(grid, heads=HEADS, seed=0):
    """Weights whose rows sum to one and are far from uniform, (batch, windows, heads, slot, slot)."""
    return reference.draw(BATCH, grid.count, heads, grid.side**2, grid.side**2, seed=seed)


def averaging(rows, columns):
    """The matrix (merged token, token) that gives each merged token the mean of its four."""
    found = np.zeros((rows * columns // 4, rows * columns))
    for row in range(rows):
        for column in range(columns):
            found[row // 2 * (columns // 2) + column // 2, row * columns + column] = 1 / 4
    return found


# Geometry


@grids
def test_windows_hold_the_tokens_of_their_squares_after_the_shift(grid):
    found = grid.places()
    assert_same(found, tokens_of(grid))
    assert sorted(found.flatten().tolist()) == list(range(grid.rows * grid.columns))


@grids
def test_what_was_cut_is_joined_in_its_place(grid):
    x = randn(BATCH, grid.rows * grid.columns, 5)
    cut = grid.cut(x)
    assert_same(cut, x[:, grid.places()])
    assert_same(grid.join(cut), x)


@grids
def test_each_token_is_found_in_its_window_and_slot(grid):
    window, slot = found_at(grid.places())
    assert_same(grid.places()[window, slot], torch.arange(grid.rows * grid.columns))


@pytest.mark.parametrize("grid", [one for one in GRIDS if one.shift])
def test_slots_see_each_other_if_they_are_as_far_apart_in_the_image_as_in_the_window(grid):
    """A window that went round the edge holds pieces of the image that are no neighbours."""
    for tokens, seen in zip(tokens_of(grid), grid.visible().tolist(), strict=True):
        for query, one in enumerate(tokens):
            for key, other in enumerate(tokens):
                down = one // grid.columns - other // grid.columns == query // grid.side - key // grid.side
                across = one % grid.columns - other % grid.columns == query % grid.side - key % grid.side
                assert seen[query][key] == (down and across)


def test_without_a_shift_all_slots_see_each_other():
    assert Windows(4, 4, 2).visible() is None


@pytest.mark.parametrize(
    ("grid", "shifted", "wanted"),
    [
        ((8, 8), False, Windows(8, 8, 4)),
        ((8, 8), True, Windows(8, 8, 4, 2)),
        ((4, 4), True, Windows(4, 4, 4)),
        ((2, 2), True, Windows(2, 2, 2)),
        ((4, 8), True, Windows(4, 8, 4)),
        ((2, 8), True, Windows(2, 8, 2)),
    ],
)
def test_windows_as_large_as_the_grid_are_not_shifted_and_are_never_larger(grid, shifted, wanted):
    assert fitted(*grid, 4, shifted=shifted) == wanted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((6, 4, 4), "windows: sides of the grid must be multiples of the window's 4, given 6x4"),
        ((4, 6, 4), "windows: sides of the grid must be multiples of the window's 4, given 4x6"),
        ((4, 4, 2, 2), "windows: shift must be from 0 to 1, given 2"),
        ((4, 4, 2, -1), "windows: shift must be from 0 to 1, given -1"),
    ],
)
def test_windows_that_do_not_fill_the_grid_are_refused(given, words):
    with pytest.raises(ValueError, match=f"^{words}$"):
        Windows(*given)


# Maps over all tokens


@grids
def test_an_unfolded_map_has_every_weight_at_its_tokens_and_zeros_elsewhere(grid):
    weights = draw(grid)
    found = unfold(torch.from_numpy(weights), grid.places())
    for head in range(HEADS):
        assert_same(found[:, head], square(weights[:, :, head], grid), 0)
    assert_same(found.sum(-1), np.ones((BATCH, HEADS, grid.rows * grid.columns)))


@grids
def test_some_rows_are_rows_of_the_unfolded_map_in_the_order_asked_for(grid):
    weights, rows = torch.from_numpy(draw(grid)), torch.tensor([5, 0, 5, 7])
    assert_same(unfold_rows(weights, grid.places(), rows), unfold(weights, grid.places())[:, :, rows], 0)


@grids
def test_the_mean_row_is_the_mean_of_all_rows(grid):
    weights = torch.from_numpy(draw(grid))
    assert_same(mean_row(weights, grid.places()), unfold(weights, grid.places()).mean(2, keepdim=True), 1e-15)


@grids
def test_norms_in_windows_are_those_of_the_unfolded_map(grid):
    weights, size, head_width = draw(grid), grid.rows * grid.columns, 4
    value, output = randn(BATCH, HEADS, size, head_width), randn(HEADS * head_width, 10, seed=2)
    windowed = value[:, :, grid.places()].transpose(1, 2)  # (batch, windows, heads, slot, width of a head)
    found = windowed_norms(torch.from_numpy(weights), windowed, output)
    dense = np.stack([square(weights[:, :, head], grid) for head in range(HEADS)], 1)
    assert_same(square(found.numpy(), grid), reference.norms(dense, value.numpy(), output.numpy()), 1e-12)


def test_relevance_of_windows_is_the_mean_over_heads_of_the_positive_products():
    grid = GRIDS[1]
    weights, gradient = draw(grid), np.random.default_rng(3).normal(size=draw(grid).shape)
    wanted = sum(np.maximum(weights[:, :, head] * gradient[:, :, head], 0) for head in range(HEADS)) / HEADS
    assert_same(windowed_relevance_of(torch.from_numpy(weights), torch.from_numpy(gradient)), wanted, 1e-15)


# Through layers and stages


@grids
def test_carrying_is_the_product_with_the_unfolded_map(grid):
    fused, joint = draw(grid)[:, :, 0], randn(BATCH, 3, grid.rows * grid.columns)
    found = carry(joint, torch.from_numpy(fused), grid.places())
    assert_same(found, joint.numpy() @ square(fused, grid), 1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (2, 6), (6, 2)])
def test_spreading_is_the_product_with_the_matrix_that_averages_four(rows, columns):
    joint = randn(BATCH, 3, rows * columns // 4)
    assert_same(spread(joint, rows, columns), joint.numpy() @ averaging(rows, columns), 1e-15)


STAGES = [
    [Windows(8, 12, 4), Windows(8, 12, 4, 2)],
    [Windows(4, 6, 2), Windows(4, 6, 2, 1), Windows(4, 6, 2)],
    [Windows(2, 3, 1)],
]


def drawn_stages(sizes=STAGES, included=None, scale=1.0):
    """Fused maps of every layer of every stage, whose rows sum to one, or each to something else around `scale`."""
    stages = []
    for number, windows in enumerate(sizes):
        layers = [draw(grid, 1, 10 * number + layer)[:, :, 0] for layer, grid in enumerate(windows)]
        if scale != 1:
            layers = [layer * np.random.default_rng(5).uniform(0, 2 * scale, (*layer.shape[:3], 1)) for layer in layers]
        chosen = [True] * len(layers) if included is None else included[number]
        stages.append(WindowedStage(windows, [torch.from_numpy(one) for one in layers], torch.tensor(chosen)))
    return stages


def product(stages, factor):
    """The product over whole squares from the first layer on, (batch, token of the last stage, token of the first)."""
    before = None
    for number, (windows, layers, included) in enumerate(stages):
        size = windows[0].rows * windows[0].columns
        if before is None:
            before = np.broadcast_to(np.eye(size), (BATCH, size, size))
        else:
            last = stages[number - 1].windows[0]
            before = averaging(last.rows, last.columns) @ before
        for grid, layer, kept in zip(windows, layers, included.tolist(), strict=True):
            if kept:
                before = factor(square(layer.numpy(), grid) + np.eye(size)) @ before
    return before


def normalized(mixed):
    return mixed / mixed.sum(-1, keepdims=True)


INCLUDED = [None, [[True, False], [False, True, True], [True]], [[False, False], [True, True, False], [False]]]


@pytest.mark.parametrize("included", INCLUDED)
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_rollout_through_stages_is_the_product_of_the_mixed_squares(included, scale):
    stages = drawn_stages(included=included, scale=scale)
    wanted = product(stages, normalized)
    like = stages[0].layers[0]
    every = windowed_rollout(stages, only_rows(torch.arange(6), 6, like))
    assert_same(every, wanted, 1e-12)
    assert_same(windowed_rollout(stages, only_rows(torch.tensor([4, 1]), 6, like)), wanted[:, [4, 1]], 1e-12)
    assert_same(windowed_rollout(stages, mean_of_rows(6, like)), wanted.mean(1, keepdims=True), 1e-12)
    assert_same(every.sum(-1), np.ones((BATCH, 6)), 1e-12)


@pytest.mark.parametrize("included", INCLUDED)
def test_relevance_through_stages_is_the_product_of_squares_with_the_identity(included):
    stages = drawn_stages(included=included, scale=0.3)
    wanted = product(stages, lambda mixed: mixed)
    like = stages[0].layers[0]
    assert_same(windowed_relevance(stages, only_rows(torch.arange(6), 6, like)), wanted, 1e-11)
    assert_same(windowed_relevance(stages, mean_of_rows(6, like)), wanted.mean(1, keepdims=True), 1e-11)


@pytest.mark.parametrize("count", [1, 2])
def test_the_first_stages_alone_end_at_their_own_tokens(count):
    stages = drawn_stages()[:count]
    size = stages[-1].windows[0].rows * stages[-1].windows[0].columns
    found = windowed_rollout(stages, only_rows(torch.arange(size), size, stages[0].layers[0]))
    assert_same(found, product(stages, normalized), 1e-12)


def test_rollout_of_a_batch_is_that_of_each_image():
    stages = drawn_stages()
    start = only_rows(torch.arange(6), 6, stages[0].layers[0])
    together = windowed_rollout(stages, start)
    for image in range(BATCH):
        alone = [one._replace(layers=[layer[image : image + 1] for layer in one.layers]) for one in stages]
        assert_same(windowed_rollout(alone, start), together[image : image + 1], 1e-14)


def test_one_window_as_large_as_the_grid_is_plain_rollout():
    grid = Windows(3, 3, 3)
    stage = drawn_stages([[grid] * 3])[0]
    found = windowed_rollout([stage], only_rows(torch.arange(9), 9, stage.layers[0]))
    assert_same(found, reference.rollout([layer[:, 0].numpy() for layer in stage.layers]), 1e-12)
