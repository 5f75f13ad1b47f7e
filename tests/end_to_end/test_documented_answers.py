"""Real answers of every kind against the OpenAPI document: no field is missing, of another type, or not described."""

import base64

import pytest

from contract.manifest import GRADIENT_METHODS
from tests.conftest import ROOT
from tests.samples.documented import Documented
from tests.samples.http_requests import PNG, SEVEN
from tests.samples.in_process import in_process

SCENE = (ROOT / "tests/data/scenes/five.png").read_bytes()
DATE, MASKED, PROMPT = "3/23/21", "march 3, 20[MASK]1 = 2021-03-03", "march 3, 2021 ="
CURVES = ["deletion", "insertion"]
EVERY_WAY = [
    {},
    {"method": "best"},
    {"method": "raw", "layers": "all", "heads": "all", "queries": "all", "diagnostics": True, "pool": 2},
    {"method": "raw", "heads": "max", "encoding": "base64", "dtype": "uint8"},
    {"method": "rollout"},
    {"method": "norm", "encoding": "base64"},
    {"method": "relevance", "diagnostics": True},
    {"method": "libra", "encoding": "base64", "dtype": "uint8"},
    {"method": "integrated", "steps": 2},
    {"method": "similar", "layers": "all", "queries": [1]},
    {"method": "parts"},
]
"""The ways to ask for attention of any model that has these methods."""


@pytest.fixture(scope="module")
def folder(artifacts, minilm, dino, captions, scenes, language_models, tmp_path_factory):
    """A folder with a model of each task that comes with the repository."""
    every, several = tmp_path_factory.mktemp("every"), (artifacts, minilm, dino, captions, scenes, language_models)
    for artifact in (folder for some in several for folder in some.iterdir()):
        (every / artifact.name).symlink_to(artifact)
    return every


@pytest.fixture(scope="module")
def client(folder):
    with in_process(folder) as client:
        yield client


@pytest.fixture(scope="module")
def documented(client):
    return Documented(client)


def encoded(image):
    return base64.b64encode(image).decode()


def asks(client, documented, model, endpoint, body, ways):
    """Ask an endpoint in each of several ways for attention; hold the answers against the document."""
    methods = client.get(f"/v1/models/{model}").json()["attention"]["methods"]
    asked = [way for way in ways if way.get("method", "raw") in (*methods, "best")]
    assert asked
    for way in asked:
        answer = client.post(f"/v1/models/{model}/{endpoint}", json={**body, "attention": way})
        assert answer.status_code == 200, f"{way}: {answer.text}"
        documented.check(answer)
    return answer.json()


def test_images_that_are_classified(client, documented):
    body = {"images": [encoded(SEVEN)]}
    explained = {"against": {"label": "1"}, "target": [7], "layers": 0}
    more = [
        {"method": "relevance", "target": [1, 7]},
        {"method": "libra", "layers": "all"},
        {"method": "libra", **explained, "evaluate": CURVES},
        {"method": "rollout", "evaluate": ["compare"]},
    ]
    asks(client, documented, "digits", "classify", body, EVERY_WAY + more)
    asks(client, documented, "digits", "attention", body, EVERY_WAY + more)
    flat = {"attention": "relevance", "target": "7", "top_k": "2", "logits": "true"}
    documented.check(client.post("/v1/models/digits/classify", content=SEVEN, headers=PNG, params=flat))
    sent = documented.check(client.post("/v1/models/digits/classify", files={"image": SEVEN}, data=flat)).json()
    documented.check(client.get(f"/v1/attention/{sent['id']}/inside", params={"query": 0, "key": 3}))
    documented.check(client.get(f"/v1/attention/{sent['id']}/input"))
    more = {"orders": "3", "evaluate": "deletion", "attention": "libra"}
    documented.check(client.get(f"/v1/attention/{sent['id']}", params=more))


def test_images_that_objects_are_found_in(client, documented):
    body = {"images": [encoded(SCENE), encoded(SEVEN)]}
    more = [
        {"kind": "cross", "queries": "found", "hard": True, "heads": "all"},
        {"kind": "encoder", "queries": "mean"},
        {"method": "relevance", "target": [0, 7], "against": {"label": "1"}},
        {"method": "libra", "evaluate": CURVES},
        {"method": "raw", "evaluate": ["compare"]},
    ]
    every = [{**way, "kind": "decoder"} if way.get("queries") == "all" else way for way in EVERY_WAY]
    asks(client, documented, "scenes-detr", "detect", {**body, "threshold": 0.9, "top_k": 3}, every + more)
    found = asks(client, documented, "scenes-detr", "attention", {**body, "threshold": 1}, every + more)
    documented.check(client.get(f"/v1/attention/{found['id']}", params={"threshold": 0.5, "kind": "cross"}))
    flat = {"attention": "raw", "threshold": "0.5", "top_k": "2"}
    documented.check(client.post("/v1/models/scenes-detr/detect", content=SCENE, headers=PNG, params=flat))
    documented.check(client.post("/v1/models/scenes-detr/detect", files={"image": SCENE}, data=flat))
    refused = [
        client.post("/v1/models/digits/detect", content=SEVEN, headers=PNG),
        client.post("/v1/models/scenes-detr/detect", content=b"no image", headers=PNG),
        client.post("/v1/models/scenes-detr/detect", json={**body, "threshold": 2}),
    ]
    assert [documented.check(one).status_code for one in refused] == [404, 415, 422]


def test_texts_and_images_that_are_embedded(client, documented):
    texts, images = {"inputs": ["a cat", "a dog"]}, {"images": [encoded(SEVEN)]}
    for model, body, other in (("minilm", texts, "text"), ("digits-dino", images, "image")):
        asks(client, documented, model, "embed", body, [EVERY_WAY[0], EVERY_WAY[2], EVERY_WAY[4]])
        against = {"against": {other: "a bird" if other == "text" else encoded(SEVEN)}}
        both = [{**way, **against, "sides": "both"} for way in EVERY_WAY if way.get("method") in GRADIENT_METHODS]
        both.append({"method": "libra", **against, "evaluate": CURVES})
        asks(client, documented, model, "attention", body, both)
    for source in ("a bird", ["a bird", "a cat"]):
        documented.check(client.post("/v1/models/minilm/similarity", json={**texts, "source": source}))
    merged = {"method": "raw", "queries": "all", "merge": "words"}
    found = asks(client, documented, "minilm", "attention", {"inputs": "unbelievable"}, [merged])
    documented.check(client.get(f"/v1/attention/{found['id']}"))


def test_masks_that_are_filled(client, documented):
    more = [
        {"method": "libra", "target": 0, "against": {"text": "3"}, "evaluate": CURVES},
        {"method": "libra", "target": 0, "evaluate": ["compare"]},
    ]
    asks(client, documented, "dates-mlm", "fill-mask", {"inputs": MASKED, "top_k": 2}, EVERY_WAY + more)
    asks(client, documented, "dates-mlm", "attention", {"inputs": MASKED}, EVERY_WAY)


def test_texts_that_are_tagged(client, documented):
    more = [{"method": "libra", "target": [0, {"entity": 1}], "against": {"label": "YEAR"}}]
    more += [{"method": "libra", "target": 0, "evaluate": one} for one in (CURVES, ["compare"])]
    for endpoint in ("tag", "attention"):
        asks(client, documented, "dates-tags", endpoint, {"inputs": DATE, "aggregate": "simple"}, EVERY_WAY + more)
    for more in ({"aggregate": "mean"}, {"ignore": ["O", "DAY", "MONTH", "YEAR"], "attention": "libra"}):
        documented.check(client.post("/v1/models/dates-tags/tag", json={"inputs": DATE, **more}))


def test_texts_that_are_ranked(client, documented):
    body = {"query": DATE, "texts": ["2021-03-23", "2021-05-23"]}
    against = {"method": "libra", "against": {"text": "2021-05-23"}}
    for more in (
        {},
        {"return_texts": True, "raw_scores": True, "top_k": 1},
        {"attention": "raw"},
        {"attention": against},
    ):
        documented.check(client.post("/v1/models/dates-rank/rerank", json={**body, **more}))
    pair = {"inputs": {"text": DATE, "text_pair": "2021-03-23"}}
    asks(client, documented, "dates-rank", "classify", pair, EVERY_WAY)


@pytest.mark.parametrize(
    ("model", "body"),
    [("dates", {"inputs": DATE}), ("dates-clm", {"inputs": PROMPT}), ("captions-soft", {"images": [encoded(SCENE)]})],
)
def test_texts_that_are_generated(client, documented, model, body):
    more = [
        {"kind": "cross", "hard": True, "align": "input"},
        {"method": "libra", "target": [0, 1], "against": {"text": "3"}},
        {"method": "integrated", "steps": 2, "target": 0, "evaluate": CURVES},
    ]
    if model == "dates-clm":  # it has no cross-attention
        del more[0]
    if model != "captions-soft":
        more.append({"merge": "words"})
    asks(client, documented, model, "generate", {**body, "alternatives": 2}, EVERY_WAY + more)
    found = asks(client, documented, model, "attention", body, EVERY_WAY)
    documented.check(client.get(f"/v1/attention/{found['id']}/input"))
    if model == "dates-clm":  # a later token is hidden
        documented.check(client.get(f"/v1/attention/{found['id']}/inside", params={"query": 2, "key": 3}))
    asked = {**body, "stream": True, "alternatives": 2}
    if model != "dates-clm":
        asked["attention"] = {"kind": "cross", "steps": True}
    stream = documented.check(client.post(f"/v1/models/{model}/generate", json=asked))
    assert "event: token" in stream.text
    assert "event: done" in stream.text


def test_models_and_their_examples(client, documented):
    documented.check(client.get("/v1/models"))
    for model in client.get("/v1/models").json()["models"]:
        documented.check(client.get(f"/v1/models/{model['name']}"))
        for index, _ in enumerate(model["examples"]):
            documented.check(client.get(f"/v1/models/{model['name']}/examples/{index}"))


def test_health_and_metrics(client, documented):
    for path in ("/health/live", "/health/ready", "/metrics"):
        documented.check(client.get(path))


def test_refusals(client, documented):
    classify, generate = "/v1/models/digits/classify", "/v1/models/dates/generate"
    refused = [
        client.post(generate, content=b"{", headers={"Content-Type": "application/json"}),
        client.post("/v1/models/none/classify", content=SEVEN, headers=PNG),
        client.post("/v1/models/digits/attention", content=SEVEN, headers=PNG | {"Accept": "text/html"}),
        client.post(classify, content=bytes(40 << 20), headers=PNG),
        client.post(classify, content=b"no image", headers=PNG),
        client.post(generate, json={"inputs": DATE, "top_k": -1, "num_beams": "one"}),
        client.get("/v1/attention/none"),
        client.get("/v1/models/none"),
        client.get("/v1/models/digits/examples/none"),
    ]
    assert [documented.check(one).status_code for one in refused] == [400, 404, 406, 413, 415, 422, 404, 404, 404]
    assert {one.headers["content-type"] for one in refused} == {"application/problem+json"}
    assert refused[5].json()["errors"]


def test_the_open_inference_protocol(client, documented):
    text = {"name": "text", "shape": [1], "datatype": "BYTES", "data": [DATE]}
    image = {**text, "name": "image", "data": [encoded(SEVEN)]}
    for path in (
        "", "/health/live", "/health/ready", "/models", "/models/dates", "/models/dates/ready", "/models/dates/config",
        "/models/dates/versions/1", "/models/none", "/models/minilm/config", "/models/scenes-detr",
    ):  # fmt: skip
        documented.check(client.get(f"/v2{path}"))
    for model, given in (("dates", text), ("digits", image), ("scenes-detr", image), ("digits", text)):
        documented.check(client.post(f"/v2/models/{model}/infer", json={"inputs": [given]}))
    output = client.get("/v2/models/digits").json()["outputs"][0]["name"]
    labels = {"name": output, "parameters": {"classification": 2}}
    documented.check(client.post("/v2/models/digits/infer", json={"inputs": [image], "outputs": [labels]}))
    documented.check(client.post("/v2/repository/index", json={}))


def test_openais_protocol(client, documented):
    attention = {"attention": {"layers": "all"}}
    stream = {"model": "dates", "prompt": DATE, "stream": True}
    for path, body in (
        ("embeddings", {"model": "minilm", "input": ["a", "b"], **attention}),
        ("embeddings", {"model": "minilm", "input": "a", "encoding_format": "base64"}),
        ("embeddings", {"model": "none", "input": "a"}),
        ("completions", {"model": "dates", "prompt": DATE, "logprobs": 1, **attention}),
        ("completions", {**stream, "stream_options": {"include_usage": True}}),
        ("completions", {**stream, "attention": {"kind": "cross", "steps": True}}),
        ("completions", {"model": "dates", "prompt": DATE, "stop": [""]}),
    ):
        documented.check(client.post(f"/v1/{path}", json=body))


def test_the_protocols_of_rerankers(client, documented):
    asked = {"model": "dates-rank", "query": DATE, "documents": ["2021-03-23", {"text": "2021-05-23"}]}
    pair = {"model": "dates-rank", "text_1": DATE, "text_2": ["2021-03-23", "2021-05-23"]}
    statuses = [
        documented.check(client.post(path, json=body)).status_code
        for path, body in (
            ("/v1/rerank", asked),
            ("/v2/rerank", {**asked, "top_n": 1, "return_documents": True, "max_tokens_per_doc": 4, "priority": 1}),
            ("/v2/rerank", {**asked, "documents": []}),
            ("/v1/rerank", {**asked, "model": "digits"}),
            ("/score", pair),
            ("/score", {"model": "dates-rank", "queries": [DATE], "documents": "2021-03-23"}),
            ("/score", {**pair, "text_2": []}),
        )
    ]
    assert statuses == [200, 200, 422, 404, 200, 200, 400]


def test_hugging_faces_protocols(client, documented):
    texts = {"inputs": ["a", "b"]}
    details = {"inputs": PROMPT, "parameters": {"details": True}}
    for path, body in (
        ("minilm", texts),
        ("minilm", {"inputs": {"source_sentence": "a", "sentences": ["b"]}}),
        ("dates-tags", {"inputs": DATE}),
        ("dates-tags", {"inputs": [DATE], "parameters": {"aggregation_strategy": "none"}}),
        ("dates-mlm", {"inputs": MASKED}),
        ("dates-mlm", {"inputs": [MASKED, f"{MASKED}[MASK]"]}),
        ("dates", {"inputs": DATE}),
        ("dates-clm", details),
        ("dates-clm", {"inputs": [PROMPT, PROMPT]}),
        ("dates-clm", {**details, "stream": True}),
        ("dates-clm", {"inputs": PROMPT, "parameters": {"best_of": 2}}),
        ("minilm/tei", texts),
        ("minilm/tei/embed", texts),
        ("minilm/tei/tokenize", texts),
        ("minilm/tei/decode", {"ids": [101, 2003]}),
        ("minilm/tei/predict", texts),
        ("minilm/tei/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b"]}}),
        ("minilm/tei/similarity", texts),
        ("minilm/tei/rerank", texts),
        ("minilm/tei/embed_all", texts),
    ):
        documented.check(client.post(f"/v1/models/{path}", json=body))
    for model in ("digits", "scenes-detr"):
        documented.check(client.post(f"/v1/models/{model}", content=SCENE, headers=PNG))
    several = {"inputs": [encoded(SCENE), encoded(SEVEN)], "parameters": {"threshold": 0.2}}
    documented.check(client.post("/v1/models/scenes-detr", json=several))
    for path in ("minilm/info", "minilm/tei/info", "minilm/health", "minilm/tei/health", "none/info"):
        documented.check(client.get(f"/v1/models/{path}"))


def test_a_field_without_a_type_is_found(client):
    documented = Documented(client)
    del documented._components["schemas"]["Label"]["properties"]["probability"]
    with pytest.raises(AssertionError, match="probability"):
        documented.check(client.post("/v1/models/digits/classify", content=SEVEN, headers=PNG))
