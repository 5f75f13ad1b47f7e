"""Answers with attention: their numbers are rounded, or packed as bytes that give them back."""

import base64
import io
from dataclasses import replace

import numpy as np
import orjson
import pytest

from contract.manifest import Recommendation
from service.explanations import curves, drawing, matrix_drawing
from service.explanations.answer import AttentionAnswer, AttentionMap, npz, quantized
from service.explanations.answer_drawing import draw
from service.explanations.evaluation import Evaluation, Score
from service.explanations.found_object import FoundObject
from service.inputs.model_input import Picture, Token
from tests.samples.attention_queries import TOKENS, dumped, embedder, finder, query_of, read, translator, vit


def drawn(low, high, seed=0):
    """Values (heads, rows, keys) between bounds, both of which occur."""
    found = np.random.default_rng(seed).uniform(low, high, (2, 3, 50)).astype(np.float32)
    found.flat[:2] = low, high
    return found


def test_values_are_rounded_to_the_digits_asked_for():
    query = query_of(digits=2)
    maps = read(np.full((1, 1, 1, TOKENS), 1 / 3, np.float32), query)
    (shown,) = AttentionAnswer(query, maps, axes={}).json()["maps"]
    assert b"0.33," in dumped(shown["values"])


BOUNDS = [(-1.08, 11.4), (-1, 1), (-3, -1), (-1e-20, 5), (-5, 1e-20), (-1e30, 1e30), (-1e-33, 0), (-7, 0), (-0.1, 300)]


def unpacked(packed, given):
    """Return the values that bytes stand for."""
    steps = packed.astype(float) - given.get("zero", 0)
    return steps * np.abs(steps) * given["scale"]


def within(packed, given):
    """Return how far each value may be from what its byte stands for: half a step of its root."""
    return (np.abs(packed.astype(float) - given.get("zero", 0)) + 0.2501) * given["scale"]


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_signed_bytes_are_within_half_a_step_and_a_zero_is_exactly_zero(low, high):
    for seed in range(20):
        values = drawn(low, high, seed)
        values.flat[7] = 0
        packed, given = quantized(values)
        assert packed.dtype == np.uint8
        assert (np.abs(unpacked(packed, given) - values) <= within(packed, given)).all()
        assert unpacked(packed, given).flat[7] == 0
        assert np.ptp(packed.astype(int)) >= 250 or np.ptp(values) < 1e-29


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.2, 0.9), (0, 20), (0, 0), (0, 1e-35)])
def test_bytes_of_values_that_are_not_negative_have_a_scale_alone(low, high):
    values = drawn(low, high)
    packed, given = quantized(values)
    assert given.keys() == {"scale"}
    assert given["scale"] == pytest.approx(max(float(values.max()), 1e-30) / 255**2)
    assert np.array_equal(packed, np.sqrt(values / given["scale"]).round())


def test_small_values_beside_a_large_one_have_levels_of_their_own():
    values = np.array([0.9, *np.linspace(0.0005, 0.004, 20)], np.float32)
    packed, _ = quantized(values)
    assert len(set(packed.tolist())) > 10


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_some_rows_of_several_heads_are_packed_in_the_order_of_their_indices(dtype):
    query = query_of(encoding="base64", dtype=dtype)
    rows = drawn(0, 1)[:, [2, 0]]  # as those of a detector's objects are taken
    some = AttentionMap(query.kinds[0].kind, {"heads": [0, 1], "layer": 0}, rows, (2, 0))
    assert not some.values.flags.c_contiguous
    (shown,) = AttentionAnswer(query, [some], axes={}).json()["maps"]
    numbers = np.frombuffer(base64.b64decode(shown["values"]), "<f4" if dtype == "float32" else np.uint8)
    packed = numbers.reshape(shown["shape"])
    found = packed if dtype == "float32" else unpacked(packed, shown)
    assert (np.abs(found - some.values) <= (1e-7 if dtype == "float32" else within(packed, shown))).all()


def signed_map(query, values=(0.5, -1.25, 0.0, 2.0, -0.125), **entry):
    """A signed map with one row for the whole answer."""
    given = {"heads": "sum", "layer": 0, "signed": True, "target": {"index": 1, "label": "cow"}, **entry}
    return AttentionMap(query.kinds[0].kind, given, np.array([[values]], np.float32), None)


def test_a_row_that_stands_for_the_answer_is_shown_in_every_form():
    query = query_of(method="libra")
    shown = signed_map(query)
    answer = AttentionAnswer(query, [shown], Picture(np.zeros((4, 4, 1), np.uint8), (0, 0, 4, 4), 4, 4))
    assert answer.json()["maps"][0]["values"].tolist() == shown.values.tolist()
    packed = replace(query, options=query.options.model_copy(update={"dtype": "uint8"}), form="npz")
    arrays = np.load(io.BytesIO(npz({}, [replace(answer, query=packed)])))
    (entry,) = orjson.loads(bytes(arrays["meta"]))["results"][0]["attention"]["maps"]
    found = unpacked(arrays[entry["array"]], entry)
    assert (np.abs(found - shown.values) <= within(arrays[entry["array"]], entry)).all()
    assert found[0, 0, 2] == 0
    assert draw(answer, np.zeros((4, 4, 3), np.uint8), 10**6).size == (4, 4)


def test_signed_maps_are_drawn_as_such_under_a_title_that_says_what_is_explained(monkeypatch):
    drawn = []
    monkeypatch.setattr(drawing, "overlay", lambda image, box, panels, *rest: drawn.extend(panels) or b"")
    monkeypatch.setattr(
        matrix_drawing, "matrix", lambda panels, queries, keys, *rest: drawn.extend([*panels, queries]) or b""
    )
    query = query_of(method="libra")
    picture = Picture(np.zeros((4, 4, 1), np.uint8), (0, 0, 4, 4), 4, 4)
    maps = [signed_map(query), signed_map(query, layer=2, against={"index": 2, "label": "3"})]
    draw(AttentionAnswer(query, maps, picture), np.zeros((4, 4, 3), np.uint8), 10**6)
    assert [panel.title for panel in drawn] == ["libra of cow", "libra of cow against 3, layer 2"]
    assert all(panel.signed for panel in drawn)
    assert drawn[0].values.tolist() == [[-1.25, 0.0], [2.0, -0.125]]
    drawn.clear()
    query = query_of(embedder(), method="libra", against={"text": "a"})
    tokens = [Token(index, f"t{index}", (index, index + 1)) for index in range(5)]
    one = signed_map(query)
    named = {name: value for name, value in one.entry.items() if name != "target"}
    draw(AttentionAnswer(query, [replace(one, entry=named)], axes={"source": tokens}), None, 10**6)
    (panel, queries) = drawn
    assert (panel.title, panel.signed, queries) == ("libra, encoder", True, ["all"])


def test_words_get_the_signed_sum_of_their_tokens_and_a_row_for_the_answer_stays():
    query = query_of(embedder(), method="libra", against={"text": "a"}, merge="words")
    spans = [None, (0, 2), (2, 4), (5, 6), None]
    tokens = [Token(index, "t", span) for index, span in enumerate(spans)]
    answer = AttentionAnswer(query, [signed_map(query)], axes={"source": tokens}, texts={"source": ["abcd e"]})
    (shown,) = answer.json()["maps"]
    assert shown["values"].tolist() == [[[0.5, -1.25, 2.0, -0.125]]]
    assert shown["shape"] == [1, 1, 4]


def test_the_other_side_of_two_embeddings_is_an_answer_of_the_same_frame():
    query = query_of(embedder(), method="libra", against={"text": "a"}, sides="both")
    tokens = [[Token(0, text, (0, 1))] for text in "ab"]
    own, other = (
        AttentionAnswer(query, [signed_map(query, [value])], axes={"source": one})
        for value, one in zip((0.5, -0.25), tokens, strict=True)
    )
    assert replace(own, against="id").json()["against"] == {"kind": "id"}
    own = replace(own, against="text")
    shown = replace(own, opposite=other).json()
    assert shown["against"].pop("kind") == "text"
    assert shown["against"].keys() == shown.keys() - {"against"}
    assert shown["against"]["maps"][0]["values"].tolist() == [[[-0.25]]]
    assert shown["against"]["tokens"]["source"][0]["text"] == "b"
    arrays = np.load(io.BytesIO(npz({}, [replace(own, opposite=other)])))
    meta = orjson.loads(bytes(arrays["meta"]))["results"][0]["attention"]
    assert meta["against"]["kind"] == "text"
    assert arrays[meta["against"]["maps"][0]["array"]].tolist() == [[[-0.25]]]
    assert arrays[meta["maps"][0]["array"]].tolist() == [[[0.5]]]


def test_an_answer_by_the_best_method_says_which_and_by_what_measure():
    best = Recommendation(method="libra", measure="deletion area", values={"libra": 0.1, "raw": 0.4})
    query = query_of(vit().model_copy(update={"best": best}), method="best")
    shown = AttentionAnswer(query, [signed_map(query)]).json()
    assert (shown["method"], shown["best"]["measure"], shown["best"]["values"]) == (
        "libra", "deletion area", {"libra": 0.1, "raw": 0.4},
    )  # fmt: skip
    assert "best" not in AttentionAnswer(query_of(method="libra"), [signed_map(query)]).json()


def test_signed_values_come_back_from_base64_and_from_npz():
    stack = np.random.default_rng(1).normal(size=(1, 1, 1, TOKENS)).astype(np.float32)
    query = query_of(encoding="base64", dtype="uint8")
    answer = AttentionAnswer(query, read(stack, query), axes={})
    (shown,) = orjson.loads(orjson.dumps(answer.json()))["maps"]
    packed = np.frombuffer(base64.b64decode(shown["values"]), np.uint8)
    arrays = np.load(io.BytesIO(npz({}, [answer])))
    (entry,) = orjson.loads(bytes(arrays["meta"]))["results"][0]["attention"]["maps"]
    assert np.array_equal(arrays[entry["array"]].ravel(), packed)
    assert (entry["scale"], entry["zero"]) == (shown["scale"], shown["zero"])
    assert (np.abs(unpacked(packed, shown) - stack.ravel()) <= within(packed, shown)).all()


def test_a_pooled_map_says_how_large_it_was_and_a_small_one_is_as_it_was():
    stack = np.random.default_rng(1).random((1, 1, TOKENS, TOKENS), np.float32)
    query = query_of(queries="all", pool=2, digits=9)
    (shown,) = AttentionAnswer(query, read(stack, query)).json()["maps"]
    assert (shown["shape"], shown["pool"]) == ([1, 2, 2], {"queries": TOKENS, "keys": TOKENS})
    edges = (slice(3), slice(3, None))
    assert shown["values"][0].ravel().tolist() == pytest.approx([stack[0, 0, a, b].max() for a in edges for b in edges])
    plain, large = query_of(queries="all"), query_of(queries="all", pool=TOKENS)
    assert dumped(AttentionAnswer(large, read(stack, large)).json()) == dumped(
        AttentionAnswer(plain, read(stack, plain)).json()
    )


def test_signed_blocks_keep_the_sign_of_the_largest_size():
    query = query_of(method="libra", pool=2)
    (shown,) = AttentionAnswer(query, [signed_map(query)]).json()["maps"]
    assert (shown["values"].tolist(), shown["pool"]) == ([[[-1.25, 2.0]]], {"queries": 1, "keys": 5})


def test_words_and_the_columns_looked_at_most_are_those_of_the_whole_map():
    stack = np.random.default_rng(2).random((1, 3, 6), np.float32)
    query = query_of(translator(), kind="cross", queries="all", pool=2, hard=True)
    tokens = [Token(index, "t", (index, index + 1)) for index in range(6)]
    axes, texts = {"source": tokens, "target": tokens[:3]}, {"source": ["ab cde"], "target": ["a b"]}
    one = AttentionMap(query.kinds[0].kind, {"heads": "mean", "layer": 1}, stack, (0, 1, 2))
    (shown,) = AttentionAnswer(query, [one], axes=axes, texts=texts).json()["maps"]
    assert shown["aligned"].tolist() == stack.argmax(-1).tolist()
    assert (shown["shape"], shown["pool"]) == ([1, 2, 2], {"queries": 3, "keys": 6})
    words = replace(query, options=query.options.model_copy(update={"merge": "words", "pool": 3}))
    spaced = [*tokens[:2], Token(9, " ", (2, 3)), *tokens[3:]]
    merged = AttentionAnswer(words, [one], axes={**axes, "source": spaced}, texts=texts)
    (shown,) = merged.json()["maps"]
    assert shown["aligned"].tolist() == merged.merged().maps[0].values.argmax(-1).tolist()
    assert (shown["shape"], "pool" in shown) == (list(merged.merged().maps[0].values.shape), False)


def picture_of(values, *, signed=True, **options):
    """Return the colours of a map of 2 x 2 patches, whose values are below and above zero, over black."""
    manifest = vit("raw", "rollout", "libra")
    (kind,) = manifest.attention
    made = manifest.model_copy(update={"attention": (kind.model_copy(update={"normalized": not signed}),)})
    query = query_of(made, **options)
    sent = np.zeros((4, 4, 1), np.uint8)
    found = AttentionMap(
        query.kinds[0].kind, {"heads": "mean", "layer": 0}, np.array([[[9.0, *values]]], np.float32), (0,)
    )
    answer = AttentionAnswer(query, [found], Picture(sent, (0, 0, 4, 4), 4, 4))
    return np.asarray(draw(answer, sent, 10**6)).astype(int)


@pytest.mark.parametrize("options", [{"method": "libra"}, {"method": "raw"}, {"method": "raw", "opacity": 0.9}])
def test_signed_maps_are_drawn_in_two_colours(options):
    drawn = picture_of([-1.0, 0.0, 0.0, 1.0], **options)
    red, blue = drawn[..., 0], drawn[..., 2]
    assert blue[0, 0] > red[0, 0] + 30, "against"
    assert red[3, 3] > blue[3, 3] + 30, "for"
    assert drawn[0, 3].max() == 0, "where it is zero the image is unchanged"


@pytest.mark.parametrize("options", [{"method": "rollout"}, {"method": "raw", "signed": False}])
def test_maps_without_signs_are_not(options):
    assert picture_of([0.0, 0.5, 0.5, 1.0], **options)[0, 3].max() > 0


@pytest.mark.parametrize("method", ["libra", "raw"])
def test_a_colormap_that_is_asked_for_is_used_for_signed_maps_too(method):
    drawn = picture_of([-1.0, 0.0, 0.0, 1.0], method=method, colormap="gray", opacity=1.0)
    assert (drawn[..., 0] == drawn[..., 2]).all()
    assert drawn[0, 0].max() == 0
    assert drawn[3, 3].min() == 255


def test_where_no_object_is_found_the_picture_is_as_it_was_sent():
    query, sent = query_of(), np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    none = AttentionMap(query.kinds[0].kind, {"heads": "mean", "layer": 0}, np.zeros((1, 0, TOKENS), np.float32), ())
    answer = AttentionAnswer(query, [none], Picture(sent, (0, 0, 4, 4), 4, 4))
    np.testing.assert_array_equal(np.asarray(draw(answer, sent, 10**6)), sent)


FOUND = tuple(FoundObject(number, "cow", 1, 0.75 - number / 4, (1, 2, 30.004, 40)) for number in range(3))


def found_answer(numbers, kind="cross", **options):
    """The answer of a detector of 2 x 3 cells that has found some of its objects."""
    query = query_of(finder(), kind=kind, **options)
    made = query.kinds[0].kind
    keys = 6 if kind == "cross" else 3
    values = np.arange(keys * len(numbers), dtype=np.float32).reshape(1, len(numbers), keys)
    entry = {"heads": "mean", "layer": 1, "objects": list(numbers)}
    shown = AttentionMap(made, entry, values, tuple(numbers))
    return AttentionAnswer(
        query, [shown], Picture(np.zeros((4, 6, 1), np.uint8), (0, 0, 60, 40), 60, 40), objects=FOUND
    )


def test_objects_are_listed_and_name_the_rows_and_panels(monkeypatch):
    drawn = []
    monkeypatch.setattr(drawing, "overlay", lambda image, box, panels, *rest: drawn.extend(panels) or b"")
    monkeypatch.setattr(matrix_drawing, "matrix", lambda panels, queries, keys, *rest: drawn.append((queries, keys)))
    answer = found_answer([2, 0])
    assert answer.json()["tokens"]["object"][0] == {
        "label": "cow", "index": 1, "probability": 0.75, "object": 0,
        "box": {"left": 1, "top": 2, "right": 30, "bottom": 40},
    }  # fmt: skip
    draw(answer, np.zeros((40, 60, 3), np.uint8), 10**6)
    assert [(one.title, one.outline) for one in drawn] == [
        ("cow 25%, cross: layer 1, mean of heads", FOUND[2].box),
        ("cow 75%, cross: layer 1, mean of heads", FOUND[0].box),
    ]
    drawn.clear()
    draw(found_answer([1], kind="decoder"), np.zeros((40, 60, 3), np.uint8), 10**6)
    assert drawn == [(["cow"], ["cow"] * 3)]


@pytest.mark.parametrize("kind", ["cross", "decoder"])
def test_an_answer_without_a_row_is_the_image_or_a_matrix_of_no_rows(kind):
    answer = found_answer([], kind)
    picture = draw(answer, np.full((40, 60, 3), 7, np.uint8), 10**6)
    if kind == "cross":
        assert (np.asarray(picture) == 7).all()
    assert picture.size[0] >= 60
    packed = found_answer([], kind, encoding="base64", dtype="uint8", pool=2).json()["maps"][0]
    assert (packed["values"], packed["shape"][1]) == ("", 0)
    arrays = np.load(io.BytesIO(npz({}, [answer])))
    assert arrays["results/0/maps/0"].size == 0


def test_curves_are_drawn_in_place_of_the_map():
    found = {order: {"deletion": np.linspace(1, end, 11)} for order, end in (("raw", 0.0), ("random", 0.5))}
    evaluation = Evaluation(Score("probability", "3", {"target": 2}), "patches", found, compared=False, digits=5)
    query = query_of(evaluate="deletion", format="png")
    picture = draw(AttentionAnswer(query, [], evaluation=evaluation), None, 10**7)
    assert picture == curves.draw(evaluation, 10**7)
