"""What a model was fed: its pixels with their numbers, or its tokens, as they were prepared for the answer."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from tests.conftest import ROOT
from tests.samples.in_process import inside

ARTIFACTS = ROOT / "model/artifacts"
SEVEN = (ROOT / "tests/data/digits/seven.png").read_bytes()


@pytest.fixture(scope="module")
def client():
    with inside(ARTIFACTS, decode="threads") as (client, _):
        yield client


def fed(client, model, endpoint, **body):
    answer = client.post(f"/v1/models/{model}/{endpoint}", **body)
    return client.get(f"/v1/attention/{answer.json()['id']}/input").json()


def test_the_pixels_are_those_that_the_graph_normalises(client):
    pixels = fed(client, "digits", "classify", content=SEVEN, headers={"Content-Type": "image/png"})["pixels"]
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(pixels["png"]))))
    assert list(image.shape) == pixels["shape"][:2] == [28, 28]
    assert image.max() == 255  # bright ink
    numbers = (image.astype(np.float64) / 255 - 0.15) / 0.3
    for name, value in {
        "mean": numbers.mean(),
        "std": numbers.std(),
        "least": numbers.min(),
        "most": numbers.max(),
    }.items():
        assert pixels["tensor"][name] == pytest.approx([value], abs=1e-4), name
    size = Image.open(io.BytesIO(SEVEN)).size
    assert (pixels["image"]["width"], pixels["image"]["height"]) == size
    assert pixels["box"]["right"] - pixels["box"]["left"] > 28


def test_tokens_have_the_ids_that_the_graph_takes(client):
    tokens = fed(client, "dates", "generate", json={"inputs": "3 May"})["tokens"]
    assert "".join(one["text"] for one in tokens if not one["special"]).lower() == "3 may"
    assert all(isinstance(one["id"], int) for one in tokens)
    again = fed(client, "dates", "generate", json={"inputs": "3 3"})["tokens"]
    assert again[0]["id"] == again[2]["id"] == tokens[0]["id"]


def test_an_input_that_is_not_kept_is_refused(client):
    answer = client.get("/v1/attention/0123456789abcdef/input")
    assert answer.status_code == 404
    assert answer.json()["detail"].startswith("id: must be of a request that was answered")


def test_labels_have_their_logits_where_they_are_asked_for(client):
    asked = {"content": SEVEN, "headers": {"Content-Type": "image/png"}}
    plain = client.post("/v1/models/digits/classify", **asked).json()["results"][0]["labels"]
    labels = client.post("/v1/models/digits/classify?logits=true&top_k=10", **asked).json()["results"][0]["labels"]
    assert "logit" not in plain[0]
    logits = np.array([one["logit"] for one in labels])
    shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    assert shares == pytest.approx([one["probability"] for one in labels], abs=1e-6)


def test_the_list_of_models_is_packed(client):
    packed = client.get("/v1/models", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json() == client.get("/v1/models", headers={"Accept-Encoding": "identity"}).json()


def test_of_several_inputs_one_is_asked_for_and_no_option_is_taken_that_says_nothing(client):
    several = client.post("/v1/models/dates/generate", json={"inputs": ["3 May", "4 May"]}).json()["id"]
    refused = client.get(f"/v1/attention/{several}/input")
    assert (refused.status_code, refused.json()["detail"]) == (
        422, "id: must be of one input, given that of 2; ask for ID.0, or another",
    )  # fmt: skip
    tokens = client.get(f"/v1/attention/{several}.1/input").json()["tokens"]
    assert tokens[0]["text"] == "4"
    assert client.get(f"/v1/attention/{several}.1/input?layers=1").status_code == 422
