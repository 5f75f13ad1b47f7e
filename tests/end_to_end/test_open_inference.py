"""The Open Inference Protocol over HTTP: the numbers of our own endpoints, in its tensors and in its forms."""

import base64
import io
import json
import shutil
import struct
import time

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from service.app import create_admin, create_app
from service.repository.loading.load import load
from service.settings import Settings
from service.store import open_store
from tests.samples.api_keys import EVERY_SCOPE, bearer, line
from tests.samples.changed_artifacts import newer
from tests.samples.detectors import NOTHING, SEVERAL, picture
from tests.samples.detectors import encoded as png
from tests.samples.http_requests import CLASSIFY, DIGIT_FILES, GENERATE, JSON, PNG, SEVEN, WRITTEN_DATES, results
from tests.samples.in_process import in_process

LENGTH = "Inference-Header-Content-Length"
IMAGES = [file.read_bytes() for file in DIGIT_FILES]


def tensor(*texts, name="text"):
    return {"name": name, "shape": [len(texts), 1], "datatype": "BYTES", "data": list(texts)}


def infer(client, model, *inputs, outputs=(), version="", **parameters):
    """Send inputs in JSON; return the answer's outputs by name, as arrays or lists of texts."""
    body = {"inputs": list(inputs), "parameters": parameters}
    if outputs:
        body["outputs"] = [one if isinstance(one, dict) else {"name": one} for one in outputs]
    answer = client.post(f"/v2/models/{model}{version}/infer", json=body)
    assert answer.status_code == 200, answer.text
    return outputs_of(answer)


def outputs_of(answer):
    """Return the outputs by name. An independent reader of the protocol's two forms."""
    length = answer.headers.get(LENGTH)
    head, tail = (answer.content[: int(length)], answer.content[int(length) :]) if length else (answer.content, b"")
    found = {}
    for output in json.loads(head)["outputs"]:
        data, shape = output.get("data"), output["shape"]
        if data is None:
            size = output["parameters"]["binary_data_size"]
            own, tail = tail[:size], tail[size:]
            data = list(np.frombuffer(own, "<f4")) if output["datatype"] == "FP32" else texts_of(own)
        assert len(data) == np.prod(shape), output["name"]
        found[output["name"]] = np.array(data, np.float32).reshape(shape) if output["datatype"] == "FP32" else data
    assert not tail
    return found


def texts_of(data):
    found = []
    while data:
        (length,) = struct.unpack("<I", data[:4])
        found.append(data[4 : 4 + length].decode())
        data = data[4 + length :]
    return found


def native(client, path, **body):
    return results(client.post(path, json=body))


def encoded(images):
    return [base64.b64encode(image).decode() for image in images]


def refused(answer, status):
    """Return the sentence of an error in the form of the protocol."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    return answer.json()["error"]


# Predictions


def test_images_have_the_probabilities_of_our_own_endpoint(client):
    ours = native(client, CLASSIFY, images=encoded(IMAGES), top_k=10)
    found = infer(client, "digits", tensor(*encoded(IMAGES), name="image"))
    for row, label, result in zip(found["probabilities"], found["label"], ours, strict=True):
        wanted = {one["index"]: one["probability"] for one in result["labels"]}
        np.testing.assert_allclose(row, [wanted[index] for index in range(10)], rtol=1e-6)
        assert label == result["labels"][0]["label"]


def test_a_picture_alone_is_a_request_and_its_answer_is_binary(client):
    answer = client.post("/v2/models/digits/infer", content=SEVEN, headers={LENGTH: "0"} | PNG)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert outputs_of(answer)["label"] == ["7"]
    wanted = infer(client, "digits", tensor(*encoded([SEVEN]), name="image"))["probabilities"]
    assert (outputs_of(answer)["probabilities"] == wanted).all()


@pytest.mark.parametrize("content_type", [None, "application/json", "application/octet-stream", "image/png"])
def test_binary_inputs_and_outputs_whatever_the_content_type(client, content_type):
    data = b"".join(struct.pack("<I", len(one)) + one for one in IMAGES)
    entry = {
        "name": "image",
        "shape": [len(IMAGES)],
        "datatype": "BYTES",
        "parameters": {"binary_data_size": len(data)},
    }
    outputs = [{"name": "label"}, {"name": "probabilities", "parameters": {"binary_data": False}}]
    head = json.dumps({"inputs": [entry], "outputs": outputs, "parameters": {"binary_data_output": True}}).encode()
    headers = {LENGTH: str(len(head))} | ({"Content-Type": content_type} if content_type else {})
    answer = client.post("/v2/models/digits/infer", content=head + data, headers=headers)
    shown = json.loads(answer.content[: int(answer.headers[LENGTH])])["outputs"]
    assert [("data" in one, "parameters" in one) for one in shown] == [(False, True), (True, False)]
    wanted = infer(client, "digits", tensor(*encoded(IMAGES), name="image"))
    assert outputs_of(answer)["label"] == wanted["label"]
    assert (outputs_of(answer)["probabilities"] == wanted["probabilities"]).all()


def test_generated_texts_and_their_scores(client):
    ours = native(client, GENERATE, inputs=WRITTEN_DATES, num_beams=2)
    found = infer(client, "dates", tensor(*WRITTEN_DATES), num_beams=2)
    assert found["text"] == [one["text"] for one in ours]
    assert found["finish_reason"] == [one["finish_reason"] for one in ours]
    np.testing.assert_allclose(found["score"][:, 0], [one["score"] for one in ours], rtol=1e-5)


def test_embeddings(minilm):
    texts = ["a text", "another one, which is longer"]
    with in_process(minilm) as client:
        ours = native(client, "/v1/models/minilm/embed", inputs=texts)
        found = infer(client, "minilm", tensor(*texts))["embedding"]
        (described,) = client.get("/v2/models/minilm").json()["outputs"]
    np.testing.assert_allclose(found, [one["embedding"] for one in ours], rtol=1e-6)
    assert described == {"name": "embedding", "datatype": "FP32", "shape": [-1, found.shape[1]]}


def test_masks_and_what_continues_a_text(languages):
    (ours,) = native(languages, "/v1/models/dates-mlm/fill-mask", inputs="[MASK]rd of [MASK]", top_k=3)
    (found,) = infer(languages, "dates-mlm", tensor("[MASK]rd of [MASK]"), top_k=3)["candidates"]
    assert json.loads(found) == ours["candidates"]
    (ours,) = native(languages, "/v1/models/dates-clm/generate", inputs="3 May", temperature=1.0, seed=7)
    assert infer(languages, "dates-clm", tensor("3 May"), temperature=1.0, seed=7)["text"] == [ours["text"]]


def test_the_likeliest_classes_are_value_index_and_label(client):
    wanted = infer(client, "digits", tensor(*encoded(IMAGES), name="image"))["probabilities"]
    outputs = [{"name": "probabilities", "parameters": {"classification": 3}}]
    found = infer(client, "digits", tensor(*encoded(IMAGES), name="image"), outputs=outputs)["probabilities"]
    best = np.argsort(-wanted, axis=1)[:, :3]
    assert found == [
        f"{row[index]:f}:{index}:{index}" for row, order in zip(wanted, best, strict=True) for index in order
    ]
    outputs[0]["parameters"]["classification"] = 99
    assert len(infer(client, "digits", tensor(*encoded([SEVEN]), name="image"), outputs=outputs)["probabilities"]) == 10


def test_the_id_is_the_clients_or_that_by_which_attention_is_found(client):
    body = {"inputs": [tensor("3 May 2021")]}
    assert client.post("/v2/models/dates/infer", json=body | {"id": "mine ü"}).json()["id"] == "mine ü"
    answer = client.post("/v2/models/dates/infer", json=body)
    assert answer.json()["id"] == answer.headers["X-Request-Id"]
    assert client.get(f"/v1/attention/{answer.json()['id']}").status_code == 200


# Attention


def test_attention_is_the_document_and_the_arrays_of_our_own_endpoint(client):
    options = {"method": "raw", "layers": "all", "heads": "all", "queries": "all"}
    body = {"images": encoded([SEVEN]), "attention": options}
    (ours,) = native(client, CLASSIFY, **body)
    arrays = np.load(
        io.BytesIO(
            client.post("/v1/models/digits/attention", json=body, headers={"Accept": "application/x-npz"}).content
        )
    )
    wanted = np.stack([arrays[name] for name in arrays if name != "meta"])
    label = {"name": "label", "parameters": {"binary_data": None, "classification": None}}  # as if there were none
    outputs = [label, "attention", {"name": "attention.encoder", "parameters": {"binary_data": True}}]
    found = infer(client, "digits", tensor(*encoded([SEVEN]), name="image"), outputs=outputs, **options)
    assert found["label"] == ["7"]
    assert json.loads(found["attention"][0]) == ours["attention"]
    assert found["attention.encoder"].shape == (1, *wanted.shape)
    np.testing.assert_allclose(found["attention.encoder"][0], wanted, atol=1e-7)


@pytest.mark.parametrize("method", ["rollout", "norm", "relevance", "libra", "integrated"])
def test_every_method_is_a_parameter(client, method):
    (ours,) = native(client, CLASSIFY, images=encoded([SEVEN]), attention={"method": method, "digits": 9})
    found = infer(
        client, "digits", tensor(*encoded([SEVEN]), name="image"), outputs=["attention.encoder"], attention=method
    )["attention.encoder"]
    wanted = np.stack([np.array(one["values"]) for one in ours["attention"]["maps"]])
    assert np.ptp(wanted) > 1e-3
    np.testing.assert_allclose(found[0], wanted, atol=2e-7)


def test_maps_of_shorter_texts_end_in_zeros(client):
    short, long = "3 May 2021", "the twenty-third of March 2021"
    both = infer(client, "dates", tensor(short, long), outputs=["attention.encoder"], heads="all")["attention.encoder"]
    for index, text in enumerate((short, long)):
        alone = infer(client, "dates", tensor(text), outputs=["attention.encoder"], heads="all")["attention.encoder"][0]
        tokens = alone.shape[-1]
        np.testing.assert_allclose(both[index, :, :, :tokens, :tokens], alone, atol=1e-6)
        assert not both[index, :, :, tokens:].any()
        assert not both[index, :, :, :, tokens:].any()
    assert both[0].sum() != both[1].sum()


def test_only_the_kind_that_is_named_is_computed(client):
    found = infer(client, "dates", tensor("3 May 2021"), outputs=["attention.cross", "attention"], kind="cross")
    assert {one["kind"] for one in json.loads(found["attention"][0])["maps"]} == {"cross"}
    attention = {"method": "raw", "kind": "cross", "layers": -1, "digits": 9}
    (ours,) = native(client, GENERATE, inputs="3 May 2021", attention=attention)
    np.testing.assert_allclose(found["attention.cross"][0, 0], ours["attention"]["maps"][0]["values"], atol=2e-7)


def test_attention_costs_nothing_unless_it_is_named(client):
    def held():
        lines = client.get("/metrics").text.splitlines()
        return [one for one in lines if one.startswith("regard_batch_items_total") and "attention" in one]

    before = held()
    infer(client, "digits", tensor(*encoded([SEVEN]), name="image"))
    assert held() == before
    infer(client, "digits", tensor(*encoded([SEVEN]), name="image"), outputs=["attention"])
    assert held() != before


# Descriptions


def test_metadata_and_config_agree(client):
    for model, name in (("digits", "image"), ("dates", "text")):
        described, config = client.get(f"/v2/models/{model}").json(), client.get(f"/v2/models/{model}/config").json()
        assert [one["name"] for one in described["inputs"]] == [one["name"] for one in config["input"]] == [name]
        assert [one["name"] for one in described["outputs"]] == [one["name"] for one in config["output"]]
        for one, other in zip(
            described["inputs"] + described["outputs"], config["input"] + config["output"], strict=True
        ):
            assert one["shape"][1:] == other["dims"]
        for version in ("", "/versions/1"):
            assert client.get(f"/v2/models/{model}{version}").json() == described
            assert client.get(f"/v2/models/{model}{version}/config").json() == config
            assert client.get(f"/v2/models/{model}{version}/ready").json() == {"name": model, "ready": True}
    kinds = [one["name"] for one in client.get("/v2/models/dates").json()["attention"]]
    assert kinds == ["attention", "attention.encoder", "attention.decoder", "attention.cross"]


def test_what_is_named_none_is_what_metadata_list(client):
    described = client.get("/v2/models/dates").json()["outputs"]
    found = infer(client, "dates", tensor("3 May 2021"), version="/versions/1")
    assert list(found) == [one["name"] for one in described]


def test_the_server_says_what_it_is(client):
    assert client.get("/v2").json() == client.get("/v2/").json()
    assert client.get("/v2").json()["name"] == "regard"
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True, "live": True}
    assert client.get("/v2/models").json() == {"models": ["dates", "digits"]}
    head = client.head("/v2/models/digits")
    assert (head.status_code, head.content) == (200, b"")


# Objects


@pytest.fixture(scope="module")
def finding(detectors):
    with in_process(detectors) as client:
        yield client


def test_every_object_that_is_looked_for_has_its_classes_and_its_box(finding):
    scenes = [png(picture(seed, 90, 50)) for seed in range(3)]
    sent = tensor(*encoded(scenes), name="image")
    for model in ("tiny", "fitted", "sequence"):
        found = infer(finding, model, sent)
        assert {name: one.shape for name, one in found.items()} == {"probabilities": (3, 4, 3), "boxes": (3, 4, 4)}
        ours = native(finding, f"/v1/models/{model}/detect", images=encoded(scenes), threshold=0, top_k=1000)
        for chances, boxes, result in zip(found["probabilities"], found["boxes"], ours, strict=True):
            for detected in result["objects"]:
                assert chances[detected["object"], detected["index"]] == pytest.approx(
                    detected["probability"], abs=1e-6
                )
                assert boxes[detected["object"]] == pytest.approx(list(detected["box"].values()), abs=0.0051)
    binary = [{"name": "boxes", "parameters": {"binary_data": True}}, {"name": "probabilities"}]
    again = infer(finding, "tiny", sent, outputs=binary)
    assert list(again) == ["boxes", "probabilities"]
    assert again["boxes"] == pytest.approx(infer(finding, "tiny", sent)["boxes"], abs=1e-4)


def test_maps_of_objects_that_are_found_are_filled_up_to_the_most_of_an_input(finding):
    scenes = [png(picture(seed)) for seed in (SEVERAL, NOTHING)]
    sent = tensor(*encoded(scenes), name="image")
    ours = native(
        finding, "/v1/models/tiny/attention", images=encoded(scenes), attention={"kind": "cross", "digits": 9}
    )
    (some,), (none,) = (one["attention"]["maps"] for one in ours)
    maps = infer(finding, "tiny", sent, outputs=["attention.cross"])["attention.cross"]
    assert maps.shape == (2, 1, *some["shape"])
    assert maps[0, 0] == pytest.approx(np.array(some["values"]), abs=1e-5)
    assert (none["shape"][1], maps[1].any()) == (0, False)
    surer = infer(finding, "tiny", sent, outputs=["attention.cross"], threshold=0.55)["attention.cross"]
    assert surer.shape == (2, 1, 1, 1, some["shape"][2])
    empty = infer(finding, "tiny", tensor(*encoded(scenes[1:]), name="image"), outputs=["attention.cross"])
    assert empty["attention.cross"].shape == (1, 1, 1, 0, some["shape"][2])


def test_a_detector_describes_its_outputs(finding):
    described, config = (finding.get(f"/v2/models/tiny{path}").json() for path in ("", "/config"))
    assert described["outputs"] == [
        {"name": "probabilities", "datatype": "FP32", "shape": [-1, 4, 3]},
        {"name": "boxes", "datatype": "FP32", "shape": [-1, 4, 4]},
    ]
    assert config["output"][1] == {"name": "boxes", "data_type": "TYPE_FP32", "dims": [4, 4]}
    assert [one["name"] for one in described["attention"]] == [
        "attention", "attention.encoder", "attention.decoder", "attention.cross"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"outputs": [{"name": "probabilities", "parameters": {"classification": 2}}]},
            "classification: is for one class an input, a detector has one for each of many objects",
        ),
        ({"outputs": [{"name": "label"}]}, "outputs: must be among probabilities, boxes, attention, attention.encoder"),
        ({"parameters": {"threshold": 0.5}}, "threshold: has no effect on tensors, leave it out"),
        ({"parameters": {"top_k": 3}, "outputs": [{"name": "boxes"}]}, "top_k: has no effect on tensors, leave it out"),
        ({"parameters": {"threshold": 2}, "outputs": [{"name": "attention"}]}, "threshold: Input should be less than"),
    ],
)
def test_what_a_detector_does_not_answer_is_refused(finding, more, said):
    sent = tensor(*encoded([png(picture(1))]), name="image")
    assert refused(finding.post("/v2/models/tiny/infer", json={"inputs": [sent], **more}), 400).startswith(said)


# Refusals


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("digits", b"", 400, "body: must be JSON"),
        ("digits", {"inputs": [tensor("AAAA", name="image")]}, 415, "image"),
        ("digits", {"inputs": [tensor("a")]}, 400, "inputs: must be named image"),
        ("nothing", {"inputs": []}, 404, "model: must be one of"),
        ("digits/versions/2", {"inputs": []}, 404, "version: must be 1"),
        ("dates", {"inputs": [tensor("a" * 4000)]}, 413, "input: at most 96 tokens"),
        ("dates", {"inputs": [tensor("a")], "outputs": [{"name": "x"}]}, 400, "outputs: must be among text, score"),
        ("dates", {"inputs": [tensor("a")], "parameters": {"x": 1}}, 400, "options: unknown option"),
        ("dates", {"inputs": [tensor("a")], "parameters": {"stream": True}}, 400, "stream"),
        ("dates", {"inputs": [tensor("a")], "parameters": {"layers": "all"}}, 400, "layers: is an option of attention"),
        (
            "dates",
            {"inputs": [tensor("a")], "parameters": {"attention": "raw"}},
            400,
            "attention: name one of the outputs",
        ),
        (
            "dates",
            {
                "inputs": [tensor("a")],
                "outputs": [{"name": "attention.cross"}],
                "parameters": {"kind": "encoder"},
            },
            400,
            "outputs: this attention is of kind encoder",
        ),
        (
            "dates",
            {"inputs": [tensor("a")], "outputs": [{"name": "attention"}], "parameters": {"format": "png"}},
            400,
            "format",
        ),
        (
            "dates",
            {"inputs": [tensor("a")], "outputs": [{"name": "attention.cross"}], "parameters": {"dtype": "uint8"}},
            400,
            "dtype: has no effect on tensors",
        ),
        (
            "dates",
            {"inputs": [tensor("a")], "outputs": [{"name": "attention.cross"}], "parameters": {"evaluate": "deletion"}},
            400,
            "evaluate: has no effect on tensors",
        ),
        ("dates", {"inputs": [tensor("a")], "parameters": {"priority": -1}}, 400, "priority: must be 0 to 4294967295"),
        (
            "dates",
            {"inputs": [tensor("a")], "outputs": [{"name": "text", "parameters": {"classification": 1}}]},
            400,
            "classification: is for the output probabilities",
        ),
    ],
)
def test_refusals_are_in_the_manner_of_the_protocol(client, path, body, status, said):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert refused(client.post(f"/v2/models/{path}/infer", content=body), status).startswith(said)


def test_what_is_refused_before_a_route_is_found_is_in_its_manner_too(client):
    assert refused(client.get("/v2/nothing"), 404) == "path: no such endpoint; see /docs"
    answer = client.post("/v2/models/digits")
    assert refused(answer, 405) == "method: must be one of GET, HEAD here, given another; see /docs"
    assert answer.headers["Allow"] == "GET, HEAD"
    assert client.put("/v1/models/digits").headers["Allow"] == "GET, HEAD, POST"
    assert refused(client.get("/v2/models/a%20b"), 404)
    large = bytes(17 << 20)
    assert refused(client.post("/v2/models/digits/infer", content=large), 413).startswith("body: at most")
    assert refused(client.post("/v2/models/dates/infer", json={}, headers={"Content-Encoding": "gzip"}), 415)


def test_tensors_have_a_bound_though_they_are_padded(light):
    with in_process(light, max_answer_bytes=400_000) as client:
        texts = ["the twenty-third of March 2021", *["3/4/21"] * 31]
        options = {"layers": "all", "heads": "all", "queries": "all"}
        body = {"inputs": [tensor(*texts)], "parameters": options}
        path, outputs = "/v2/models/dates/infer", [{"name": "attention.encoder", "parameters": {"binary_data": True}}]
        said = refused(client.post(path, json=body | {"outputs": outputs}), 413)
        assert said.startswith("outputs: at most 400000 bytes")
        body = {"inputs": [tensor(*texts[1:])], "parameters": options, "outputs": outputs}
        assert client.post(path, json=body).status_code == 200


def test_a_document_and_its_tensors_share_the_bound(light):
    with in_process(light, max_answer_bytes=16_000) as client:
        path = "/v2/models/dates/infer"
        tensors = [{"name": f"attention.{kind}"} for kind in ("encoder", "decoder", "cross")]
        body = {"inputs": [tensor("3/4/21")], "parameters": {"layers": "all", "heads": "mean", "queries": "all"}}
        for outputs in ([{"name": "attention"}], tensors):
            assert client.post(path, json=body | {"outputs": outputs}).status_code == 200
        both = body | {"outputs": [{"name": "attention"}, *tensors]}
        assert "outputs: at most 16000 bytes of attention" in refused(client.post(path, json=both), 413)


def test_a_timeout_of_the_client_is_a_deadline(client):
    body = {"inputs": [tensor(*WRITTEN_DATES)], "parameters": {"timeout": 1, "num_beams": 8}}
    assert refused(client.post("/v2/models/dates/infer", json=body), 504).startswith("request: at most 1e-06 seconds")


# Keys and the repository


def test_keys_hold_for_the_protocol_too(light, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("\n".join((line("p", "predict"), line("a", EVERY_SCOPE))) + "\n")
    with in_process(light, api_keys=keys) as client:
        assert client.get("/v2/health/ready").status_code == 200
        assert refused(client.get("/v2"), 401).startswith("key: must be given once")
        assert client.get("/v2", headers=bearer("p")).status_code == 200
        path = "/v2/repository/models/digits/unload"
        assert (
            refused(client.post(path, headers=bearer("p")), 403) == "key: must have the scope admin, given one without"
        )
        assert client.post(path, headers=bearer("a")).status_code == 200
        assert refused(client.get("/v2/models/digits", headers=bearer("p")), 404)
        states = {one["name"]: one["state"] for one in client.post("/v2/repository/index", headers=bearer("p")).json()}
        assert states == {"dates": "READY", "digits": "UNAVAILABLE"}
        assert client.post("/v2/repository/models/digits/load", headers=bearer("a"), json={}).status_code == 200
        assert client.get("/v2/models/digits/ready", headers=bearer("p")).status_code == 200


def test_the_repository_loads_and_unloads_by_the_admin_port(light_copy):
    with in_process(light_copy, admin_port=0) as client:
        with httpx.Client(base_url=f"{client.admin.base_url}/v2/repository", timeout=60) as repository:

            def index(**body):
                return [
                    (one["name"], one["version"], one["state"]) for one in repository.post("/index", json=body).json()
                ]

            newer(light_copy, "digits", 2)
            weights = newer(light_copy, "digits", 10) / "weights.bin"
            weights.write_bytes(weights.read_bytes()[:-1])
            said = refused(repository.post("/models/digits/load"), 400)
            assert said.startswith("artifact: weights.bin: must have")
            (reason,) = (one["reason"] for one in repository.post("/index").json() if one["version"] == "10")
            assert reason.startswith("weights.bin")
            shutil.rmtree(light_copy / "digits/10")
            assert index() == [
                ("dates", "1", "READY"), ("digits", "1", "READY"), ("digits", "2", "UNAVAILABLE"),
            ]  # fmt: skip
            answer = repository.post("/models/digits/load", json={"parameters": {}})
            assert (answer.status_code, answer.content) == (200, b"")
            assert index(ready=True) == [("dates", "1", "READY"), ("digits", "2", "READY")]
            assert client.post("/v2/models/digits/infer", content=SEVEN, headers={LENGTH: "0"}).status_code == 200
            parameters = {"parameters": {"unload_dependents": False}}
            assert repository.post("/models/digits/unload", json=parameters).status_code == 200
            assert index(ready=True) == [("dates", "1", "READY")]
            assert client.post(CLASSIFY, content=SEVEN, headers=PNG).status_code == 404
            assert refused(repository.post("/models/digits/unload"), 400).startswith("model: must be one of dates")
            assert refused(repository.post("/models/x/load"), 400).startswith("model: must be one of the folder")
            config = {"parameters": {"config": "{}"}}
            assert refused(repository.post("/models/digits/load", json=config), 400).startswith("parameters: cannot be")
            large = b'{"parameters": "' + b"x" * (1 << 16)
            assert refused(repository.post("/models/digits/load", content=large), 413).startswith("body: at most 65536")
            assert repository.post("/models/digits/load", content=b"", headers=JSON).status_code == 200
            assert client.post(CLASSIFY, content=SEVEN, headers=PNG).status_code == 200
            for file in light_copy.iterdir():
                shutil.rmtree(file)
            assert index() == [("dates", "1", "READY"), ("digits", "2", "READY")]
            for model in ("dates", "digits"):
                assert repository.post(f"/models/{model}/unload").status_code == 200
            assert client.get("/health/ready").json()["detail"] == "service: no model is loaded"
            assert index() == []
            assert refused(client.get("/v2/models/dates"), 404) == "model: none is loaded"
            assert client.get("/v2/health/ready").status_code == 503
        assert client.post("/v2/repository/models/digits/unload").status_code == 404, "is on the admin port"


def test_other_workers_reload_though_this_one_cannot(light, tmp_path):
    """They read the file of keys too, in which one may have been revoked."""
    copied, told = tmp_path / "artifacts", []
    shutil.copytree(light, copied)
    settings = Settings(artifacts=copied, admin_port=0)
    app = create_app(settings, load(settings), open_store(settings), tell_reload=lambda: told.append(True))
    with TestClient(app), TestClient(create_admin(app, settings)) as admin:
        while admin.post("/admin/reload").status_code == 409:  # while the models warm up
            time.sleep(0.01)
        for file in copied.iterdir():
            shutil.rmtree(file)
        told.clear()
        assert admin.post("/admin/reload").status_code == 422
        assert told == [True]


def test_of_several_workers_none_loads_one_model_alone(light):
    settings = Settings(artifacts=light, admin_port=0)
    told = []
    app = create_app(settings, load(settings), open_store(settings), tell_reload=lambda: told.append(True))
    with TestClient(app), TestClient(create_admin(app, settings)) as admin:
        for action in ("load", "unload"):
            said = refused(admin.post(f"/v2/repository/models/digits/{action}"), 400)
            assert said.startswith("REGARD_WORKERS: must be 1 to load or unload one model")
        assert admin.post("/admin/reload").status_code == 200
        assert told == [True]


@pytest.fixture(scope="module")
def languages(language_models):
    """A client of a service with the language models of dates."""
    with in_process(language_models) as client:
        yield client
