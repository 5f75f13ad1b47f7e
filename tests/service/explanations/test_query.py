"""Attention queries: what is asked for by default, and which queries are refused."""

from dataclasses import replace

import pytest

from contract.manifest import Recommendation
from service.errors import Unacceptable
from service.explanations.comparison import compared
from service.explanations.query import resolve
from service.explanations.selection import MEAN_ROW, rows_of, select
from service.options.attention import AttentionOptions
from service.options.base import parse
from service.options.predictions import DetectOptions
from tests.samples.attention_queries import LAYERS, TOKENS, embedder, finder, graphs, query_of, translator, vit


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layers": 99}, "layers: must be from -3 to 2, given 99"),
        ({"heads": -13}, "heads: must be from -2 to 1, given -13"),
        ({"layers": "3:9"}, "layers: a range must hold some of the 3"),
        ({"queries": "banana"}, "queries: must be 'all', 'cls', 'mean', 'found', an index"),
        ({"queries": []}, "queries: must be"),
        ({"method": "libra", "layers": 3}, "layers: must be from -3 to 2, given 3"),
        ({"method": "integrated", "layers": 0}, "layers: integrated gradients are of the input, leave it out"),
        ({"method": "libra", "queries": "all"}, "queries: libra has one row, the answer's, leave it out"),
        ({"method": "integrated", "queries": 0}, "queries: integrated has one row"),
        ({"method": "libra", "heads": "mean"}, "heads: libra is of the sum over all heads, leave it out"),
        ({"method": "libra", "steps": True}, "steps: is read off cross"),
        ({"method": "best"}, "method best: no method was measured on this model; it serves raw, rollout, norm, relev"),
        ({"heads": "median"}, "heads: must be 'all', 'mean', 'max', 'min'"),
        ({"layers": [0, 1, 0]}, "layers: each may be given once"),
        ({"layers": [0, -3]}, "layers: each may be given once"),
        ({"layers": [0] * 10**6}, "layers: must be"),
        ({"layers": 1.5}, "layers: must be"),
        ({"layers": True}, "layers: must be"),
        ({"layers": "1" * 5000}, "layers: must be"),
        ({"digits": 0}, "digits: Input should be greater than or equal to 1, given 0"),
        ({"digits": 10}, "digits: Input should be less than or equal to 9, given 10"),
        ({"kind": "cross"}, "kind: this model has encoder, given another"),
        ({"method": "guess"}, "method: Input should be 'raw', 'rollout'"),
        ({"target": 3}, "target: is for relevance, libra and integrated"),
        ({"method": "relevance", "target": [1.5]}, "target: must be 1 to 256 indices or labels"),
        ({"method": "relevance", "target": 5}, "target: must be from 0 to 2 or a label, given another"),
        ({"method": "relevance", "target": "-1"}, "target: must be from 0 to 2 or a label"),
        ({"method": "relevance", "target": "dog"}, "target: must be from 0 to 2 or a label"),
        ({"method": "relevance", "target": "0,0"}, "target: each may be given once, given one twice"),
        ({"method": "relevance", "target": "0," * 300 + "1"}, "target: must be at most 256, given 301"),
        ({"evaluate": "deletion", "layers": "all"}, "evaluate: needs one map of one row"),
        ({"evaluate": "deletion", "heads": "all"}, "evaluate: needs one map of one row"),
        ({"evaluate": "deletion", "queries": [1, 2]}, "evaluate: needs one map of one row"),
        ({"evaluate": "deletion", "method": "relevance", "target": "0,1"}, "evaluate: needs one map of one row"),
        ({"method": "relevance", "target": []}, "target: must be 1 to 256 indices or labels"),
        ({"method": "relevance", "heads": "max"}, "heads: relevance is the mean over heads"),
        ({"method": "norm", "heads": "all"}, "heads: norm is of the sum over all heads"),
        ({"method": "rollout", "heads": "all"}, "heads: rollout fuses them, by mean, max or min"),
        ({"method": "rollout", "heads": [0]}, "heads: rollout fuses them"),
        ({"method": "rollout", "heads": "max", "fusion": "max"}, "fusion: says what heads does"),
        ({"method": "rollout", "layers": 1, "start_layer": 1}, "start_layer: says what layers does"),
        ({"method": "rollout", "start_layer": 3}, "start_layer: must be from -3 to 2, given 3"),
        ({"method": "rollout", "discard": 1.5}, "discard: Input should be less than 1, given 1.5"),
        ({"method": "rollout", "discard": -0.1}, "discard: Input should be greater than or equal to 0"),
        ({"discard": 0.5}, "discard: is for rollout"),
        ({"start_layer": 0}, "start_layer: is for rollout"),
        ({"fusion": "max"}, "fusion: is for rollout"),
        ({"hard": True}, "hard: is read off cross"),
        ({"steps": True}, "steps: is read off cross"),
        ({"align": "input"}, "align: is for raw, rollout and norm of generated tokens"),
        ({"merge": "words"}, "merge: is for texts"),
        ({"evaluate": "erosion"}, "evaluate: must be some of deletion, insertion, compare"),
        ({"evaluate": "deletion,deletion"}, "evaluate: must be some of"),
        ({"format": "bmp"}, "format: Input should be 'json', 'npz' or 'png'"),
        ({"opacity": 1.5}, "opacity: Input should be less than or equal to 1"),
        ({"colormap": "jet"}, "colormap: Input should be 'viridis'"),
        ({"colour": "red"}, "options: unknown option; known are against, align, baseline, colormap"),
        ({"layer": 1}, "options: unknown option; did you mean layers\\?; known are against, align"),
    ],
)
def test_what_the_model_cannot_show_is_refused_with_the_reason(options, words):
    with pytest.raises(Unacceptable, match=words):
        query_of(**options)


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("rollout", "needs maps of tokens onto themselves whose rows sum to one"),
        ("norm", "needs values that are joined by one projection"),
        ("relevance", "needs a gradient through attention, which hard choices have not"),
        ("libra", "needs states that enter layers that attend"),
        ("integrated", "needs a gradient, which hard choices have not"),
    ],
)
def test_a_method_that_the_model_cannot_serve_is_refused_with_the_reason_and_those_it_serves(method, reason):
    with pytest.raises(Unacceptable, match=f"method {method}: {reason}.*; this model serves raw"):
        query_of(vit("raw"), method=method)


def test_a_method_that_only_another_kind_can_serve_is_refused_for_this_one():
    with pytest.raises(Unacceptable, match=r"method rollout: .*, not cross of this model"):
        query_of(translator(), method="rollout", kind="cross")
    with pytest.raises(Unacceptable, match=r"method relevance: is in decoder and cross, not encoder of this model"):
        query_of(translator(), method="relevance", kind="encoder")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("tench, Tinca tinca", (0,)), (["tench, Tinca tinca", "1"], (0, 1)), ("1", (1,)), ("1,tench, 0", None),
        ("cat, 0", (1, 0)), ("2,cat", (2, 1)), (1, (1,)), ([1, 2], (1, 2)), ("2", (2,)), ("01", (1,)), ("\u0661", None),
        ("7", None), (7, None), ("-1", None), (-1, None),
    ],
)  # fmt: skip
def test_digits_are_an_index_wherever_they_are_written_and_another_string_is_a_label(given, wanted):
    model = vit().model_copy(update={"labels": ("tench, Tinca tinca", "cat", "1")})
    for strings in {False, isinstance(given, str)}:  # in JSON, and in a query or form, which hold strings only
        options = parse(AttentionOptions, {"method": "relevance", "target": given}, strings=strings)
        if wanted is None:
            with pytest.raises(Unacceptable, match="target: must be from 0 to 2 or a label, given another"):
                resolve(options, model)
        else:
            assert resolve(options, model).targets == wanted


def test_the_class_token_is_refused_where_there_is_none():
    with pytest.raises(Unacceptable, match="queries: cls needs a class token"):
        query_of(translator(), queries="cls")


def test_a_label_of_several_classes_is_no_target():
    model = vit().model_copy(update={"labels": ("crane", "cow", "crane")})
    assert query_of(model, method="libra", target="cow").targets == (1,)
    assert query_of(model, method="libra", target=2).targets == (2,)
    with pytest.raises(Unacceptable, match=r"target: must be a label of one class, .* given one of the classes 0, 2"):
        query_of(model, method="libra", target="crane")
    with pytest.raises(Unacceptable, match="against: must be a label of one class"):
        query_of(model, method="libra", target="cow", against={"label": "crane"})


def test_the_best_method_is_the_one_that_was_measured_and_its_options_are_those_it_has():
    found = Recommendation(method="libra", measure="deletion area", values={"libra": 0.1, "raw": 0.4})
    model = vit().model_copy(update={"best": found})
    query = query_of(model, method="best", target="cow", layers=1)
    assert (query.method, query.best, query.targets, query.kinds[0].layers) == ("libra", found, (1,), (1,))
    assert query_of(model, method="libra").best is None
    with pytest.raises(Unacceptable, match="heads: libra is of the sum"):
        query_of(model, method="best", heads="max")


def test_libra_is_at_the_first_of_the_states_that_its_graph_has_unless_others_are_asked_for():
    model = vit()
    assert query_of(model, method="libra").kinds[0].layers == (0,)
    assert query_of(model, method="libra", layers=[2, 0]).kinds[0].layers == (2, 0)
    fewer = model.model_copy(update={"graphs": graphs("logits", 3, "pixels", 2, ["encoder"])})
    assert query_of(fewer, method="libra", layers="all").kinds[0].layers == (0, 1)
    with pytest.raises(Unacceptable, match="layers: must be from -2 to 1, given 2"):
        query_of(fewer, method="libra", layers=2)


@pytest.mark.parametrize(
    ("method", "words"),
    [("relevance", "is through all of them"), ("libra", "is of the input"), ("integrated", "are of the input")],
)
def test_an_encoder_decoder_has_no_layers_to_choose_for_what_explains_a_score(method, words):
    with pytest.raises(Unacceptable, match=f"layers: .*{words}"):
        query_of(translator(), method=method, layers=0)
    with pytest.raises(Unacceptable, match="queries: are the targets' own"):
        query_of(translator(), method=method, queries=0)


def test_eight_bit_weights_are_told_of_the_export_that_explains_them():
    left_out = {"libra": "left out: 8-bit weights have no gradient"}
    eight = vit("raw").model_copy(update={"precision": "int8", "verified": left_out})
    with pytest.raises(Unacceptable, match=r"method libra: needs the graph in floats, .* --explain float; this model"):
        query_of(eight, method="libra")
    explained = vit().model_copy(update={"precision": "int8", "explained": "fp32"})
    assert query_of(explained, method="libra").method == "libra"


@pytest.mark.parametrize(
    ("model", "options", "summarized"),
    [
        (vit(), {"method": "libra"}, True),
        (vit(), {"method": "relevance"}, False),
        (vit(), {}, False),
        (translator(), {"method": "libra"}, False),
        (embedder(), {"method": "relevance", "against": {"text": "a"}}, True),
        (embedder(), {"method": "relevance", "against": {"text": "a"}, "queries": [1, 2]}, False),
        (embedder("first"), {"method": "relevance", "against": {"text": "a"}}, False),
        (embedder("first"), {"method": "libra", "against": {"text": "a"}}, True),
        (embedder(), {"method": "rollout"}, False),
    ],
)
def test_one_row_stands_for_the_answer_where_no_token_is_explained_and_no_row_is_asked_for(model, options, summarized):
    query = query_of(model, **options)
    assert query.summarized == summarized
    if summarized:
        assert query.count_rows(query.kinds[0], {"source": 7, "image": 7}) == 1


def test_maps_rows_and_runs_are_counted_by_method():
    lengths = {"image": TOKENS, "source": 4, "target": 3, "target_input": 3}
    libra = query_of(method="libra", layers="all", target="0,1")
    assert libra.count_maps(libra.kinds[0], libra.count_targets(1)) == 2 * LAYERS
    path = query_of(method="integrated", steps=5)
    assert (path.points, path.runs, query_of(method="integrated").runs, libra.runs) == (5, 7, 50, 1)
    several = query_of(method="relevance", queries="all")
    assert several.count_rows(several.kinds[0], lengths) == TOKENS
    tokens = query_of(translator(), method="libra", kind="cross")
    assert (tokens.count_targets(3), tokens.count_rows(tokens.kinds[0], lengths)) == (3, 1)


def test_steps_of_a_stream_are_not_the_points_of_a_path():
    for options, streams in (({"steps": True}, True), ({"steps": "1"}, True), ({"steps": "0"}, False), ({}, False)):
        assert query_of(translator(), kind="cross", **options).streams_steps == streams
    path = query_of(translator(), method="integrated", steps="1")
    assert (path.streams_steps, path.points) == (False, 1)


LOOKED_FOR = {"image": 6, "object": 4}


def test_the_rows_by_default_are_those_that_stand_for_the_answer():
    encoder, decoder, cross = finder().attention
    first = vit().attention[0]
    assert [rows_of(kind, None) for kind in (encoder, decoder, cross, first)] == ["mean", "found", "found", "cls"]
    bare = first.model_copy(update={"prefix": 0})
    assert rows_of(bare, None) == "mean"
    assert rows_of(first.model_copy(update={"suffix": 2}), None) == "found"
    assert rows_of(translator().attention[0], None) == "all"
    assert rows_of(first.model_copy(update={"pooled": "last"}), None) == (-1,)
    assert rows_of(first.model_copy(update={"pooled": "last"}), "cls") == "cls"
    assert rows_of(cross, (0, 2)) == (0, 2)
    query = query_of(finder())
    found = {one.kind.name: one.rows(LOOKED_FOR[one.kind.query]) for one in query.kinds}
    assert found == {"encoder": [MEAN_ROW], "decoder": [0, 1, 2, 3], "cross": [0, 1, 2, 3]}
    behind = query_of(vit().model_copy(update={"attention": (first.model_copy(update={"suffix": 2}),)}))
    assert behind.kinds[0].rows(7) == [5, 6]


@pytest.mark.parametrize(
    ("kind", "queries", "words"),
    [
        ("encoder", "cls", "queries: cls needs a class token, and this kind of map has no row of one"),
        ("encoder", "found", "queries: found is of objects, and this kind of map has no rows of any"),
        ("decoder", "mean", "queries: mean is of the patches of images without a class token, and this kind of map is"),
        ("cross", "mean", "queries: mean is of the patches of images without a class token"),
        (None, "found", "queries: found is of objects"),
    ],
)
def test_rows_that_a_kind_has_not_are_refused_by_name(kind, queries, words):
    with pytest.raises(Unacceptable, match=f"^{words}"):
        query_of(finder(), queries=queries, **({"kind": kind} if kind else {}))


def test_no_more_rows_are_counted_than_objects_may_be_found():
    query = query_of(finder(), kind="cross")
    assert query.count_rows(query.kinds[0], LOOKED_FOR) == 4
    fewer = replace(query, found=DetectOptions(top_k=3))
    assert fewer.count_rows(fewer.kinds[0], LOOKED_FOR) == 3
    every = replace(query_of(finder(), kind="cross", queries="all"), found=DetectOptions(top_k=3))
    assert every.count_rows(every.kinds[0], LOOKED_FOR) == 4
    explained = query_of(finder(), method="libra", target="1,2")
    assert (explained.count_rows(explained.kinds[0], LOOKED_FOR), explained.count_targets(1)) == (1, 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "libra", "against": '{"index": 3.0}'}, "against: must be from 0 to 2, given 3"),
        ({"method": "libra", "against": '{"index": 2.5}'}, "against: must be an object with one of"),
        ({"method": "relevance", "target": 4}, "target: must be numbers of objects, from 0 to 3, given another"),
        ({"method": "libra", "target": "cat"}, "target: must be numbers of objects, from 0 to 3, given another"),
        ({"method": "libra", "target": "-1"}, "target: must be numbers of objects, from 0 to 3, given another"),
        ({"method": "libra", "against": {"index": 3}}, "against: must be from 0 to 2, given 3"),
        ({"method": "libra", "against": {"token": 1}}, "against: must be label or index for object-detection"),
        ({"method": "relevance", "queries": 1}, "queries: are the targets' own; choose them by target"),
        ({"method": "integrated", "kind": "decoder"}, "method integrated: is in cross, not decoder of"),
        ({"method": "libra", "kind": "encoder"}, "method libra: is in cross, not encoder of this model"),
        ({"method": "rollout", "kind": "cross"}, "method rollout: needs maps of tokens onto themselves"),
    ],
)
def test_what_a_detector_cannot_show_is_refused_with_the_reason(options, words):
    with pytest.raises(Unacceptable, match=f"^{words}"):
        query_of(finder(), **options)


def test_an_object_is_explained_by_its_number_after_a_prediction():
    model = finder()
    for method in ("relevance", "libra", "integrated"):
        query = query_of(model, method=method, target="3,0")
        assert (query.explains, query.targets, query.summarized) == ("object", (3, 0), False)
        assert query.predicts_first(model)
    assert query_of(model, method="libra", against={"label": "3"}).against == 2
    assert not query_of(model).predicts_first(model)


def test_methods_are_compared_by_the_row_of_an_object_whether_it_is_found_or_not():
    model = finder()
    found = compared(query_of(model, evaluate="compare"), lambda options: resolve(options, model), 2)
    assert list(found) == ["raw", "norm", "relevance", "libra", "integrated"]
    assert {one.kinds[0].queries for method, one in found.items() if method in ("raw", "norm")} == {"all"}
    assert {one.targets for method, one in found.items() if method not in ("raw", "norm")} == {(2,)}


def test_select_counts_negative_indices_from_the_end():
    assert select("rows", (-1, 0), 4) == [3, 0]
    assert select("rows", slice(-2, None), 4) == [2, 3]
    assert select("rows", "all", 3) == [0, 1, 2]


def test_a_method_that_the_export_left_out_is_refused_with_that_reason():
    manifest = vit("raw", "rollout").model_copy(update={"verified": {"relevance": "left out: off by 1 at batch 3"}})
    wanted = "method relevance: was left out when this model was exported; this model serves raw, rollout"
    with pytest.raises(Unacceptable, match=f"^{wanted}$"):
        query_of(manifest, method="relevance")
    with pytest.raises(Unacceptable, match=r"^method norm: needs values that are joined"):
        query_of(manifest, method="norm")
