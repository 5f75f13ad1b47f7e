import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from model.architectures.detector import DetectorConfig, detector
from model.parts.attention import Context, MultiHeadAttention
from model.parts.blocks import PostNormBlock, PostNormDecoderBlock, PreNormBlock, PreNormDecoderBlock
from model.parts.feed_forward import FeedForward
from model.parts.positions import LearnedGrid
from model.parts.stacks import POST_NORM, PRE_NORM, StackSizes
from tests.samples.attention_reference import (
    assert_same,
    assert_same_maps,
    feed_forward,
    layer_norm,
    linear,
    randn,
    relu,
    sharpen,
    softmax,
    weights_of,
)
from tests.samples.detectors_reference import OPTIONS, assert_same_answers, copy_detector

FEW = DetectorConfig(
    (16, 24), 2, cell=8, width=12, encoder=StackSizes(2, 3, 20), decoder=StackSizes(2, 2, 18), objects=4, classes=3
)


def placed_attention(w, name, heads, x, query_places, source, key_places, visible=None):
    """One head after the other, as `attention_reference.attention`, but queries and keys are made of sums."""
    query, key = linear(w, f"{name}.query", x + query_places), linear(w, f"{name}.key", source + key_places)
    value = linear(w, f"{name}.value", source)
    size = query.shape[-1] // heads
    mixed, maps = [], []
    for start in range(0, query.shape[-1], size):
        columns = slice(start, start + size)
        scores = query[..., columns] @ key[..., columns].swapaxes(-1, -2) / size**0.5
        maps.append(softmax(scores if visible is None else np.where(visible, scores, -np.inf)))
        mixed.append(maps[-1] @ value[..., columns])
    return linear(w, f"{name}.output", np.concatenate(mixed, -1)), np.stack(maps, 1)


def placed_block(w, name, heads, x, places, visible=None, pre_norm=False):
    def norm(part, x):
        return layer_norm(w, f"{name}.{part}_norm", x)

    if pre_norm:
        y = norm("attention", x)
        mixed, found = placed_attention(w, f"{name}.attention", heads, y, places, y, places, visible)
        x = x + mixed
        return x + feed_forward(w, f"{name}.feed_forward", norm("feed_forward", x), relu), found
    mixed, found = placed_attention(w, f"{name}.attention", heads, x, places, x, places, visible)
    x = norm("attention", x + mixed)
    return norm("feed_forward", x + feed_forward(w, f"{name}.feed_forward", x, relu)), found


def placed_decoder_block(w, name, heads, x, queries, memory, places, visible=None, pre_norm=False):
    def norm(part, x):
        return layer_norm(w, f"{name}.{part}_norm", x)

    y = norm("attention", x) if pre_norm else x
    mixed, own = placed_attention(w, f"{name}.attention", heads, y, queries, y, queries)
    x = x + mixed if pre_norm else norm("attention", x + mixed)
    y = norm("cross", x) if pre_norm else x
    mixed, cross = placed_attention(w, f"{name}.cross", heads, y, queries, memory, places, visible)
    x = x + mixed if pre_norm else norm("cross", x + mixed)
    y = norm("feed_forward", x) if pre_norm else x
    mixed = feed_forward(w, f"{name}.feed_forward", y, relu)
    return (x + mixed if pre_norm else norm("feed_forward", x + mixed)), own, cross


VISIBLE = np.array([[True] * 5 + [False] * 2, [True] * 7])[:, None]  # (batch, 1, key)


def seen(visible):
    return None if visible is None else torch.from_numpy(visible)[:, None]


@pytest.mark.parametrize(("kind", "pre_norm"), [(PostNormBlock, False), (PreNormBlock, True)])
@pytest.mark.parametrize("visible", [None, VISIBLE], ids=["all visible", "some hidden"])
def test_a_block_adds_places_to_queries_and_keys_but_not_to_values(kind, pre_norm, visible):
    block = sharpen(kind(MultiHeadAttention(12, 3), FeedForward(12, 20, nn.ReLU()), lambda: nn.LayerNorm(12)))
    x, places = randn(2, 7, 12), randn(7, 12, seed=2)
    given, maps = block(x, Context(seen(visible), positions=places))
    expected, found = placed_block(weights_of(block), "module", 3, x.numpy(), places.numpy(), visible, pre_norm)
    assert_same(given.detach(), expected)
    assert_same_maps({name: each.detach() for name, each in maps.items()}, {"attention": found})


@pytest.mark.parametrize(("kind", "pre_norm"), [(PostNormDecoderBlock, False), (PreNormDecoderBlock, True)])
@pytest.mark.parametrize("visible", [None, VISIBLE], ids=["all visible", "some hidden"])
def test_a_block_of_the_decoder_asks_with_object_queries_and_reads_cells_by_their_places(kind, pre_norm, visible):
    attentions = MultiHeadAttention(12, 3), MultiHeadAttention(12, 3)
    block = sharpen(kind(*attentions, FeedForward(12, 20, nn.ReLU()), lambda: nn.LayerNorm(12)))
    x, queries, memory, places = randn(2, 4, 12), randn(4, 12, seed=2), randn(2, 7, 12, seed=3), randn(7, 12, seed=4)
    remembered = block.cross.remember(memory, Context(positions=places))
    across = Context(seen(visible), positions=queries)
    given, maps = block(x, Context(positions=queries), remembered, across)
    arrays = (each.numpy() for each in (x, queries, memory, places))
    expected, own, cross = placed_decoder_block(weights_of(block), "module", 3, *arrays, visible, pre_norm)
    assert_same(given.detach(), expected)
    assert_same_maps({name: each.detach() for name, each in maps.items()}, {"attention": own, "cross": cross})


def sinusoids(visible, width):
    """Section A.4 for each cell of visible (rows, columns): counted from 1 to the last visible one of its line."""
    table = np.zeros((*visible.shape, width))
    for row, column in np.ndindex(visible.shape):
        down, across = visible[: row + 1, column].sum(), visible[row, : column + 1].sum()
        counts = (down, visible[:, column].sum()), (across, visible[row].sum())
        for half, (count, last) in enumerate(counts):
            angle = count / (last + 1e-6) * 2 * np.pi
            for index in range(width // 2):
                wave = angle / 10000 ** (index // 2 * 2 / (width // 2))
                table[row, column, half * width // 2 + index] = np.cos(wave) if index % 2 else np.sin(wave)
    return table.reshape(-1, width)


def test_the_places_of_cells_are_sinusoids_of_what_is_visible():
    places = detector(FEW).double().places
    grid = np.ones((2, 3), dtype=bool)
    assert_same(places(None), sinusoids(grid, 12), 1e-6)
    grid[:, 2] = False
    both = torch.tensor(np.stack((np.ones((2, 3), dtype=bool), grid))).flatten(1)
    given = places(both)
    assert_same(given[0], sinusoids(np.ones((2, 3), dtype=bool), 12), 1e-6)
    assert_same(given[1], sinusoids(grid, 12), 1e-6)


def answers(model, *given):
    logits, boxes, maps = model(*given)
    return {"logits": logits, "boxes": boxes, **maps}


def test_with_everything_visible_a_mask_changes_nothing():
    model = sharpen(detector(FEW))
    pixels = randn(2, 2, 16, 24)
    with torch.no_grad():
        assert_same_maps(answers(model, pixels, torch.ones(2, 6, dtype=torch.bool)), answers(model, pixels), 1e-5)


def test_whatever_stands_in_the_padding_the_answer_is_the_same_and_hidden_cells_have_no_weight():
    model = sharpen(detector(FEW))
    visible = torch.tensor([[True, True, False, False, False, False], [True] * 6])
    pixels, others = randn(2, 2, 16, 24), randn(2, 2, 16, 24, seed=9)
    others[0, :, :8, :16], others[1] = pixels[0, :, :8, :16], pixels[1]
    with torch.no_grad():
        given, same = answers(model, pixels, visible), answers(model, others, visible)
        assert_same_maps(given, same, 0)
        for name in given:
            if name.startswith("encoder") or name.endswith("cross"):
                assert (given[name][0, :, :, 2:] == 0).all()
                assert (given[name][1] > 0).all()
        assert (model(pixels)[0] - given["logits"])[0].abs().max() > 0.05


REFERENCES = {"Detr": (POST_NORM, 1e-6), "TableTransformer": (PRE_NORM, 1e-5)}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
def test_it_answers_as_the_reference_library(name, option, masked):
    wiring, near = REFERENCES[name]

    def compose(config, *parts):
        return detector(config, wiring, *parts)

    assert_same_answers(name, compose, copy_detector, option, masked=masked, near=near)


def test_an_image_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"^image: must be 16x24 pixels, given 24x16$"):
        detector(FEW)(torch.zeros(1, 2, 24, 16))


def test_sides_that_hold_no_whole_cells_are_refused():
    with pytest.raises(ValueError, match=r"^image: sides must be multiples of the cell's 8, .* given 16x20$"):
        dataclasses.replace(FEW, image=(16, 20))


def test_more_rows_than_were_learned_are_refused():
    with pytest.raises(ValueError, match=r"^learned positions of a grid: at most 50 rows and columns, given 51x2$"):
        LearnedGrid(51, 2, 8)


def test_learned_places_tell_the_column_then_the_row():
    places = LearnedGrid(2, 3, 8)
    columns, rows = places.columns.weight, places.rows.weight
    assert_same(places(None)[5], torch.cat((columns[2], rows[1])))
