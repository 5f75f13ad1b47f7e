"""Sources become artifacts: every check can fail, and a failure leaves nothing behind."""

import pytest
import torch

from contract.artifact import read_artifact
from contract.manifest import was_left_out
from export.checks.comparison import Ledger, failure
from export.errors import ExportError
from export.pipeline import export
from model.vit import vit
from tests.conftest import ROOT
from tests.samples.export_models import VIT, classifier, sharpened, translator


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
    assert [value.name for value in graphs["attention"].graph.output] == ["logits", *shown]


def test_the_same_input_gives_the_same_bytes(tmp_path):
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
            "encode.onnx",
            "decode.onnx",
            "tokenizer.json",
            "weights.bin",
        ]
    )
    assert [path.name for path in target.parent.iterdir()] == ["7"]
    manifest = read_artifact(target).manifest
    assert manifest.graphs.keys() == {"predict", "attention", "relevance", "encode", "decode"}
    assert manifest.verified["cached = uncached"] < 1e-4
    said = capsys.readouterr().out
    for step in ("trace", "weights", "verify", "pack"):
        assert f"  {step}" in said


def test_a_failed_verification_leaves_no_artifact_and_the_old_one_in_place(tmp_path, monkeypatch):
    old = export(classifier(), "1", tmp_path)
    before = (old / "manifest.json").read_bytes()
    monkeypatch.setattr("export.pipeline.verify", lambda *_: (_ for _ in ()).throw(ExportError("no")))
    for version in ("1", "2"):
        with pytest.raises(ExportError):
            export(classifier(), version, tmp_path)
    assert [path.name for path in old.parent.iterdir()] == ["1"]
    assert (old / "manifest.json").read_bytes() == before


def test_an_artifact_replaces_the_one_of_its_version(tmp_path):
    export(classifier(), "1", tmp_path)
    assert read_artifact(export(classifier(sharpened(vit(VIT))), "1", tmp_path)).manifest.version == "1"


METHODS = {"rollout": "attention", "norm": "attention", "relevance": "relevance"}


ONE_AND_THE_REST = ["relevance", *(pytest.param(name, marks=pytest.mark.slow) for name in ("rollout", "norm"))]


@pytest.mark.parametrize("method", ONE_AND_THE_REST)
def test_a_method_is_left_out_if_asked_and_the_others_stay(tmp_path, method):
    folder = export(translator(), "1", tmp_path, without=[method])
    manifest = read_artifact(folder).manifest
    wanted = {kind.kind: tuple(one for one in kind.methods if one != method) for kind in translator().attention}
    assert {kind.kind: kind.methods for kind in manifest.attention} == wanted
    assert ("relevance" in manifest.graphs) == (method != "relevance")
    assert manifest.verified[method] == "left out: as the export was asked to"
    assert not any(name.startswith((f"{method}:", f"{method},")) for name in manifest.verified)
    assert any(port.name == "encoder.discard" for port in manifest.graphs["attention"].inputs) == (method != "rollout")


def test_only_a_method_that_the_model_has_is_named_as_left_out(tmp_path):
    source = classifier().without("norm")
    manifest = read_artifact(export(source, "1", tmp_path, "int8", force=True, without=["norm", "rollout"])).manifest
    left_out = {name: said for name, said in manifest.verified.items() if was_left_out(manifest, name)}
    assert left_out == {
        "relevance": "left out: 8-bit weights have no gradient",
        "rollout": "left out: as the export was asked to",
    }


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
    assert set(kind.methods) == {"raw", *METHODS} - {method}
    assert str(manifest.verified[method]).startswith(f"left out: {method}")
    assert "must agree within 1, differs by 2" in str(manifest.verified[method])
    assert f"LEFT OUT  {method}, which fails: {method}" in capsys.readouterr().out


def test_a_method_without_a_graph_is_left_out(tmp_path, monkeypatch):
    def no_rule(*_):
        raise ExportError("relevance: Sin has no gradient here")

    monkeypatch.setattr("export.pipeline.relevance_graph", no_rule)
    manifest = read_artifact(export(classifier(), "1", tmp_path)).manifest
    assert manifest.verified["relevance"] == "left out: relevance: Sin has no gradient here"
    assert manifest.graphs.keys() == {"predict", "attention"}


def test_weights_and_predictions_cannot_be_left_out(tmp_path, monkeypatch):
    right = Ledger.compare

    def compare(self, what, *given, **more):
        if what.startswith("raw"):
            raise failure(what, f"{what}: must agree")
        right(self, what, *given, **more)

    monkeypatch.setattr(Ledger, "compare", compare)
    with pytest.raises(ExportError, match="raw: encoder: must agree"):
        export(classifier(), "1", tmp_path)
    assert not list(tmp_path.iterdir())
