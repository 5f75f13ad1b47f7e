"""Manifests that do not fit their graphs are refused at start, each with its reason."""

import json
import re
import shutil

from contract.manifest import GRADIENT_METHODS, Port
from service.repository.models.cross_check import (
    _faults_of_inside,
    _faults_of_method,
    _faults_of_saliency,
    _is_quotient,
)
from tests.conftest import start
from tests.samples.attention_queries import finder, looked_into, vit
from tests.samples.changed_artifacts import edit
from tests.samples.wrong_manifests import DATES, DIGITS, all_of, put


def test_a_service_does_not_start_with_a_manifest_that_does_not_fit_its_graphs(complete, light, tmp_path):
    reasons = {}
    for model, cases in (("digits", DIGITS), ("dates", DATES)):
        for index, (change, reason) in enumerate(cases.values()):
            name = f"wrong-{model}-{index}"
            artifacts = complete if re.search("libra|relevance", reason) else light
            folder = shutil.copytree(artifacts / model / "1", tmp_path / name / "1")
            edit(folder, all_of(put("name", name), change))
            reasons[str(folder / "manifest.json")] = reason
    process = start(tmp_path, port=0)
    said, _ = process.communicate(timeout=120)
    lines = [json.loads(line) for line in said.splitlines()]
    refused = {line["file"]: line["reason"] for line in lines if line["event"] == "artifact cannot be used"}
    assert process.returncode == 3, said
    assert refused.keys() == reasons.keys()
    for file, reason in reasons.items():
        assert refused[file].startswith(reason)


def test_a_grid_is_as_many_whole_patches_of_some_size_as_fit():
    for pixels in range(1, 120):
        counts = {pixels // side for side in range(1, pixels + 1)}
        assert {count for count in range(-2, pixels + 3) if _is_quotient(count, pixels)} == counts


def test_a_method_needs_its_graph_and_a_graph_its_method():
    whole = vit()
    for method in GRADIENT_METHODS:
        without = {role: graph for role, graph in whole.graphs.items() if role != method}
        unlisted = vit(*(one for one in GRADIENT_METHODS if one != method))
        for manifest in (whole.model_copy(update={"graphs": without}), unlisted):
            faults = list(_faults_of_method(manifest, method))
            assert faults == [f"must have a graph of {method} exactly if some kind has the method"]
        assert not list(_faults_of_method(vit("raw").model_copy(update={"graphs": without}), method))


def test_what_is_inside_must_be_of_every_kind():
    assert not list(_faults_of_inside(vit()))
    whole = looked_into(finder())
    assert not list(_faults_of_inside(whole))
    graph, encoder = whole.graphs["inside"], looked_into(vit()).graphs["inside"]
    for change in ({"outputs": graph.outputs[1:]}, {"inputs": graph.inputs[:-1]}, {"outputs": encoder.outputs}):
        other = whole.model_copy(update={"graphs": {**whole.graphs, "inside": graph.model_copy(update=change)}})
        assert list(_faults_of_inside(other)) == ["must have an inside graph of every kind of attention, given another"]


def test_saliency_is_of_the_one_kind_that_its_graph_returns():
    whole, fault = vit("raw", "saliency"), ["must have saliency of the one kind that its graph returns, given others"]
    port = Port(name=whole.attention[0].name, dtype="float32", axes=("batch", whole.attention[0].length))
    graph = whole.graphs["predict"].model_copy(update={"outputs": (port,)})
    other = graph.model_copy(update={"outputs": (port.model_copy(update={"name": "another"}),)})

    def found(manifest, *graphs):
        own = dict.fromkeys(("saliency",), *graphs) if graphs else {}
        return list(_faults_of_saliency(manifest.model_copy(update={"graphs": {**manifest.graphs, **own}})))

    assert found(whole, graph) == found(vit("raw")) == []
    assert found(whole) == found(whole, other) == found(vit("raw"), graph) == fault
