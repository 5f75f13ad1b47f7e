"""Graphs on the page: typed as JSON, drawn with heat on nodes, and lines as thick as what these give each other."""

import json
import re

import numpy as np
import pytest
import regard

from tests.page.conftest import settled, state_of, violations
from tests.samples.exports import exported
from tests.samples.in_process import in_process

SMALL = {"nodes": ["marked", "plain", "red", "plain"], "edges": [[0, 1], [1, 2], [2, 3]]}
LINKED = {
    "directed": True,
    "nodes": [{"id": "a", "type": "start"}, {"id": "b"}, {"id": "c", "type": "end"}],
    "links": [{"source": "a", "target": "b", "type": "knows"}, {"source": "b", "target": "c", "type": "owns"}],
}
SIDE, MARGIN, THICKEST, LEAST = 480, 0.1, 0.025, 0.02
"""Units of the drawing, and shares of them; as service/explanations/graph_drawing.py has them."""


@pytest.fixture(scope="module")
def service(needed):
    with in_process(exported("graphs")) as client:
        yield client


@pytest.fixture
def at(visit):
    return lambda **selection: visit(height=1300).at(**selection)


def looked(service, name, graph, **options):
    """Return what the service says that a model looked at in a graph: its JSON, and the first map (rows, columns)."""
    body = {"graphs": [graph], "attention": options}
    (found,) = service.post(f"/v1/models/{name}/attention", json=body).json()["results"]
    return found["attention"], np.array(found["attention"]["maps"][0]["values"])[0]


def heats(page):
    """Return what each node of the drawing is said to have."""
    names = page.locator(".graph .node").evaluate_all("(all) => all.map((one) => one.getAttribute('aria-label'))")
    return [float(name.rpartition(": ")[2]) for name in names]


def widths(page):
    """Return the lines between nodes, by their ends in units of the drawing."""
    code = """(all) => all.map((one) => [...['x1', 'y1', 'x2', 'y2', 'stroke-width'].map((name) =>
      Number(one.getAttribute(name)))])"""
    found = page.locator(".graph .lines-between line").evaluate_all(code)
    return {tuple(round(place) for place in ends): width for *ends, width in found}


def drawn_at(attention):
    """Return where the nodes are drawn, rounded to units."""
    return [tuple((MARGIN + (1 - 2 * MARGIN) * place) * SIDE for place in one) for one in attention["graph"]["places"]]


def expected(values, places, rows):
    """Return the widths of the lines from some rows (nodes) to all nodes; values are those between nodes alone."""
    between = {(row, node): values[row, node] for row in rows for node in range(len(places)) if node != row}
    most = max(between.values())
    return {
        tuple(round(one) for one in (*places[row], *places[node])): max(1, THICKEST * SIDE * value / most)
        for (row, node), value in between.items()
        if value > LEAST * most
    }


def test_heat_is_on_the_nodes_and_lines_are_as_thick_as_what_nodes_give_one_another(at, service):
    page = at(model="graphs-graphormer", method="raw", text=json.dumps(SMALL))
    attention, values = looked(service, "graphs-graphormer", SMALL, method="raw", queries="all")
    assert heats(page) == pytest.approx(values[0], rel=6e-3)  # of the virtual node, which the answer is of
    places = drawn_at(attention)
    assert widths(page) == pytest.approx(expected(values[1:, 1:], places, range(4)), abs=0.06)
    assert page.locator(".graph .edges line").count() == len(SMALL["edges"])
    assert violations(page) == {}

    page.locator(".graph .node").nth(3).hover()  # behind the virtual one
    settled(page)
    assert widths(page).keys() > expected(values[1:, 1:], places, [2]).keys()
    said = page.locator("#look .readout").inner_text().replace("\u00a0", " ").split("\n")
    assert said[0].startswith("“virtual” looks at “red #2”: ")
    assert float(said[0].rpartition(" ")[2]) == pytest.approx(values[0, 3], rel=6e-3)
    best = int(values[3].argmax())
    assert re.match(rf"“red #2” looks most at “\w+( #{best - 1})?”: ", said[1])

    page.locator(".graph .node").nth(3).click()
    settled(page)
    assert state_of(page)["row"] == "3"
    assert heats(page) == pytest.approx(values[3], rel=6e-3)
    page.keyboard.press("Escape")
    settled(page)
    assert "row" not in state_of(page)


def test_a_graph_is_reached_by_keys(at):
    page = at(model="graphs-graphormer", method="raw", text=json.dumps(SMALL))
    page.locator(".graph .node").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    settled(page)
    assert state_of(page)["row"] == "2"
    assert page.locator(".graph .node[aria-pressed=true]").get_attribute("aria-label").startswith("plain\u00a0#1: ")


def test_what_speaks_for_an_answer_is_heat_alone(at, service):
    page = at(model="graphs-graphormer", method="libra", text=json.dumps(SMALL))
    _, values = looked(service, "graphs-graphormer", SMALL, method="libra")
    assert heats(page) == pytest.approx(values[0], rel=6e-3)
    assert widths(page) == {}


def test_edges_have_the_colour_of_their_type_and_an_arrow_and_without_a_virtual_node_heat_is_the_mean(at, service):
    page = at(model="graphs-gtn", text=json.dumps(LINKED))
    _, values = looked(service, "graphs-gtn", LINKED, method="raw")
    assert heats(page) == pytest.approx(values.mean(0), rel=6e-3, abs=1e-3)
    edges = page.locator(".graph .edges g")
    colours = edges.evaluate_all("(all) => all.map((one) => one.getAttribute('stroke'))")
    assert len(set(colours)) == edges.locator("path").count() == 2
    assert page.locator("#look p.quiet", has_text="knows").inner_text().split() == ["→", "knows", "→", "owns"]


def test_a_graph_is_typed_and_what_is_wrong_with_it_is_said_in_the_services_words(visit, service):
    page = visit(refusals=True).at(model="graphs-graphormer")
    assert page.locator("#input .examples svg").count() == 4
    rules = page.locator("#graph-rules").inner_text()
    inputs = service.get("/v1/models/graphs-graphormer").json()["inputs"]
    assert all(str(one) in rules for one in (*inputs["node_types"], inputs["nodes"], inputs["edges"]))
    given = json.loads(page.locator("#graph").input_value())
    assert given["nodes"].count("marked") == 1

    for text, said in [
        ('{"nodes": ["marked", "purple"]}', "nodes: the type of each must be 0 to 5 or a name"),
        ('{"nodes": [', "graph: must be JSON"),
    ]:
        page.locator("#graph").fill(text)
        page.locator("#ask").click()
        settled(page)
        assert said in page.locator("#problem").inner_text()
        assert page.locator("#graph").input_value() == text

    page.locator("#graph").fill(json.dumps(SMALL))
    page.locator("#graph").press("Control+Enter")
    settled(page)
    assert page.locator("#problem").inner_text() == ""
    assert page.locator(".graph .node").count() == 5
    page.locator("#code-Python").click()
    assert f"model.classify({json.dumps(SMALL)})" in page.locator("#request pre").inner_text()


def test_a_notebook_shows_the_graph_and_its_heads_without_a_network(offline, service):
    with regard.connect(str(service.base_url)) as connected:
        answer = connected["graphs-gtn"].classify(LINKED)
        html = answer._repr_mimebundle_()["text/html"]
        values = answer.look("raw").maps[0].values[0]
    page = offline.begin(html=f"<!doctype html><body>{html}</body>")
    frame = page.frame_locator("iframe")
    frame.locator(".graph .node").first.wait_for()
    assert heats(frame) == pytest.approx(values.mean(0), rel=6e-3, abs=1e-3)
    assert frame.locator(".thumbnail").count() == 4
    assert "knows" in frame.locator("#look").inner_text()
    assert frame.locator("html").evaluate("(html) => html.scrollHeight - html.clientHeight") < 200
