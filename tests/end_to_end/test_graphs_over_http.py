"""Graphs, served: what a client gets is what the definitions compute, however the nodes are numbered."""

import io
import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from contract.input_rules import GraphRule
from export.bundled import SOURCES
from export.pipeline import export
from export.tasks.graphs import graphormer_model
from model.architectures.graphormer import GRAPHORMER_SIZES, graphormer
from model.catalogue import bundled
from model.methods import explanations
from model.methods.attribution import libra
from model.parts.heads import FirstState
from model.vocabularies import COLOURED_NODES, LINKED_NODES, LINKING_PATHS, RELATIONS
from tests.samples.attention_reference import assert_same
from tests.samples.documented import Documented
from tests.samples.exports import exported
from tests.samples.http_requests import results
from tests.samples.in_process import in_process
from train.data.graphs import Graph, coloured_graph, linked_graph, padded

GRAPHORMER, PATHS = "graphs-graphormer", "graphs-gtn"
DRAWN = {GRAPHORMER: coloured_graph, PATHS: linked_graph}
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def client():
    with in_process(exported("graphs")) as client:
        yield client


CONFIG = replace(GRAPHORMER_SIZES[GRAPHORMER], nodes=8, width=8, layers=1, heads=2, hidden=8)


def embedder():
    torch.manual_seed(0)
    module = graphormer(CONFIG, FirstState()).eval()
    for parameter in module.parameters():
        parameter.data.mul_(3)
    return module


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """A service of a Graphormer whose answer is the state of its virtual node."""
    rule = GraphRule(node_types=COLOURED_NODES, edge_types=("edge",), nodes=8, edges=20, virtual=True)
    source = graphormer_model("vectors", embedder(), CONFIG, task="feature-extraction", graph=rule, made_by={})
    folder = tmp_path_factory.mktemp("vectors")
    export(source, "1", folder, without=("integrated", "relevance", "inside", "norm"))
    with in_process(folder) as client:
        yield client


def test_graphs_are_embedded_and_compared_with_an_earlier_one(vectors):
    some = [{"nodes": [1, 0, 2], "edges": [[0, 1], [1, 2]]}, {"nodes": [3], "edges": []}]
    first, second = vectors.post("/v1/models/vectors/embed", json={"graphs": some}).json()["results"]
    tensors = [torch.zeros(1, 1, len(one["nodes"]), len(one["nodes"]), dtype=torch.bool) for one in some]
    tensors[0][0, 0, [0, 1, 1, 2], [1, 0, 2, 1]] = True
    module = embedder().double()
    for one, edges, result in zip(some, tensors, (first, second), strict=True):
        nodes = torch.tensor([one["nodes"]])
        assert_same(exact([result["embedding"]]), module(nodes, edges, nodes >= 0)[0], TOLERANCE)
    options = {"method": "libra", "against": json.dumps({"id": second["id"]})}
    (explained,) = results(vectors.get(f"/v1/attention/{first['id']}", params=options))
    assert explained["attention"]["maps"][0]["shape"][-1] == 4
    later = vectors.get(f"/v1/attention/{first['id']}", params={**options, "evaluate": "deletion"})
    assert later.status_code == 422
    assert "a type of nodes that says nothing" in later.json()["detail"]


def graphs(name, count=3, seed=5):
    rng = random.Random(seed)
    return [DRAWN[name](rng) for _ in range(count)]


def sent(name, graph):
    """Return a graph as JSON: types by name, and each edge once."""
    names = COLOURED_NODES if name == GRAPHORMER else LINKED_NODES
    edges = graph.edges.nonzero().tolist()
    if name == GRAPHORMER:
        found = [[start, end] for _, start, end in edges if start <= end]
    else:
        found = [[start, end, RELATIONS[kind]] for kind, start, end in edges]
    return {"nodes": [names[kind] for kind in graph.nodes.tolist()], "edges": found}


def post(client, name, endpoint, **body):
    return results(client.post(f"/v1/models/{name}/{endpoint}", json=body))


def probabilities(result):
    return [one["probability"] for one in sorted(result["labels"], key=lambda one: one["index"])]


def exactly(name, some):
    """Return the logits and maps of a definition in float64, the graphs one by one."""
    module = bundled(name).double()
    return [module(*padded([one])[:3]) for one in some]


def exact(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


@pytest.mark.parametrize("name", [GRAPHORMER, PATHS])
def test_answers_are_those_of_the_definition_and_name_the_class(client, name):
    some = graphs(name)
    answered = post(client, name, "classify", graphs=[sent(name, one) for one in some])
    for one, result, (logits, _) in zip(some, answered, exactly(name, some), strict=True):
        assert_same(exact([probabilities(result)]), logits.softmax(-1), TOLERANCE)
        assert result["labels"][0]["index"] == one.label
    first, second = LINKING_PATHS[0]
    assert SOURCES[PATHS]().labels[0] == f"{RELATIONS[first]}, {RELATIONS[second]}"


@pytest.mark.parametrize("name", [GRAPHORMER, PATHS])
def test_maps_are_those_of_the_definition(client, name):
    some = graphs(name)
    asked = {"method": "raw", "layers": "all", "heads": "all", "queries": "all", "digits": 9}
    answered = post(client, name, "attention", graphs=[sent(name, one) for one in some], attention=asked)
    for result, (_, maps) in zip(answered, exactly(name, some), strict=True):
        found = result["attention"]["maps"]
        assert [one["name"] for one in found] == list(maps)
        for one, expected in zip(found, maps.values(), strict=True):
            assert_same(exact(one["values"]), expected[0], TOLERANCE)


def test_relevance_and_libra_are_those_of_the_definition_by_autograd(client):
    (graph,) = graphs(GRAPHORMER, 1)
    module, given = bundled(GRAPHORMER).double(), padded([graph])[:3]
    logits, maps = module(*given)
    gradients = torch.autograd.grad(logits[0].max(), list(maps.values()))
    evidence = [explanations.relevance_of(*pair) for pair in zip(maps.values(), gradients, strict=True)]
    rows, every = torch.zeros(1, dtype=torch.long), torch.ones(len(evidence), dtype=torch.bool)
    shares = libra(module, [module.encoder], lambda: module(*given)[0].max(-1).values).tokens[0][0]
    expected = {"relevance": explanations.relevance(evidence, every, rows)[0], "libra": shares}
    for method, wanted in expected.items():
        (result,) = post(
            client, GRAPHORMER, "attention", graphs=[sent(GRAPHORMER, graph)],
            attention={"method": method, "digits": 9, **({"layers": [0]} if method == "libra" else {})},
        )  # fmt: skip
        assert_same(exact(result["attention"]["maps"][0]["values"][0]), wanted, 1e-4)


@pytest.mark.parametrize("name", [GRAPHORMER, PATHS])
def test_to_number_the_nodes_otherwise_changes_no_answer(client, name):
    (graph,) = graphs(name, 1)
    order = torch.randperm(len(graph.nodes), generator=torch.Generator().manual_seed(0))
    other = Graph(graph.nodes[order], graph.edges[:, order][:, :, order], graph.label, graph.truth)
    asked = {"method": "raw", "queries": "all", "digits": 9}
    one, two = post(
        client, name, "classify", graphs=[sent(name, graph), sent(name, other)], attention=asked
    )  # fmt: skip
    np.testing.assert_allclose(probabilities(one), probabilities(two), atol=1e-6)
    before = int(name == GRAPHORMER)
    places = [*range(before), *(before + order).tolist()]
    maps = [np.array(result["attention"]["maps"][0]["values"][0]) for result in (one, two)]
    np.testing.assert_allclose(maps[0][np.ix_(places, places)], maps[1], atol=1e-6)


def test_graphs_of_one_node_with_a_loop_and_of_parts_are_answered_alone_as_together(client):
    odd = [
        {"nodes": [1], "edges": []},
        {"nodes": [0], "edges": [[0, 0]]},
        {"nodes": [1, 2, 0, 3], "edges": [[0, 1], [2, 3], [2, 3]]},
        {"nodes": [0] * 128, "edges": []},
    ]
    together = post(client, GRAPHORMER, "classify", graphs=odd)
    for graph, result in zip(odd, together, strict=True):
        (alone,) = post(client, GRAPHORMER, "classify", graphs=[graph])
        np.testing.assert_allclose(probabilities(alone), probabilities(result), atol=1e-6)


def test_an_answer_says_which_node_is_which_and_where_it_is_drawn(client):
    graph = {
        "directed": False,
        "nodes": [{"id": "x", "type": "red"}, {"id": 3}],
        "edges": [{"source": 3, "target": "x"}],
    }
    body = {"graphs": [graph], "attention": {"method": "rollout"}}
    answer = client.post(f"/v1/models/{GRAPHORMER}/classify", json=body).json()
    (result,) = answer["results"]
    shown = result["attention"]
    assert [(one["text"], one["span"]) for one in shown["tokens"]["node"]] == [
        ("virtual", None), ("red", [0, 1]), ("plain", [1, 2]),
    ]  # fmt: skip
    assert shown["graph"]["edges"] == [[1, 0, 0]]
    assert len(shown["graph"]["places"]) == 2
    again = client.get(f"/v1/attention/{answer['id']}", params={"method": "integrated", "evaluate": "deletion"})
    (later,) = again.json()["results"]
    assert later["attention"]["maps"][0]["completeness"]["relative_error"] < 0.05
    assert later["attention"]["evaluation"]["curves"]


@pytest.mark.parametrize(("name", "method"), [(GRAPHORMER, "libra"), (GRAPHORMER, "raw"), (PATHS, "raw")])
def test_a_picture_is_drawn_of_each_graph(client, name, method):
    body = {"graphs": [sent(name, one) for one in graphs(name, 2)], "attention": {"method": method}}
    answer = client.post(f"/v1/models/{name}/attention", json=body, headers={"Accept": "image/png"})
    assert answer.status_code == 200
    picture = np.asarray(Image.open(io.BytesIO(answer.content)))
    assert (picture < 250).any(-1).mean() > 0.01


def test_other_protocols_take_graphs_too(client):
    graph = sent(GRAPHORMER, graphs(GRAPHORMER, 1)[0])
    (own,) = post(client, GRAPHORMER, "classify", graphs=[graph])
    given = {"name": "graph", "datatype": "BYTES", "shape": [1], "data": [json.dumps(graph)]}
    outputs = client.post(f"/v2/models/{GRAPHORMER}/infer", json={"inputs": [given]}).json()["outputs"]
    tensor = next(one for one in outputs if one["name"] == "probabilities")
    np.testing.assert_allclose(tensor["data"], probabilities(own), atol=1e-6)
    hub = client.post(f"/v1/models/{GRAPHORMER}", json={"inputs": graph})
    assert hub.json()[0]["label"] == own["labels"][0]["label"]


def test_answers_have_the_fields_that_the_openapi_document_names(client):
    documented = Documented(client)
    for name in (GRAPHORMER, PATHS):
        documented.check(client.get(f"/v1/models/{name}"))
        documented.check(client.get(f"/v1/models/{name}/examples/0"))
        body = {"graphs": [sent(name, one) for one in graphs(name, 2)], "attention": {"method": "raw"}}
        for endpoint in ("classify", "attention"):
            documented.check(client.post(f"/v1/models/{name}/{endpoint}", json=body))


def test_each_example_is_answered_with_its_class(client):
    for name in (GRAPHORMER, PATHS):
        examples = client.get(f"/v1/models/{name}").json()["examples"]
        found = post(client, name, "classify", graphs=[one["graph"] for one in examples])
        assert {result["labels"][0]["index"] for result in found} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("name", "body", "status", "words"),
    [
        (GRAPHORMER, {"inputs": "a"}, 422, "graphs: must be in the document"),
        (GRAPHORMER, {"graphs": "a"}, 422, "graphs: must be graphs, such as"),
        (GRAPHORMER, {"graphs": []}, 422, "graphs: must be 1 to"),
        (GRAPHORMER, {"graphs": [{"nodes": []}]}, 422, "nodes: must be 1 to 128, given 0"),
        (GRAPHORMER, {"graphs": [{"nodes": [0]}, {"nodes": [0], "edges": [[0, 1]]}]}, 422, "(input 2 of 2)"),
        (GRAPHORMER, {"graphs": [{"nodes": [0] * 129}]}, 413, "nodes: must be at most 128 in a graph, given 129"),
        (
            GRAPHORMER,
            {"graphs": [{"nodes": [0]}], "attention": {"method": "raw", "merge": "words"}},
            422,
            "takes graphs",
        ),
        (PATHS, {"graphs": [{"nodes": [0]}], "attention": {"method": "rollout"}}, 422, "method rollout: "),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words(client, name, body, status, words):
    answer = client.post(f"/v1/models/{name}/classify", json=body)
    assert answer.status_code == status
    assert words in answer.json()["detail"]
