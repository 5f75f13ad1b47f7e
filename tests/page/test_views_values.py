"""What the page computes of maps, against numpy."""

import base64
import math

import numpy as np
import pytest

from service.explanations.answer import quantized
from service.explanations.colormaps import COLORMAPS, SIGNED

RNG = np.random.default_rng(3)


def softmax(*shape):
    """Return sharp weights, of which rows sum to one."""
    weights = np.exp(2.5 * np.random.default_rng(4).normal(size=shape))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def unpacked(view, entry, method="raw"):
    """Return what the page makes of a map of an answer: its values, and the rest."""
    code = """([map, method]) => { const { values, ...rest } = views.unpackMap(map, method)
      return [[...values], values.constructor.name, rest] }"""
    values, kind, rest = view.page.evaluate(code, [entry, method])
    assert kind == "Float32Array"
    shape = rest["heads"], rest["queries"], rest["keys"]
    return np.array(values, np.float32).reshape(shape), rest


def computed(view, code, **given):
    """Return what an expression of the modules says, with arrays as Float32Arrays."""
    lists = {name: one.ravel().tolist() if isinstance(one, np.ndarray) else one for name, one in given.items()}
    floats = [name for name, one in given.items() if isinstance(one, np.ndarray)]
    script = f"""([given, floats]) => {{
      for (const name of floats) given[name] = Float32Array.from(given[name])
      const {{ {", ".join(given)} }} = given
      const found = {code}
      return found instanceof Float32Array ? [...found] : found }}"""
    found = view.page.evaluate(script, [lists, floats])
    return np.array(found) if isinstance(found, list) else found


def base64_of(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def test_values_are_read_from_lists_from_floats_and_from_bytes(view):
    weights = softmax(3, 4, 5)
    entry = {"shape": [3, 4, 5], "normalized": True, "heads": "all", "layer": 2}
    values, rest = unpacked(view, {**entry, "values": weights.tolist()})
    assert (values == weights).all()
    assert (rest["layer"], rest["signed"], rest["size"]) == (2, False, {"queries": 4, "keys": 5})
    values, _ = unpacked(view, {**entry, "values": base64_of(weights), "dtype": "float32"})
    assert (values == weights).all()
    signed = (weights - 0.3).astype(np.float32)
    for original in (weights, signed):
        data, scale = quantized(original)
        values, _ = unpacked(view, {**entry, "values": base64_of(data), "dtype": "uint8", **scale})
        steps = data.astype(float) - scale.get("zero", 0)
        assert np.abs(values - steps * np.abs(steps) * scale["scale"]).max() < 1e-6
        assert np.abs(values - original).max() <= np.abs(original).max() / 120


def test_a_pooled_map_has_the_pooled_counts_and_the_true_ones(view):
    entry = {
        "shape": [1, 2, 3],
        "normalized": True,
        "pool": {"queries": 20, "keys": 31},
        "values": [[[1, 2, 3], [4, 5, 6]]],
    }
    _, rest = unpacked(view, entry)
    assert (rest["queries"], rest["keys"], rest["size"]) == (2, 3, {"queries": 20, "keys": 31})


@pytest.mark.parametrize(
    ("method", "entry", "signed"),
    [
        ("raw", {"normalized": True}, False),
        ("raw", {"normalized": False, "heads": "mean"}, True),  # weights mixed after the softmax may be negative
        ("raw", {"normalized": False, "heads": "max"}, False),  # these do not sum to one, but they are weights
        ("norm", {"normalized": False}, False),
        ("relevance", {"normalized": False, "signed": False}, False),
        ("libra", {"normalized": False, "signed": True}, True),
    ],
)
def test_which_maps_are_drawn_in_two_colours(view, method, entry, signed):
    _, rest = unpacked(view, {"shape": [1, 1, 2], "values": [[[0.2, 0.9]]], **entry}, method)
    assert rest["signed"] is signed


def test_mixed_weights_below_zero_are_signed_by_whichever_fusion(view):
    entry = {"shape": [1, 1, 2], "values": [[[-0.2, 0.9]]], "normalized": False, "heads": "max"}
    assert unpacked(view, entry)[1]["signed"] is True


def test_a_head_and_a_row_are_views_of_the_map(view):
    weights = softmax(3, 4, 5)
    given = {"values": weights, "map": {"heads": 3, "queries": 4, "keys": 5}}
    assert np.allclose(computed(view, "views.headOf({ ...map, values }, 2)", **given), weights[2].ravel())
    assert np.allclose(computed(view, "views.rowOf({ ...map, values }, 1, 3)", **given), weights[1, 3])
    assert computed(view, "views.rowOf({ ...map, values }, 1, 3).buffer === values.buffer", **given)


@pytest.mark.parametrize("how", ["mean", "max", "min"])
def test_heads_are_fused(view, how):
    weights = softmax(3, 4, 5)
    found = computed(view, "views.fuse({ heads: 3, queries: 4, keys: 5, values }, how)", values=weights, how=how)
    assert np.allclose(found, getattr(np, how)(weights, axis=0).ravel(), atol=1e-7)


def test_the_largest_value_or_size(view):
    values = np.array([0.2, -3, 1.5], np.float32)
    assert computed(view, "views.largest(Float32Array.of(0.2, -3, 1.5, NaN, Infinity), false)") == 1.5
    assert computed(view, "views.largest(values, true)", values=values) == 3
    assert computed(view, "views.largest(new Float32Array(4), false)") == 1, "nothing has a scale too"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1])
def test_the_fewest_values_that_hold_a_share_are_kept(view, share):
    values = (RNG.normal(size=40) ** 3).astype(np.float32)
    found = computed(view, "views.keepMass(values, share)", values=values, share=share)
    kept = found != 0
    sizes, total = np.abs(values.astype(float)), np.abs(values.astype(float)).sum()
    assert (found[kept] == values[kept]).all()
    assert sizes[kept].sum() >= share * total * (1 - 1e-5)
    assert sizes[kept].sum() - sizes[kept].min() < share * total, "one less would not do"
    assert kept.all() or sizes[~kept].max() <= sizes[kept].min()


def test_of_equal_values_only_as_many_are_kept_as_are_needed(view):
    assert computed(view, "views.keepMass(Float32Array.of(1, 1, 1, 1), 0.5)").tolist() == [1, 1, 0, 0]
    assert computed(view, "views.keepMass(Float32Array.of(0, 0), 0.5)").tolist() == [0, 0]


def test_the_difference_of_two_maps(view):
    one, other = softmax(4, 5), softmax(5, 4).reshape(4, 5)
    assert np.allclose(computed(view, "views.difference(one, other)", one=one, other=other), (one - other).ravel())


def test_rows_and_columns_are_left_out_and_what_is_left_sums_to_one(view):
    weights = softmax(4, 6)
    code = """(({ values, queries, keys }) => ({ values: [...values], queries, keys }))(
      views.without(values, 4, 6, new Set([1]), new Set([0, 5]), normalized))"""
    found = computed(view, code, values=weights, normalized=True)
    assert (found["queries"], found["keys"]) == ([0, 2, 3], [1, 2, 3, 4])
    expected = np.delete(weights, 1, 0)[:, 1:5]
    assert np.allclose(found["values"], (expected / expected.sum(1, keepdims=True)).ravel(), atol=1e-6)
    found = computed(view, code, values=weights, normalized=False)
    assert np.allclose(found["values"], expected.ravel())


def test_entropy_is_the_mean_of_rows_in_nats_by_sizes(view):
    weights = softmax(4, 6)
    weights[0] = [0, 0, 1, 0, 0, 0]
    weights[1] *= -3  # negative, and of another sum
    shares = np.abs(weights.astype(float)) / np.abs(weights.astype(float)).sum(1, keepdims=True)
    expected = -np.sum(shares * np.log(np.where(shares > 0, shares, 1)), axis=1).mean()
    assert computed(view, "views.entropy(values, 4, 6)", values=weights) == pytest.approx(expected, abs=1e-6)
    assert computed(view, "views.entropy(new Float32Array(8).fill(1 / 4), 2, 4)") == pytest.approx(math.log(4))


def test_numbers_as_text(view):
    assert view.call("short", 0.123456) == "0.123"
    assert view.call("short", 12) == "12"
    assert view.call("percent", 0.98765) == "98.8%"
    assert view.call("percent", 0.98765, 0) == "99%"
    assert [view.call("percent", share) for share in (0, 0.0004, 0.0006)] == ["0.0%", "<0.1%", "0.1%"]
    assert view.call("labelOf", {"text": " a\n"}) == "␣a⏎"
    assert view.call("labelOf", {"text": ""}) == "·"


def test_palettes_are_the_services(view):
    for name, table in COLORMAPS.items():
        found = view.page.evaluate("name => [...views.paletteOf(name, false)]", name)
        assert (np.array(found).reshape(256, 3) == table).all()
    found = np.array(view.page.evaluate("[...views.paletteOf('magma', true)]")).reshape(256, 3)
    assert (found[:255] == SIGNED).all()
    assert (found[255] == SIGNED[254]).all()


@pytest.mark.parametrize("ground", ["#ffffff", "#1d2327"])
def test_the_colours_of_series_are_seen_on_light_and_on_dark_and_are_told_apart(view, ground):
    def light(colour):
        channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    series = view.page.evaluate("views.SERIES")
    assert len(series) == len(set(series)) == 10
    for colour in series:
        low, high = sorted([light(colour), light(ground)])
        assert (high + 0.05) / (low + 0.05) >= 3, colour
    parts = np.array([[int(one[at : at + 2], 16) for at in (1, 3, 5)] for one in series], float)
    apart = np.linalg.norm(parts[:, None] - parts[None], axis=-1) + 999 * np.eye(10)
    assert apart.min() > 45


def test_large_matrices_are_pooled_by_their_block_maxima(view):
    values = (RNG.random((10, 7)) - 0.6).astype(np.float32)
    code = "(({ values, rows, columns }) => [rows, columns, ...values])(views.pooled(values, 10, 7, 4, signed))"
    rows, columns = [at * 4 // 10 for at in range(10)], [at * 4 // 7 for at in range(7)]
    for signed in (False, True):
        found = computed(view, code, values=values, signed=signed)
        assert found[:2].tolist() == [4, 4]
        blocks = np.zeros((4, 4))
        for row in range(10):
            for column in range(7):
                at, value = (rows[row], columns[column]), values[row, column]
                if (abs(value) > abs(blocks[at])) if signed else value > blocks[at]:
                    blocks[at] = value
        assert np.allclose(found[2:], blocks.ravel())
