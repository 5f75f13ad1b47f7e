"""Sources become artifacts: every check can fail, and a failure leaves nothing behind."""

import copy
import re
from dataclasses import replace
from typing import get_args

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer

from contract.artifact import read_artifact
from contract.generation import COUNT
from contract.manifest import SALIENCY, STATE_METHODS, GradientMethod, was_left_out
from export.checks.comparison import Ledger, failure, run
from export.checks.reference import CASES, with_fixed_axes
from export.errors import CheckpointError, ExportError
from export.graphs.tracing.torch_export import trace
from export.pipeline import EXPLAINING_GRAPHS, export
from export.plan import OPTIONAL_METHODS
from export.verification import open_session
from model.architectures.gpt import GPTConfig
from model.architectures.transformer import vaswani
from model.architectures.vit import vit
from model.architectures.vit_variants import axial
from model.parts.heads import POOLS
from model.vocabularies import ALPHABET, SPECIALS
from tests.conftest import ROOT
from tests.samples.export_models import (
    TRANSFORMER,
    VIT,
    classifier,
    continuer,
    embedder,
    opened,
    sharpened,
    translator,
    windowed,
)

EXPLAINING = get_args(GradientMethod)
METHODS = tuple(method for method in OPTIONAL_METHODS if method != SALIENCY)
"""Those that models of grey pictures, or of texts, can be made without."""


def test_graphs_say_nothing_of_the_machine_they_were_made_on(graphs):
    for graph in graphs.values():
        text = graph.SerializeToString()
        assert str(ROOT).encode() not in text
        assert b"stack_trace" not in text
        assert b".py" not in text


def test_axes_have_the_names_of_the_manifest(source, graphs):
    for plan in source.plans:
        values = [*graphs[plan.role].graph.input, *graphs[plan.role].graph.output]
        for port, value in zip((*plan.inputs, *plan.outputs), values, strict=True):
            axes = tuple(axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim)
            assert (port.name, port.axes) == (value.name, axes)


def test_predict_has_no_map_among_its_outputs_and_attention_all_of_them(source, graphs):
    kinds = [kind.kind for kind in source.attention]
    assert [value.name for value in graphs["predict"].graph.output] == ["logits"]
    shown = [name for kind in kinds for name in (kind, f"{kind}.diagnostics")]
    shown += [f"{kind.kind}.states" for kind in source.attention if kind.compares_states]
    assert [value.name for value in graphs["attention"].graph.output] == ["logits", *shown]


@pytest.mark.slow
def test_predictions_of_axial_attention_on_a_large_grid_need_no_square_of_its_tokens(tmp_path):
    """On a small grid they do, where that is quicker. The export verifies both against full attention with a mask."""
    squares = {}
    for side in (4, 10):
        config = replace(VIT, image=(2 * side, 2 * side), patch=(2, 2), layers=1)
        source = classifier(sharpened(axial(config)), config)
        folder = export(source, "1", tmp_path / str(side), without=METHODS)
        inputs = {"pixels": np.random.default_rng(1).integers(0, 256, (2, 2 * side, 2 * side, 1), np.uint8)}
        tokens = 1 + side * side
        for role in ("predict", "attention"):
            graph = onnx.shape_inference.infer_shapes(onnx.load(folder / f"{role}.onnx"), data_prop=True)
            shapes = [[axis.dim_value for axis in one.type.tensor_type.shape.dim] for one in graph.graph.value_info]
            squares[side, role] = any(shape[-2:] == [tokens, tokens] for shape in shapes)
        (given,) = opened(folder)("predict").run(None, inputs)
        with torch.no_grad():
            exact = source.traced.double().observe(torch.from_numpy(inputs["pixels"])).answer
        assert np.abs(given - exact.numpy()).max() < 1e-5
    assert squares == {(4, "predict"): True, (4, "attention"): True, (10, "predict"): False, (10, "attention"): True}


def test_the_same_input_gives_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("export.pipeline.trace", trace)

    def exported(name):
        torch.manual_seed(0)
        return export(classifier(), "1", tmp_path / name)

    first, second = exported("a"), exported("b")
    assert {path.name: path.read_bytes() for path in first.iterdir()} == {
        path.name: path.read_bytes() for path in second.iterdir()
    }


def test_an_artifact_is_whole_and_readable_and_nothing_is_left_beside_it(tmp_path, capsys):
    target = export(translator(), "7", tmp_path)
    assert sorted(path.name for path in target.iterdir()) == sorted(
        [
            "manifest.json",
            "predict.onnx",
            "attention.onnx",
            "relevance.onnx",
            "libra.onnx",
            "integrated.onnx",
            "inside.onnx",
            "encode.onnx",
            "decode.onnx",
            "tokenizer.json",
            "weights.bin",
        ]
    )
    assert [path.name for path in target.parent.iterdir()] == ["7"]
    manifest = read_artifact(target).manifest
    assert manifest.graphs.keys() == {"predict", "attention", *EXPLAINING, "inside", "encode", "decode"}
    assert manifest.verified["cached = uncached"] < 1e-4
    said = capsys.readouterr().out
    for step in ("trace", "weights", "verify", "pack"):
        assert f"  {step}" in said


def test_a_failed_verification_leaves_no_artifact_and_the_old_one_in_place(tmp_path, monkeypatch):
    old = export(classifier(), "1", tmp_path, without=METHODS)
    before = (old / "manifest.json").read_bytes()
    monkeypatch.setattr("export.pipeline.verify_files", lambda *_: (_ for _ in ()).throw(ExportError("no")))
    for version in ("1", "2"):
        with pytest.raises(ExportError):
            export(classifier(), version, tmp_path, without=METHODS)
    assert [path.name for path in old.parent.iterdir()] == ["1"]
    assert (old / "manifest.json").read_bytes() == before


def test_an_artifact_replaces_the_one_of_its_version_and_says_so_beside_its_path(tmp_path, capsys):
    export(classifier(), "1", tmp_path)
    folder = export(classifier(sharpened(vit(VIT))), "1", tmp_path, without=EXPLAINING)
    manifest = read_artifact(folder).manifest
    assert manifest.version == "1"
    assert {path.name for path in folder.iterdir()} == {
        "manifest.json", "predict.onnx", "attention.onnx", "inside.onnx", "weights.bin"
    }  # fmt: skip
    said = capsys.readouterr().out.splitlines()
    assert said.count(f"  pack      {folder}") == 2, "the client reads the path of this line"
    assert sum(line.startswith("  replaced ") for line in said) == 1


def test_without_methods_of_states_none_are_returned(tmp_path):
    few = export(classifier(), "1", tmp_path, without=[*EXPLAINING, *STATE_METHODS])
    graph = read_artifact(few).manifest.graphs["attention"]
    assert [port.name for port in graph.outputs] == ["logits", "encoder", "encoder.diagnostics"]
    assert "encoder.after" not in {port.name for port in graph.inputs}


ONE_AND_THE_REST = ["libra", *(pytest.param(name, marks=pytest.mark.slow) for name in METHODS if name != "libra")]


@pytest.mark.parametrize("make", [classifier, pytest.param(translator, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ONE_AND_THE_REST)
def test_a_method_is_left_out_if_asked_and_the_others_stay(tmp_path, make, method):
    folder = export(make(), "1", tmp_path, without=[method])
    manifest = read_artifact(folder).manifest
    wanted = {kind.kind: tuple(one for one in kind.methods if one != method) for kind in make().attention}
    assert {kind.kind: kind.methods for kind in manifest.attention} == wanted
    assert manifest.graphs.keys() & set(EXPLAINING) == set(EXPLAINING) - {method}
    left_out = any(method in kind.methods for kind in make().attention)
    assert manifest.verified.get(method) == ("left out: as the export was asked to" if left_out else None)
    assert not any(name.startswith((f"{method}:", f"{method},")) for name in manifest.verified)
    assert any(port.name == "encoder.discard" for port in manifest.graphs["attention"].inputs) == (method != "rollout")


def test_windows_of_one_stage_are_exported_in_8_bits_with_their_loss(tmp_path):
    manifest = read_artifact(export(windowed(), "1", tmp_path, "int8", force=True, explain_in_float=True)).manifest
    assert set(EXPLAINING) - {"libra"} <= manifest.graphs.keys()
    assert 0 < next(loss for what, loss in manifest.verified.items() if what.endswith("maps moved")) < 0.2


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_a_decoder_in_few_bits_says_its_perplexity_beside_that_of_full_precision(tmp_path, precision):
    source = continuer(GPTConfig(len(SPECIALS) + len(ALPHABET), length=32, width=32, layers=2, heads=2, hidden=40))
    texts = ["march 3, 2021 = 2021-03-03", "may", "3/23/21"]
    (tmp_path / "texts").write_text("\n".join(texts))
    folder = export(source, "1", tmp_path / "made", precision, samples=tmp_path / "texts", force=True)
    manifest = read_artifact(folder).manifest
    assert manifest.precision == precision
    assert manifest.scales == ("row" if precision == "int8" else None)
    assert was_left_out(manifest, "libra")
    kinds = {node.op_type for node in onnx.load(folder / "decode.onnx", load_external_data=False).graph.node}
    assert ("MatMulNBits" if precision == "int4" else "MatMulIntegerToFloat") in kinds
    session, tokenizer = open_session(folder, "predict"), Tokenizer.from_str(source.tokenizer)
    surprises = {"": [], " in fp32": []}
    for text in texts:
        tokens = np.array([tokenizer.encode(text).ids])
        given = {"target": tokens, "answered": np.arange(tokens.shape[1])[None]}
        with torch.no_grad():
            exact = source.traced.observe(*(torch.tensor(given[port.name]) for port in source.base.inputs)).answer
        for name, logits in (("", session.run(["logits"], given)[0]), (" in fp32", exact.numpy())):
            odds = np.exp(logits[0].astype(np.float64))
            odds /= odds.sum(-1, keepdims=True)
            surprises[name] += [-np.log(odds[place, token]) for place, token in enumerate(tokens[0, 1:])]
    for name, each in surprises.items():
        found = manifest.verified[f"{precision}, 3 samples: perplexity{name}"]
        assert found == pytest.approx(np.exp(np.mean(each)), rel=5e-3), "three digits are kept"
    assert len({manifest.verified[f"{precision}, 3 samples: perplexity{name}"] for name in surprises}) == 2


def test_only_a_method_that_the_model_has_is_named_as_left_out(tmp_path):
    source = classifier().without("norm")
    without = ["norm", "rollout", "libra"]
    manifest = read_artifact(export(source, "1", tmp_path, "int8", force=True, without=without)).manifest
    left_out = {name: said for name, said in manifest.verified.items() if was_left_out(manifest, name)}
    no_gradient = "left out: 8-bit weights have no gradient; with --explain float it is exported in fp32"
    assert left_out == {
        "relevance": no_gradient,
        "integrated": no_gradient,
        "rollout": "left out: as the export was asked to",
        "libra": "left out: as the export was asked to",
    }
    assert manifest.explained is None


def images_in(folder, count):
    """Write images of a classifier's size, dark and light ones by turns."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for index in range(count):
        pixels = random.integers(0, 256 if index % 2 else 32, (8, 12), np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.png")
    return folder


def test_scales_are_of_tokens_of_inputs_of_many_tokens_or_fixed_where_samples_calibrate(tmp_path, monkeypatch, capsys):
    images, without = images_in(tmp_path / "images", 9), METHODS

    def made(name, precision="int8", **more):
        folder = export(classifier(), "1", tmp_path / name, precision, force=True, without=without, **more)
        return read_artifact(folder).manifest

    assert made("full", "fp32").scales is None
    assert made("short").scales == "row"
    monkeypatch.setattr("export.pipeline.INPUT_SCALE_TOKENS", classifier().attention[0].length)
    assert made("long").scales == "input"
    capsys.readouterr()
    halves = made("halves", calibrate=images)
    assert "scales: fixed, of 21 inputs" in capsys.readouterr().out
    assert halves.scales == "fixed"
    assert "int8, 4 samples: 1 - cosine" in halves.verified, "every second image is kept to compare with"
    apart = made("apart", calibrate=images, samples=images_in(tmp_path / "others", 3))
    assert "scales: fixed, of 25 inputs" in capsys.readouterr().out
    assert "int8, 3 samples: 1 - cosine" in apart.verified


def test_what_generates_is_not_calibrated_and_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"^--calibrate: must be of a task that one pass answers, given text2"):
        export(translator(), "1", tmp_path, "int8", calibrate=tmp_path)
    with pytest.raises(CheckpointError, match=r"^--calibrate: must be a folder of images, given one that holds none$"):
        export(classifier(), "1", tmp_path, "int8", calibrate=tmp_path)
    assert not list(tmp_path.iterdir())


def inputs_of(source, role):
    """Return inputs of a graph: all raw maps, one cell, or a class and what speaks against it, a quarter of the way."""
    sizes, kinds = source.verified_at[1], source.traced.kinds
    batch = sizes["batch"]
    given = {
        **CASES[0].controls(kinds, with_fixed_axes(source, sizes), 5),
        "explained": torch.full((batch,), 2),
        "against": torch.zeros(batch, dtype=torch.int64),
        "rows": torch.zeros(batch, 2, dtype=torch.int64),
        "point": torch.full((batch,), 0.25),
        "blank": torch.ones(batch),
        COUNT: torch.tensor([3]),
        "query": torch.ones(batch, dtype=torch.int64),
        "key": torch.zeros(batch, dtype=torch.int64),
    }
    return [tensor.numpy() for tensor in source.plan(role).example(sizes, 5, given)]


def flat_translator():
    """Return a translator whose attention is flat, which 8 bits keep closer than a sharp one."""
    torch.manual_seed(0)
    return translator(vaswani(TRANSFORMER).eval())


@pytest.mark.parametrize("make", [classifier, pytest.param(flat_translator, marks=pytest.mark.slow)])
def test_an_int8_artifact_explains_by_the_float_graphs_of_the_same_weights(tmp_path, make):
    """The graphs that explain a score are those of an fp32 artifact, and all others those of an int8 one."""
    source = make()
    folders, ways = {}, {"fp32": {}, "int8": {}, "both": {"explain_in_float": True}}
    for name, more in ways.items():
        precision = "fp32" if name == "fp32" else "int8"
        folders[name] = export(source, "1", tmp_path / name, precision, force=True, without=["norm"], **more)
    manifests = {name: read_artifact(folder).manifest for name, folder in folders.items()}
    assert {name: one.explained for name, one in manifests.items()} == {"fp32": None, "int8": None, "both": "fp32"}
    assert {name: one.precision for name, one in manifests.items()} == {"fp32": "fp32", "int8": "int8", "both": "int8"}
    assert manifests["both"].graphs.keys() == manifests["fp32"].graphs.keys()
    for role in manifests["both"].graphs:
        same, other = ("fp32", "int8") if role in EXPLAINING else ("int8", "fp32")
        plan, inputs = source.plan(role), inputs_of(source, role)
        found = {name: run(plan, open_session(folders[name], role), inputs) for name in (same, other, "both")
                 if role in manifests[name].graphs}  # fmt: skip
        for ours, theirs in zip(found["both"], found[same], strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=role)
        if other in found:
            assert not np.array_equal(found["both"][0], found[other][0]), role
    for method in EXPLAINING:
        kept = {what: value for what, value in manifests["both"].verified.items() if what.startswith(f"{method}:")}
        assert kept
        assert kept == {what: manifests["fp32"].verified[what] for what in kept}
        assert f"predict = {method}'s prediction" not in manifests["both"].verified


@pytest.mark.slow
def test_float_graphs_of_an_int8_artifact_have_the_limits_of_floats(tmp_path, monkeypatch):
    """An error that 8 bits may have is none that they may have."""
    right = Ledger.compare

    def compare(self, what, got, wanted, where, **more):
        right(self, what, got + (0.01 if what == "libra: score" else 0), wanted, where, **more)

    monkeypatch.setattr(Ledger, "compare", compare)
    manifest = read_artifact(
        export(classifier(), "1", tmp_path, "int8", force=True, without=["norm", "relevance"], explain_in_float=True)
    ).manifest
    assert manifest.graphs.keys() == {"predict", "attention", "integrated", "inside"}
    limit = re.match(r"left out: libra: score: must agree within ([\d.e-]+), ", str(manifest.verified["libra"]))
    assert float(limit[1]) < 0.001


def test_nothing_is_said_of_float_graphs_where_there_are_none(tmp_path):
    folder = export(classifier(), "1", tmp_path, "int8", force=True, without=EXPLAINING, explain_in_float=True)
    manifest = read_artifact(folder).manifest
    assert manifest.explained is None
    assert manifest.graphs.keys() == {"predict", "attention", "inside"}
    whole = export(classifier(), "1", tmp_path / "fp32", without=EXPLAINING)
    assert (folder / "weights.bin").stat().st_size < (whole / "weights.bin").stat().st_size


@pytest.mark.parametrize("method", ONE_AND_THE_REST)
def test_a_method_that_fails_is_left_out_with_its_reason_and_the_others_stay(tmp_path, monkeypatch, capsys, method):
    right = Ledger.compare

    def compare(self, what, *given, **more):
        if what.startswith(method):
            raise failure(what, f"{what}: must agree within 1, differs by 2 at batch 3")
        right(self, what, *given, **more)

    monkeypatch.setattr(Ledger, "compare", compare)
    folder = export(classifier(), "1", tmp_path)
    manifest = read_artifact(folder).manifest
    (kind,) = manifest.attention
    assert set(kind.methods) == set(METHODS) - {method} | {"raw"}
    assert str(manifest.verified[method]).startswith(f"left out: {method}")
    assert "must agree within 1, differs by 2" in str(manifest.verified[method])
    assert f"LEFT OUT  {method}, which fails: {method}" in capsys.readouterr().out


def test_a_method_without_a_graph_is_left_out(tmp_path, monkeypatch):
    def no_rule(*_):
        raise ExportError("gradient: Sin has no gradient here")

    monkeypatch.setitem(EXPLAINING_GRAPHS, "libra", no_rule)
    manifest = read_artifact(export(classifier(), "1", tmp_path)).manifest
    assert manifest.verified["libra"] == "left out: gradient: Sin has no gradient here"
    assert manifest.graphs.keys() == {"predict", "attention", "relevance", "integrated", "inside"}


def test_a_graph_of_what_is_inside_that_returns_other_numbers_is_left_out(tmp_path, monkeypatch):
    right = EXPLAINING_GRAPHS["inside"]

    def of_the_next_layer(base, plan, traced):
        other = copy.copy(traced)
        other.kinds = tuple(kind.model_copy(update={"maps": kind.maps[::-1]}) for kind in traced.kinds)
        return right(base, plan, other)

    monkeypatch.setitem(EXPLAINING_GRAPHS, "inside", of_the_next_layer)
    manifest = read_artifact(export(classifier(), "1", tmp_path, without=METHODS)).manifest
    assert manifest.verified["inside"].startswith("left out: inside: encoder: must agree within ")
    assert manifest.graphs.keys() == {"predict", "attention"}


def test_weights_and_predictions_cannot_be_left_out(tmp_path, monkeypatch):
    right = Ledger.compare

    def compare(self, what, *given, **more):
        if what.startswith("raw"):
            raise failure(what, f"{what}: must agree")
        right(self, what, *given, **more)

    monkeypatch.setattr(Ledger, "compare", compare)
    with pytest.raises(ExportError, match="raw: encoder: must agree"):
        export(classifier(), "1", tmp_path, without=METHODS)
    assert not list(tmp_path.iterdir())


def test_caches_hold_the_heads_of_keys_and_every_method_those_of_queries(tmp_path):
    """The export holds every graph, and steps with a cache, against the definition in float64."""
    config = GPTConfig(len(SPECIALS) + len(ALPHABET), length=16, width=16, layers=2, heads=4, hidden=20, key_heads=2)
    manifest = read_artifact(export(continuer(config), "1", tmp_path)).manifest
    caches = [port for port in manifest.graphs["decode"].inputs if port.name.startswith("past.")]
    assert {port.axes for port in caches} == {("batch", 2, "capacity", 4)}
    (kind,) = manifest.attention
    assert kind.heads == 4
    assert set(kind.methods) == {"raw", *METHODS} - set(STATE_METHODS)


@pytest.mark.parametrize("pooling", POOLS)
def test_an_embedding_and_every_method_go_through_each_pool(tmp_path, pooling):
    """The export holds every graph, its gradients among them, against the definition in float64."""
    (kind,) = read_artifact(export(embedder(pooling), "1", tmp_path)).manifest.attention
    assert set(kind.methods) == {"raw", *METHODS} - {"parts"}
