"""The same input has the same numbers by every protocol, and the same limits, keys and metrics hold for all."""

import base64
import json
import struct

import numpy as np
import pytest

from service.api.protocols import ROUTERS, error_form_of
from service.http.api_keys import is_open
from tests.samples.api_keys import bearer, line
from tests.samples.detectors import LABELS, OBJECTS, encoded, picture
from tests.samples.http_requests import DIGIT_FILES, PNG
from tests.samples.in_process import in_process

LENGTH = "Inference-Header-Content-Length"
TEXTS = ["april 17, 1986", "the 23rd of March 2021"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory, artifacts, minilm, language_models, detectors):
    """A client of a service with a model of each task."""
    folder = tmp_path_factory.mktemp("everything")
    for source in (artifacts, minilm, language_models, detectors):
        for model in source.iterdir():
            (folder / model.name).symlink_to(model)
    with in_process(folder) as client:
        yield client


def asked(client, path, body, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(path, content=content, headers={"Content-Type": "application/json"} | headers)
    assert answer.status_code == 200, (path, answer.text)
    return answer


def tensor(name, *data):
    return {"name": name, "shape": [len(data)], "datatype": "BYTES", "data": list(data)}


def output(answer, name):
    (found,) = (one["data"] for one in answer.json()["outputs"] if one["name"] == name)
    return found


@pytest.mark.parametrize("file", DIGIT_FILES, ids=lambda file: file.stem)
def test_a_picture_has_the_same_probabilities(everything, file):
    image = file.read_bytes()
    text = base64.b64encode(image).decode()
    labels = asked(everything, "/v1/models/digits/classify?top_k=10", image, **PNG).json()["results"][0]["labels"]
    wanted = {one["label"]: one["probability"] for one in labels}
    as_tensor = asked(everything, "/v2/models/digits/infer", {"inputs": [tensor("image", text)]})
    raw = asked(everything, "/v2/models/digits/infer", image, **{LENGTH: "0"})
    numbers = raw.content[int(raw.headers[LENGTH]) :][:40]
    pipeline = asked(everything, "/v1/models/digits", {"inputs": text, "parameters": {"top_k": 10}}).json()
    posted = asked(everything, "/v1/models/digits", image, **PNG).json()
    for found in (
        dict(zip("0123456789", output(as_tensor, "probabilities"), strict=True)),
        dict(zip("0123456789", struct.unpack("<10f", numbers), strict=True)),
        {one["label"]: one["score"] for one in pipeline},
    ):
        assert found.keys() == wanted.keys()
        for label, probability in wanted.items():
            assert found[label] == pytest.approx(probability, rel=1e-6)
    assert [one["label"] for one in posted] == [one["label"] for one in labels][: len(posted)]


@pytest.mark.parametrize("model", ["tiny", "fitted", "sequence"])
def test_a_picture_has_the_same_objects(everything, model):
    image = encoded(picture(3, 90, 50))
    text = base64.b64encode(image).decode()
    path = f"/v1/models/{model}"
    native = asked(everything, f"{path}/detect?threshold=0&top_k=1000", image, **PNG).json()["results"][0]["objects"]
    tensors = asked(everything, f"/v2{path[3:]}/infer", {"inputs": [tensor("image", text)]})
    chances = np.array(output(tensors, "probabilities")).reshape(OBJECTS, len(LABELS))
    boxes = np.array(output(tensors, "boxes")).reshape(OBJECTS, 4)
    raw = asked(everything, f"/v2{path[3:]}/infer", image, **{LENGTH: "0"})
    binary = np.frombuffer(raw.content[int(raw.headers[LENGTH]) :], "<f4")
    np.testing.assert_allclose(binary, np.concatenate([chances.ravel(), boxes.ravel()]), rtol=1e-6)
    body = {"inputs": text, "parameters": {"threshold": 0, "top_k": 1000}}
    pipeline = asked(everything, path, body).json()
    assert len(native) == len(pipeline) == (chances.size if model == "fitted" else OBJECTS)
    for one, other in zip(native, pipeline, strict=True):
        assert other["label"] == one["label"]
        for found in (other["score"], chances[one["object"], one["index"]]):
            assert found == pytest.approx(one["probability"], rel=1e-6)
        edges = list(one["box"].values())
        assert boxes[one["object"]] == pytest.approx(edges, abs=0.0051)
        assert list(other["box"].values()) == boxes[one["object"]].astype(int).tolist()
    if model != "fitted":
        assert [one["index"] for one in sorted(native, key=lambda one: one["object"])] == chances.argmax(1).tolist()


def test_attention_to_objects_is_the_same_document(everything):
    image = encoded(picture(3, 90, 50))
    wanted = asked(everything, "/v1/models/tiny/detect?threshold=0.3&attention=raw&kind=cross", image, **PNG).json()
    body = {
        "inputs": [tensor("image", base64.b64encode(image).decode())],
        "outputs": [{"name": "attention"}, {"name": "attention.cross"}],
        "parameters": {"threshold": 0.3, "attention": "raw", "kind": "cross"},
    }
    tensors = asked(everything, "/v2/models/tiny/infer", body)
    seen = wanted["results"][0]["attention"]
    assert json.loads(output(tensors, "attention")[0]) == seen
    assert seen["maps"][0]["shape"][1] > 0
    assert output(tensors, "attention.cross") == pytest.approx(np.ravel(seen["maps"][0]["values"]), abs=1e-5)


def test_a_text_has_the_same_embedding(everything):
    wanted = [
        one["embedding"] for one in asked(everything, "/v1/models/minilm/embed", {"inputs": TEXTS}).json()["results"]
    ]
    tensors = asked(everything, "/v2/models/minilm/infer", {"inputs": [tensor("text", *TEXTS)]})
    openai = [
        asked(everything, "/v1/embeddings", {"model": "minilm", "input": TEXTS, "encoding_format": form}).json()["data"]
        for form in ("float", "base64")
    ]
    for found in (
        np.array(output(tensors, "embedding")).reshape(len(TEXTS), -1),
        [one["embedding"] for one in openai[0]],
        [np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in openai[1]],
        asked(everything, "/v1/models/minilm", {"inputs": TEXTS}).json(),
        asked(everything, "/v1/models/minilm/tei/embed", {"inputs": TEXTS}).json(),
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("model", ["dates", "dates-clm"])
def test_a_text_is_continued_in_the_same_way(everything, model):
    native = asked(everything, f"/v1/models/{model}/generate", {"inputs": TEXTS, "num_beams": 1, "temperature": 0})
    wanted = [one["text"] for one in native.json()["results"]]
    options = {"num_beams": 1, "temperature": 0}
    tensors = asked(
        everything, f"/v2/models/{model}/infer", {"inputs": [tensor("text", *TEXTS)], "parameters": options}
    )
    assert output(tensors, "text") == wanted
    completions = asked(everything, "/v1/completions", {"model": model, "prompt": TEXTS, "temperature": 0}).json()
    assert [one["text"] for one in completions["choices"]] == wanted
    for text, one in zip(TEXTS, wanted, strict=True):
        parameters = {"num_beams": 1, "temperature": 0, "return_full_text": False}
        if model == "dates":
            del parameters["return_full_text"]
        (pipeline,) = asked(everything, f"/v1/models/{model}", {"inputs": text, "parameters": parameters}).json()
        assert pipeline["generated_text"] == one


def test_a_mask_has_the_same_candidates(everything):
    text = "[MASK]rd of march 2021"
    native = asked(everything, "/v1/models/dates-mlm/fill-mask", {"inputs": text}).json()["results"][0]["candidates"][0]
    tensors = asked(everything, "/v2/models/dates-mlm/infer", {"inputs": [tensor("text", text)]})
    assert json.loads(output(tensors, "candidates")[0]) == [native]
    pipeline = asked(everything, "/v1/models/dates-mlm", {"inputs": text}).json()
    assert [(one["token"], one["score"]) for one in pipeline] == [(one["token"], one["probability"]) for one in native]


def test_attention_is_the_same_document(everything):
    options = {"method": "raw", "kind": "cross", "heads": "all"}
    body = {"inputs": TEXTS[0], "num_beams": 1, "temperature": 0, "attention": options}
    wanted = asked(everything, "/v1/models/dates/generate", body).json()["results"][0]["attention"]
    tensors = asked(
        everything,
        "/v2/models/dates/infer",
        {
            "inputs": [tensor("text", TEXTS[0])],
            "outputs": [{"name": "attention"}],
            "parameters": {"num_beams": 1, "temperature": 0, "attention": "raw", "kind": "cross", "heads": "all"},
        },
    )
    assert json.loads(output(tensors, "attention")[0]) == wanted
    body = {"model": "dates", "prompt": TEXTS[0], "temperature": 0, "attention": options}
    assert asked(everything, "/v1/completions", body).json()["choices"][0]["attention"] == wanted


def test_every_request_is_counted_under_its_route_and_can_be_asked_about_again(everything):
    image = DIGIT_FILES[0].read_bytes()
    requests = {
        "/v2/models/{model}/infer": asked(everything, "/v2/models/digits/infer", image, **{LENGTH: "0"}),
        "/v1/embeddings": asked(everything, "/v1/embeddings", {"model": "minilm", "input": TEXTS[0]}),
        "/v1/completions": asked(everything, "/v1/completions", {"model": "dates", "prompt": TEXTS[0]}),
        "/v1/models/{model}": asked(everything, "/v1/models/digits", image, **PNG),
        "/v1/models/{model}/tei/embed": asked(everything, "/v1/models/minilm/tei/embed", {"inputs": TEXTS[0]}),
    }
    counted = everything.get("/metrics").text
    for route, answer in requests.items():
        assert f'route="{route}"' in counted
        assert everything.get(f"/v1/attention/{answer.headers['X-Request-Id']}?method=raw").status_code == 200, route


def test_every_protocol_needs_a_key_and_says_so_in_its_manner(light, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(line("m", "metrics") + "\n")
    shapes = set()
    with in_process(light, api_keys=keys) as client:
        for router in ROUTERS:
            for route in router.routes:
                path = route.path.replace("{model}", "digits").replace("{version}", "1").replace("{id}", "x")
                for method in route.methods if not is_open(path.replace("{file}", "x")) else ():
                    for headers, status in (({}, 401), (bearer("m"), 403)):
                        answer = client.request(method, path, headers=headers)
                        wanted = json.loads(error_form_of(method, path)(status, "").body)
                        assert (answer.status_code, answer.json().keys()) == (status, wanted.keys()), path
                        shapes.add((answer.headers["content-type"], *answer.json()))
    assert shapes == {
        ("application/problem+json", "type", "title", "status", "detail"),
        ("application/problem+json", "type", "title", "status", "detail", "error"),  # of models, which OpenAI has too
        ("application/json", "error"),  # of the Open Inference Protocol, and of OpenAI's
        ("application/json", "error", "error_type"),
        ("application/json", "message", "detail"),  # of rerankers
    }
