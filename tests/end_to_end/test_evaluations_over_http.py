"""Evaluations over HTTP, for every task: each curve is computed anew, on inputs that the test itself takes apart."""

import base64
import io
import json
import re

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from tokenizers import Tokenizer

from contract.manifest import STATE_METHODS, Manifest
from service.explanations.curves import picture_size
from service.inputs.image_preprocessing import decode_image
from tests.samples.http_requests import PNG, SEVEN, results
from tests.samples.images import encoded
from tests.samples.in_process import in_process

DATE = "on Tuesday, the 23rd of March 2021"
SENTENCE = "the old cat sat on the mat."
BOTH = ["deletion", "insertion"]
ONE_ROW = "evaluate: needs one map of one row; ask for one layer, fused heads, one query and target"
TOLERANCE = 2e-5  # of five decimals


class Model:
    """An artifact as the tests run it: its graphs by onnxruntime, its tokens by its tokenizer."""

    def __init__(self, folder):
        (self.folder,) = folder.iterdir()
        text = (self.folder / "manifest.json").read_text()
        self.manifest, self.image_rule = json.loads(text), Manifest.model_validate_json(text).image
        self._sessions = {}

    def run(self, role, **given):
        """Return the answer of a graph for one input, with all of its controls 0 or empty."""
        if role not in self._sessions:
            self._sessions[role] = onnxruntime.InferenceSession(self.folder / f"{role}.onnx")
        if "target" in given:  # a decoder answers at all of its tokens
            given["answered"] = np.arange(len(given["target"]))
        lengths = {name: array.shape[0] for name, array in given.items()} | {"batch": 1}
        feed = {}
        for port in self.manifest["graphs"][role]["inputs"]:
            shape = [axis if isinstance(axis, int) else lengths.get(axis, 0) for axis in port["axes"]]
            value = given.get(port["name"])
            feed[port["name"]] = np.zeros(shape, port["dtype"]) if value is None else value[None]
        return self._sessions[role].run(None, feed)[0][0].astype(np.float64)

    def tokens(self, text):
        """Return the numbers of a text's tokens, and which of them are special."""
        tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        found = tokenizer.encode(text)
        return np.array(found.ids), np.array(found.special_tokens_mask, bool), np.array(found.type_ids)

    @property
    def stand_in(self):
        """The token in place of one that is taken away; None if it is dropped."""
        (rule,) = self.manifest["inputs"]
        return rule["padding"] if rule["mask"] is None else rule["mask"]

    def parts(self, special):
        """Return the positions of the tokens that may be taken away: where all are dropped, the last one stays."""
        columns = np.flatnonzero(~special)
        return columns[:-1] if self.stand_in is None and not special.any() else columns

    def without(self, source, gone, *beside):
        """Return tokens without some of them, and what stands beside the others."""
        if self.stand_in is None:
            return [np.delete(array, gone) for array in (source, *beside)]
        source = source.copy()
        source[gone] = self.stand_in
        return [source, *beside]


def softmax(logits):
    exact = np.exp(logits - logits.max())
    return exact / exact.sum()


def curve(order, name, score):
    """Return the scores as more and more of the parts in an order are gone, or as all but those are."""
    counts = [round(step / 10 * len(order)) for step in range(11)]
    return [score(order[:count] if name == "deletion" else order[count:]) for count in counts]


def check(evaluation, order, score, names=BOTH):
    """Hold the curves of an evaluation against those of an order of the parts, and of the random one."""
    random = order[0:0] if not len(order) else np.sort(order)[np.random.default_rng(0).permutation(len(order))]
    assert [one["name"] for one in evaluation["curves"]] == names
    for shown in evaluation["curves"]:
        for said, parts in ((shown, order), (shown["random"], random)):
            expected = np.array(curve(parts, shown["name"], score))
            assert np.abs(np.array(said["probabilities"]) - expected).max() < TOLERANCE, (said, expected)
            assert said["area"] == pytest.approx(((expected[1:] + expected[:-1]) / 2).mean(), abs=TOLERANCE)


def hottest_first(values, columns):
    """Return columns in the order of a map's values, equal ones in the random order."""
    columns = np.asarray(columns)[np.random.default_rng(0).permutation(len(columns))]
    return columns[np.argsort(-np.asarray(values)[columns], kind="stable")]


def attention(client, model, body=None, **options):
    answer = client.post(f"/v1/models/{model}/attention", json={**(body or {}), "attention": {"digits": 9, **options}})
    return results(answer)[0]["attention"]


def seven(client, **options):
    return client.post("/v1/models/digits/attention", params=options, content=SEVEN, headers=PNG)


def scan(client, **options):
    return results(seven(client, **options))[0]["attention"]


def refused(client, model, body, **options):
    answer = client.post(f"/v1/models/{model}/attention", json={**body, "attention": options})
    assert answer.status_code == 422, answer.text
    return answer.json()["detail"]


# Images


@pytest.mark.parametrize(
    "options",
    [{"method": "raw"}, {"method": "rollout"}, {"method": "relevance", "target": 1}, {"method": "libra"},
     {"method": "libra", "target": 1, "layers": 2}, {"method": "integrated", "steps": 4},
     {"method": "raw", "target": 3}],
    ids=str,
)  # fmt: skip
def test_the_curves_of_an_image_are_those_of_images_with_black_patches(client, artifacts, options):
    model = Model(artifacts / "digits")
    shown = scan(client, evaluate="deletion,insertion", digits=9, **options)
    pixels = decode_image(SEVEN, model.image_rule, 10**7).pixels
    target = options.get("target", 7)

    def score(gone):
        black = pixels.copy()
        for patch in gone - 1:
            row, column = divmod(int(patch), 7)
            black[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 0
        return softmax(model.run("predict", pixels=black))[target]

    evaluation = shown["evaluation"]
    assert (evaluation["target"], evaluation["measure"]) == (target, "probability")
    check(evaluation, hottest_first(shown["maps"][0]["values"][0][0], np.arange(1, 50)), score)


# Generated text


@pytest.mark.parametrize(
    ("options", "position"),
    [({"method": "raw", "kind": "cross", "queries": 3}, 3), ({"method": "raw", "queries": -1}, 10),
     ({"method": "raw", "kind": "cross", "queries": 4, "align": "input"}, 4),
     ({"method": "norm", "kind": "cross", "target": 8}, 8), ({"method": "relevance", "target": 8}, 8),
     ({"method": "libra", "target": 9}, 9), ({"method": "libra", "kind": "cross", "target": 0}, 0),
     ({"method": "integrated", "target": 5, "steps": 2}, 5)],
    ids=str,
)  # fmt: skip
def test_the_curves_of_a_generated_token_are_those_of_its_probability_behind_its_prefix(
    client, artifacts, options, position
):
    model = Model(artifacts / "dates")
    shown = attention(client, "dates", {"inputs": DATE}, evaluate=BOTH, **options)
    source, special, _ = model.tokens(DATE)
    (cross,) = (one for one in shown["maps"] if one["kind"] == "cross")
    rows = cross["values"][0]
    written = client.post("/v1/models/dates/generate", json={"inputs": DATE}).json()["results"][0]
    target = [*(one["token"] for one in written["tokens"]), model.manifest["generation"]["end"]]

    def score(gone):
        (rest,) = model.without(source, gone)
        fed = np.array([model.manifest["generation"]["start"], *target[:-1]])
        logits = model.run("attention", source=rest, source_visible=np.ones(len(rest), bool), target=fed)
        return softmax(logits[position])[target[position]]

    evaluation = shown["evaluation"]
    assert (evaluation["target"], evaluation["position"]) == (target[position], position)
    logs = [one["log_probability"] for one in written["tokens"]]
    if position < len(logs):
        assert score([]) == pytest.approx(np.exp(logs[position]), abs=1e-5)
    row = rows[position] if len(rows) > 1 else rows[0]
    check(evaluation, hottest_first(row, model.parts(special)), score)


def test_an_evaluation_comes_with_the_end_of_a_stream(client):
    asked = {"method": "libra", "target": 3, "evaluate": "deletion"}
    body = {"inputs": DATE, "stream": True, "attention": asked}
    events = client.post("/v1/models/dates/generate", json=body).text.strip().split("\n\n")
    name, data = events[-1].split("\n")[-2:]
    assert name == "event: done"
    streamed = json.loads(data.removeprefix("data: "))["results"][0]["attention"]["evaluation"]
    assert streamed == attention(client, "dates", {"inputs": DATE}, **asked | {"digits": 5})["evaluation"]


# Texts: the families' models, with weights of no sense and far from uniform attention


@pytest.fixture(scope="module")
def texts(families, tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for name in ("bert", "bert-mask", "bert-features", "gpt2", "vit-features"):
        (folder / name).symlink_to(families(name))
    with in_process(folder) as client:
        yield client


def asked(method):
    """Return the options of a method that make one map of one row."""
    return {"method": method} if method in ("libra", "integrated") else {"method": method, "queries": 0}


@pytest.mark.parametrize("method", ["raw", "rollout", "norm", "relevance", "libra", "integrated"])
def test_the_curves_of_a_text_are_those_of_texts_with_masked_tokens(texts, families, method):
    model = Model(families("bert"))
    shown = attention(texts, "bert", {"inputs": SENTENCE}, evaluate=BOTH, **asked(method))
    source, special, types = model.tokens(SENTENCE)
    visible = np.ones(len(source), bool)
    target = int(model.run("predict", source=source, source_visible=visible, source_types=types).argmax())

    def score(gone):
        rest, seen, kinds = model.without(source, gone, visible, types)
        return softmax(model.run("predict", source=rest, source_visible=seen, source_types=kinds))[target]

    evaluation = shown["evaluation"]
    assert (evaluation["target"], evaluation["measure"]) == (target, "probability")
    check(evaluation, hottest_first(shown["maps"][0]["values"][0][0], model.parts(special)), score)


@pytest.mark.parametrize(
    ("text", "mask", "options"),
    [("the [MASK] cat sat [MASK] the mat.", 1, {"method": "libra", "target": 1}),
     ("the [MASK] cat sat [MASK] the mat.", 0, {"method": "relevance", "target": 0}),
     ("the [MASK] cat sat [MASK] the mat.", 1, {"method": "raw", "queries": "all", "target": 1}),
     ("the [MASK] cat sat on the mat.", 0, {"method": "integrated", "steps": 3}),
     ("the [MASK] cat sat on the mat.", 0, {"method": "rollout", "queries": "all"})],
    ids=str,
)  # fmt: skip
def test_the_curves_of_a_mask_are_those_of_its_likeliest_token_and_no_mask_is_taken_away(
    texts, families, text, mask, options
):
    model = Model(families("bert-mask"))
    shown = attention(texts, "bert-mask", {"inputs": text}, evaluate=BOTH, **options)
    source, special, types = model.tokens(text)
    masked = np.flatnonzero(source == model.stand_in)
    fixed = {"source_visible": np.ones(len(source), bool), "source_types": types, "masked": masked}
    token = int(model.run("predict", source=source, **fixed)[mask].argmax())

    def score(gone):
        return softmax(model.run("predict", source=model.without(source, gone)[0], **fixed)[mask])[token]

    evaluation = shown["evaluation"]
    assert (evaluation["target"], evaluation["mask"]) == (token, mask)
    rows = shown["maps"][0]["values"][0]
    row = rows[masked[mask]] if len(rows) > 1 else rows[0]
    check(evaluation, hottest_first(row, np.setdiff1d(np.flatnonzero(~special), masked)), score)


def test_a_comparison_for_a_mask_reads_the_row_of_the_mask_and_not_that_of_the_class_token(texts):
    body = {"inputs": "the [MASK] cat sat [MASK] the mat."}
    shown = attention(texts, "bert-mask", body, evaluate="compare", target=1)["evaluation"]
    assert (shown["mask"], len(shown["compare"])) == (1, 7)
    for row in shown["compare"][:-1]:
        rows = {"queries": "all"} if row["method"] in ("raw", "rollout", "norm") else {}
        asked = {"method": row["method"], "target": 1, "evaluate": BOTH, **rows}
        for evaluated in attention(texts, "bert-mask", body, **asked)["evaluation"]["curves"]:
            assert row[evaluated["name"]]["probabilities"] == pytest.approx(evaluated["probabilities"], abs=1e-6)
    assert refused(texts, "bert-mask", body, method="raw", queries=0, target=1, evaluate="deletion") == ONE_ROW


@pytest.mark.parametrize(
    ("position", "options"),
    [(2, {"method": "libra", "target": 2}), (0, {"method": "relevance", "target": 0}),
     (3, {"method": "raw", "target": 3}), (1, {"method": "rollout", "target": 1}),
     (2, {"method": "integrated", "target": 2, "steps": 2})],
    ids=str,
)  # fmt: skip
def test_the_curves_of_a_continuation_are_those_of_prompts_without_some_tokens(texts, families, position, options):
    model = Model(families("gpt2"))
    body = {"inputs": SENTENCE, "max_new_tokens": 4}
    written = texts.post("/v1/models/gpt2/generate", json=body).json()["results"][0]["tokens"]
    shown = attention(texts, "gpt2", body, evaluate=BOTH, **options)
    source, special, _ = model.tokens(SENTENCE)
    target = [one["token"] for one in written]

    def score(gone):
        (rest,) = model.without(source, gone)
        logits = model.run("attention", target=np.array([*rest, *target[:position]]))
        return softmax(logits[-1])[target[position]]

    at = len(source) - 1 + position
    rows = np.array(shown["maps"][0]["values"][0])
    row = rows[at] if len(rows) > 1 else rows[0]
    if options["method"] == "relevance":
        row[at] -= 1  # that a row starts from itself says nothing
    assert (shown["evaluation"]["target"], shown["evaluation"]["position"]) == (target[position], position)
    check(shown["evaluation"], hottest_first(row, model.parts(special)), score)


@pytest.mark.parametrize("queries", [2, "all"])
def test_a_row_that_generates_nothing_is_not_evaluated(texts, queries):
    body = {"inputs": SENTENCE, "max_new_tokens": 4}
    assert refused(texts, "gpt2", body, method="raw", queries=queries, evaluate="deletion") == ONE_ROW


@pytest.mark.parametrize("method", ["raw", "rollout", "relevance", "libra", "integrated"])
def test_the_curves_of_an_embedding_are_those_of_its_cosine_with_the_other(texts, families, method):
    model = Model(families("bert-features"))
    against, options = "a bird ran to the blue house", {"queries": 0} if method in ("raw", "rollout") else {}
    asked = {"method": method, "against": {"text": against}, "evaluate": BOTH, **options}
    shown = attention(texts, "bert-features", {"inputs": SENTENCE}, **asked)
    source, special, types = model.tokens(SENTENCE)

    def embedding(ids, kinds):
        found = model.run("predict", source=ids, source_visible=np.ones(len(ids), bool), source_types=kinds)
        return found / np.linalg.norm(found)

    other = embedding(*(model.tokens(against)[at] for at in (0, 2)))

    def score(gone):
        return float(embedding(*model.without(source, gone, types)) @ other)

    assert (shown["evaluation"]["target"], shown["evaluation"]["measure"]) == (None, "cosine")
    check(shown["evaluation"], hottest_first(shown["maps"][0]["values"][0][0], model.parts(special)), score)


def test_a_comparison_for_an_embedding_has_the_methods_with_one_row(texts):
    asked = {"evaluate": "compare", "against": {"text": "a bird ran to the blue house"}}
    shown = attention(texts, "bert-features", {"inputs": SENTENCE}, **asked)["evaluation"]
    assert [row["method"] for row in shown["compare"]][-4:] == ["relevance", "libra", "integrated", "random"]
    for method in ("relevance", "libra", "integrated"):
        options = {"method": method, "against": asked["against"], "evaluate": BOTH}
        alone = attention(texts, "bert-features", {"inputs": SENTENCE}, **options)["evaluation"]["curves"]
        (row,) = (one for one in shown["compare"] if one["method"] == method)
        for evaluation in alone:
            assert row[evaluation["name"]]["probabilities"] == pytest.approx(evaluation["probabilities"], abs=1e-5)


@pytest.mark.parametrize("method", ["raw", "relevance", "libra"])
def test_the_curves_of_an_embedded_image_are_those_of_images_with_black_patches(texts, families, method):
    model = Model(families("vit-features"))
    rule, (kind,) = model.image_rule, model.manifest["attention"]
    noise = np.random.default_rng(0).integers(1, 256, (2, rule.height, rule.width, 3), np.uint8)
    sent, other = (encoded(Image.fromarray(pixels)) for pixels in noise)
    one, against = (base64.b64encode(file).decode() for file in (sent, other))
    asked = {"method": method, "against": {"image": against}, "evaluate": BOTH}
    shown = attention(texts, "vit-features", {"images": [one]}, **asked)
    grid, prefix = kind["grid"], kind["prefix"]
    cell = rule.height // grid[0], rule.width // grid[1]

    def embedding(pixels):
        found = model.run("predict", pixels=pixels)
        return found / np.linalg.norm(found)

    pixels = decode_image(sent, rule, 10**7).pixels
    unit = embedding(decode_image(other, rule, 10**7).pixels)

    def score(gone):
        there = np.ones(grid, np.uint8)
        there.flat[np.array(gone, int) - prefix] = 0
        return float(embedding(pixels * np.kron(there, np.ones(cell, np.uint8))[..., None]) @ unit)

    columns = prefix + np.arange(grid[0] * grid[1])
    assert shown["evaluation"]["measure"] == "cosine"
    check(shown["evaluation"], hottest_first(shown["maps"][0]["values"][0][0], columns), score)


@pytest.mark.parametrize("method", ["raw", "libra"])
def test_an_embedding_is_not_evaluated_without_another(texts, method):
    for evaluate in ("deletion", "compare"):
        words = refused(texts, "bert-features", {"inputs": SENTENCE}, method=method, evaluate=evaluate)
        assert re.fullmatch(
            r"against: .* what makes two embeddings alike, so it must be .* of another input, given none", words
        )


def test_a_text_of_special_tokens_alone_is_not_evaluated(texts):
    words = "evaluate: needs a token that may be taken away, given none"
    assert refused(texts, "bert", {"inputs": ""}, method="libra", evaluate="deletion") == words


# All methods at once


@pytest.mark.parametrize("target", [None, 1])
def test_a_comparison_has_what_each_method_has_alone(client, target):
    asked = {} if target is None else {"target": target}
    shown = scan(client, evaluate="compare", **asked)["evaluation"]
    methods = client.get("/v1/models/digits").json()["attention"]["methods"]
    explaining = [method for method in methods if method not in STATE_METHODS]
    assert [row["method"] for row in shown["compare"]] == [*explaining, "random"]
    assert shown["target"] == (7 if target is None else target)
    for row in shown["compare"][:-1]:
        alone = scan(client, method=row["method"], evaluate="deletion,insertion", **asked)["evaluation"]
        assert alone["target"] == shown["target"]
        for evaluated in alone["curves"]:
            assert row[evaluated["name"]] == {key: evaluated[key] for key in ("probabilities", "area")}
            random = {key: evaluated["random"][key] for key in ("probabilities", "area")}
            assert shown["compare"][-1][evaluated["name"]] == random
    assert shown["compare"][-1]["seed"] == 0


def test_a_comparison_for_a_generated_token_has_every_method_of_cross(client):
    body = {"inputs": DATE}
    shown = attention(client, "dates", body, evaluate="compare", target=8)["evaluation"]
    kinds = client.get("/v1/models/dates").json()["attention"]["kinds"]
    assert [row["method"] for row in shown["compare"]] == [*kinds["cross"]["methods"], "random"]
    assert len(shown["compare"]) >= 5
    for row in shown["compare"][:-1]:
        chosen = {"method": row["method"], "kind": "cross", "target": 8}
        alone = attention(client, "dates", body, evaluate=BOTH, **chosen)["evaluation"]
        assert [row[name]["probabilities"] for name in BOTH] == [one["probabilities"] for one in alone["curves"]]


def test_a_comparison_of_an_earlier_request_is_that_of_then(client):
    found = client.post("/v1/models/digits/classify", content=SEVEN, headers=PNG).json()
    later = client.get(f"/v1/attention/{found['id']}", params={"evaluate": "compare"}).json()
    assert later["results"][0]["attention"]["evaluation"] == scan(client, evaluate="compare")["evaluation"]


def test_an_evaluation_is_in_the_meta_of_an_npz(client):
    answer = seven(client, evaluate="compare", format="npz")
    meta = json.loads(bytes(np.load(io.BytesIO(answer.content))["meta"]))
    assert meta["results"][0]["attention"]["evaluation"] == scan(client, evaluate="compare")["evaluation"]


# As a picture


@pytest.mark.parametrize(
    ("options", "size"),
    [({"evaluate": "deletion"}, (1, 2)), ({"evaluate": "insertion,deletion", "method": "libra"}, (2, 2)),
     ({"evaluate": "compare", "layers": "all", "heads": "all"}, (2, 7))],
    ids=str,
)  # fmt: skip
def test_curves_are_drawn_in_place_of_the_map(client, options, size):
    answer = seven(client, format="png", **options)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert Image.open(io.BytesIO(answer.content)).size == picture_size(*size)


def test_curves_of_text_are_drawn_even_where_the_maps_are_of_several_kinds(client):
    asked = {"evaluate": "compare", "target": 3, "format": "png"}
    answer = client.post("/v1/models/dates/attention", json={"inputs": DATE, "attention": asked})
    assert answer.status_code == 200, answer.text
    assert Image.open(io.BytesIO(answer.content)).format == "PNG"


def test_curves_that_are_larger_than_a_picture_may_be_are_refused(artifacts):
    width, height = picture_size(2, 2)
    with in_process(artifacts, max_image_pixels=width * height - 1) as client:
        asked = {"method": "libra", "target": 3, "evaluate": BOTH, "format": "png"}
        answer = client.post("/v1/models/dates/attention", json={"inputs": DATE, "attention": asked})
    assert (answer.status_code, answer.json()["detail"]) == (
        413,
        f"png: at most {width * height - 1} pixels, this one would have {width} x {height}; "
        "ask for a smaller width, or for fewer layers, heads, queries or inputs",
    )


@pytest.mark.parametrize("name", ["colormap", "opacity"])
def test_options_of_heat_are_refused_for_curves(client, name):
    answer = seven(client, evaluate="deletion", format="png", **{name: {"colormap": "magma", "opacity": 0.5}[name]})
    assert (answer.status_code, answer.json()["detail"]) == (422, f"{name}: has no effect on png, leave it out")


# What cannot be evaluated


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "raw", "evaluate": "deletion"}, ONE_ROW),
        ({"method": "libra", "evaluate": "deletion"}, ONE_ROW),
        ({"method": "libra", "evaluate": "deletion", "target": "3,4"}, ONE_ROW),
        ({"method": "raw", "kind": "cross", "queries": "2,3", "evaluate": "deletion"}, ONE_ROW),
        ({"method": "raw", "kind": "cross", "queries": 3, "heads": "all", "evaluate": "deletion"}, ONE_ROW),
        ({"method": "raw", "kind": "cross", "queries": 3, "layers": "0,1", "evaluate": "deletion"}, ONE_ROW),
        ({"evaluate": "compare"}, ONE_ROW),
        ({"evaluate": "compare,deletion", "target": 3}, "evaluate: compare has both curves, ask for it alone"),
        (
            {"method": "rollout", "kind": "encoder", "queries": 3, "evaluate": "deletion"},
            "evaluate: is of cross, whose columns are the input, and which is not asked for",
        ),
        (
            {"method": "libra", "target": 3, "merge": "words", "evaluate": "deletion"},
            "evaluate: needs tokens rather than words, leave merge out",
        ),
    ],
)  # fmt: skip
def test_an_evaluation_of_more_than_one_row_or_of_no_input_is_refused(client, options, words):
    assert refused(client, "dates", {"inputs": DATE}, **options) == words


def test_a_target_that_was_not_generated_is_refused(client):
    assert refused(client, "dates", {"inputs": DATE}, evaluate="compare", target=11).startswith("target: must be from")
