"""Swin against the reference library: logits, and the weights of every block; and what its windows let it see."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from model.architectures.swin import SWIN_SIZES, WindowAttention, swin
from model.methods.attribution import entering
from model.methods.windows import unfold
from model.parts.attention import Context, MultiHeadAttention
from model.parts.cache import recording
from model.parts.heads import MeanState
from model.parts.positions import NoPositions
from model.parts.windows import Windows
from tests.samples.attention_reference import assert_batch_is_its_rows, assert_same, assert_same_maps, randn, sharpen
from tests.samples.swin_reference import SMALL, answer_of, assert_every_map_has_a_gradient, pair

CONFIGS = {
    "shifted twice": SMALL,
    "three stages, the last as large as a window": replace(SMALL, depths=(2, 2, 2), heads=(2, 3, 4)),
    "window of odd side": replace(SMALL, image=(36, 36), patch=(3, 3), window=3),
    "oblong": replace(SMALL, image=(16, 32)),
    "oblong patches": replace(SMALL, image=(32, 64), patch=(2, 4)),
    "without bias": replace(SMALL, bias=False),
    "absolute positions": replace(SMALL, absolute=True),
    "another activation, epsilon and ratio": replace(SMALL, activation="relu", epsilon=0.1, ratio=1.7),
    "one stage": replace(SMALL, depths=(2,), heads=(3,)),
}


def windows_of(config):
    return {
        f"stages.{stage}.blocks.{index}.attention": windows
        for stage, row in enumerate(config.windows)
        for index, windows in enumerate(row)
    }


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_logits_and_every_map_are_those_of_the_reference_library(config):
    ours, theirs = pair(config)
    pixels = randn(3, config.channels, *config.image)
    logits, maps = ours(pixels)
    wanted, weights = answer_of(theirs, pixels, "SwinAttention")
    assert_same_maps(maps, weights, 1e-5)  # its softmax is in float32
    assert_same(logits, wanted, 1e-5)
    assert max((one.amax(-1).mean() - 1 / one.shape[-1]).item() for one in maps.values()) > 0.2  # far from uniform


def test_a_window_larger_than_the_grid_is_one_of_the_grids_size():
    larger, fitting = (swin(replace(SMALL, image=(8, 8), depths=(2,), heads=(2,), window=side)) for side in (7, 4))
    fitting.double().load_state_dict(sharpen(larger).state_dict())
    pixels = randn(2, 2, 8, 8)
    logits, maps = fitting.eval()(pixels)
    assert_same(larger(pixels)[0], logits)
    assert_same_maps(larger(pixels)[1], maps)
    assert {tuple(one.shape) for one in maps.values()} == {(2, 1, 2, 16, 16)}


@pytest.mark.parametrize("name", ["shifted twice", "oblong", "one stage"])
def test_maps_have_an_axis_of_windows(name):
    config = CONFIGS[name]
    _, maps = sharpen(swin(config))(randn(3, 2, *config.image))
    heads = [heads for heads, depth in zip(config.heads, config.depths, strict=True) for _ in range(depth)]
    assert list(maps) == list(windows_of(config))
    for (path, found), own in zip(maps.items(), heads, strict=True):
        windows = windows_of(config)[path]
        assert found.shape == (3, windows.count, own, windows.side**2, windows.side**2)


def test_there_is_one_map_for_every_attention_module_under_its_path():
    model = sharpen(swin(SMALL))
    _, maps = model(randn(1, 2, 32, 32))
    assert list(maps) == [path for path, part in model.named_modules() if isinstance(part, MultiHeadAttention)]
    assert all(model.get_submodule(path).get_parameter("output.weight").ndim == 2 for path in maps)


def test_a_batch_of_three_is_three_batches_of_one():
    assert_batch_is_its_rows(sharpen(swin(SMALL)), randn(3, 2, 32, 32))


@pytest.mark.parametrize("shift", [0, 2])
def test_tokens_reach_those_of_their_window_and_no_others(shift):
    """Figure 2 of the paper: what an output depends on, by its gradient, is what the unfolded map says it looked at."""
    windows = Windows(8, 8, 4, shift)
    attention = sharpen(swin(replace(SMALL, depths=(2,), heads=(2,))).stages[0].blocks[0].attention)
    attention = _with(attention, windows)
    x = randn(1, 64, 12).requires_grad_()
    mixed, maps = attention(x)
    looked = unfold(maps[""], windows.places())[0].amax(0)  # (token, token)
    for token in range(0, 64, 5):
        (gradient,) = torch.autograd.grad(mixed[0, token].sum(), x, retain_graph=True)
        reached = gradient[0].abs().amax(-1) > 0
        reached[token] = True  # a token may weigh itself by little; its query depends on it anyhow
        seen = looked[token] > 0
        seen[token] = True
        assert torch.equal(reached, seen)
    across = looked.reshape(8, 8, 8, 8)
    if shift:
        assert across[3, 3, 4, 4] > 0  # the corner of four unshifted windows
        assert (across[0, 0, 6:, :] == 0).all()  # round the edge
        assert (across[0, 0, :, 6:] == 0).all()
    else:
        assert (across[:4, :, 4:] == 0).all()
        assert (across[:, :4, :, 4:] == 0).all()
        assert (across[:4, :4, :4, :4] > 0).all()


def _with(attention, windows):
    moved = WindowAttention(12, 2, windows, bias=True, score=attention.score).double().eval()
    moved.load_state_dict(attention.state_dict())
    return moved


@pytest.mark.parametrize("shift", [0, 2])
def test_an_unfolded_map_times_the_values_of_all_tokens_is_what_the_attention_returns(shift):
    windows = Windows(8, 8, 4, shift)
    attention = _with(sharpen(swin(replace(SMALL, depths=(2,), heads=(2,))).stages[0].blocks[0].attention), windows)
    x = randn(2, 64, 12)
    mixed, maps = attention(x)
    value = attention.value(x).unflatten(2, (2, -1)).transpose(1, 2)  # (batch, heads, token, width of a head)
    dense = (unfold(maps[""], windows.places()) @ value).transpose(1, 2).flatten(2)
    assert_same(mixed, attention.output(dense))


def test_every_row_of_every_map_is_a_distribution_and_hidden_weights_are_exactly_zero():
    _, maps = sharpen(swin(SMALL))(randn(2, 2, 32, 32))
    hidden = 0
    for path, found in maps.items():
        assert (found >= 0).all()
        assert_same(found.sum(-1), torch.ones(found.shape[:-1], dtype=torch.float64))
        seen = windows_of(SMALL)[path].visible()
        if seen is not None:
            hidden += int((~seen).sum())
            assert (found.transpose(1, 2)[:, :, ~seen] == 0).all()
    assert hidden


def test_a_recall_is_given_keys_and_values_of_windows_once_a_block():
    model = sharpen(swin(SMALL))
    seen = [[] for _ in SMALL.depths]
    recalls = [[recording(own)] * depth for own, depth in zip(seen, SMALL.depths, strict=True)]
    pixels = randn(3, 2, 32, 32)
    logits, maps = model(pixels, recalls)
    assert_same(logits, model(pixels)[0])
    assert [len(own) for own in seen] == [2, 3]
    for (path, weights), (key, value) in zip(maps.items(), [one for own in seen for one in own], strict=True):
        width = model.get_submodule(path).output.in_features // weights.shape[2]
        assert key.shape == value.shape == (*weights.shape[:4], width)


def test_what_a_recall_returns_is_what_is_looked_at():
    model, pixels = sharpen(swin(SMALL)), randn(1, 2, 32, 32)
    nothing = [[lambda new: (new[0], torch.zeros_like(new[1]))] * depth for depth in SMALL.depths]
    with torch.no_grad():
        for stage in model.stages:
            for block in stage.blocks:
                block.attention.output.bias.zero_()
    silent = model(pixels, nothing)[0]
    with torch.no_grad():
        for stage in model.stages:
            for block in stage.blocks:
                block.attention.output.weight.zero_()
    assert_same(silent, model(pixels)[0])


def test_a_logit_has_a_gradient_for_every_map():
    assert_every_map_has_a_gradient(sharpen(swin(SMALL)))


def test_states_that_enter_the_blocks_of_each_stage_can_be_watched_and_replaced():
    model, pixels, seen = sharpen(swin(SMALL)), randn(2, 2, 32, 32), {}

    def watch(stage, layer, x):
        seen[stage, layer] = x
        return x

    with entering(list(model.stages), watch):
        logits, _ = model(pixels)
    shapes = {(0, 0): (2, 256, 12), (0, 1): (2, 256, 12), **{(1, layer): (2, 64, 24) for layer in range(3)}}
    assert {place: tuple(x.shape) for place, x in seen.items()} == shapes
    with entering(list(model.stages), lambda stage, layer, x: 2 * x if (stage, layer) == (1, 0) else x):
        assert (model(pixels)[0] - logits).abs().max() > 0.1


def test_states_become_features_by_their_mean():
    model = sharpen(swin(SMALL, MeanState()))
    assert model.width == 24
    assert swin(SMALL).width == 5
    features, _ = model(randn(2, 2, 32, 32))
    model.head = nn.Identity()
    assert_same(features, model(randn(2, 2, 32, 32))[0].mean(1))


def test_without_absolute_positions_there_are_none():
    assert isinstance(swin(SMALL).positions, NoPositions)
    assert swin(replace(SMALL, absolute=True)).positions.weight.shape == (256, 12)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"image": (32, 33)}, "image: sides must be multiples of the patch's 2x2, given 32x33"),
        ({"image": (30, 30)}, "stage 0: sides must be even, to be merged, given 15x15"),
        (
            {"image": (40, 40), "depths": (2,), "heads": (2,), "window": 8},
            "stage 0: sides must be multiples of .* 8, .*20x20",
        ),
        ({"image": (24, 24)}, "stage 1: sides must be multiples of the window's 4, given 6x6"),
        ({"image": (16, 24)}, "stage 1: sides must be multiples of the window's 4, given 4x6"),
        ({"heads": (2, 3, 4)}, "heads: must be given for each of 2 stages, given 3"),
        ({"window": 0}, "window: must be 1 or more, given 0"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(changed, words):
    with pytest.raises(ValueError, match=f"^{words}$"):
        replace(SMALL, **changed)


def test_a_mask_is_refused_because_every_token_of_a_grid_is_there():
    attention = swin(SMALL).stages[0].blocks[0].attention
    with pytest.raises(ValueError, match=r"^window attention: must be given all tokens of a grid, given a mask$"):
        attention(torch.zeros(1, 256, 12), Context(torch.ones(1, 1, 1, 16, dtype=torch.bool)))


def test_another_image_than_the_grids_is_refused():
    with pytest.raises(ValueError, match=r"^image: must be 32x32 pixels, given 32x36$"):
        swin(SMALL)(torch.zeros(1, 2, 32, 36))


def test_the_published_sizes_are_those_of_the_paper():
    config = SWIN_SIZES["swin_t"]
    assert config.grids == ((56, 56), (28, 28), (14, 14), (7, 7))
    assert config.widths == (96, 192, 384, 768)
    assert [math.prod(grid) // 49 for grid in config.grids] == [row[0].count for row in config.windows]
    assert [row[1].shift for row in config.windows] == [3, 3, 3, 0]
