"""What is said of a model to those who see it for the first time: a sentence, examples, and its place in the list."""

import json
import shutil

import pytest

from contract.artifact import describe
from tests.samples.api_keys import bearer, line
from tests.samples.changed_artifacts import edit
from tests.samples.http_requests import PNG
from tests.samples.in_process import in_process

DIGITS = "73068429"
"""What is written on the examples of `digits`, in their order."""


@pytest.fixture(scope="session")
def artifacts(light):
    """Most tests here need no graph that explains a score."""
    return light


def test_models_are_listed_by_their_order_and_those_of_one_order_by_name(client, copied):
    listed = client.get("/v1/models").json()
    assert [one["name"] for one in listed["models"]] == ["digits", "dates"]  # no alphabet would say so
    assert [one["id"] for one in listed["data"]] == ["digits", "dates"]
    assert [one["order"] for one in listed["models"]] == [1, 2]
    for name in ("digits", "dates"):
        edit(copied / name / "1", lambda manifest: manifest.update(order=100))
    with in_process(copied) as other:
        assert [one["name"] for one in other.get("/v1/models").json()["models"]] == ["dates", "digits"]


@pytest.mark.parametrize("name", ["digits", "dates"])
def test_a_model_says_what_its_manifest_says_of_it(client, artifacts, name):
    manifest = json.loads((artifacts / name / "1" / "manifest.json").read_text())
    model = client.get(f"/v1/models/{name}").json()
    assert (model["about"], model["order"]) == (manifest["about"], manifest["order"])
    assert model["about"]
    if name == "dates":
        assert model["examples"] == [{"text": example["text"]} for example in manifest["examples"]]
    else:
        assert model["examples"] == [
            {"image": f"/v1/models/digits/examples/{index}", "type": "image/png"} for index in range(len(DIGITS))
        ]
    assert model.items() <= {one["name"]: one for one in client.get("/v1/models").json()["models"]}[name].items()


def test_the_pictures_are_those_of_the_artifact_and_the_model_reads_them(client, artifacts):
    for index, digit in enumerate(DIGITS):
        example = client.get("/v1/models/digits").json()["examples"][index]
        answer = client.get(example["image"])
        assert answer.status_code == 200
        assert answer.headers["content-type"] == example["type"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.content == (artifacts / "digits" / "1" / f"example-{index}.png").read_bytes()
        found = client.post("/v1/models/digits/classify", content=answer.content, headers=PNG).json()
        assert found["results"][0]["labels"][0]["label"] == digit


def test_the_texts_are_answered_as_json(client):
    for index, example in enumerate(client.get("/v1/models/dates").json()["examples"]):
        answer = client.get(f"/v1/models/dates/examples/{index}")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == example


def test_the_texts_of_the_dates_are_read_as_dates(client):
    texts = [example["text"] for example in client.get("/v1/models/dates").json()["examples"]]
    found = client.post("/v1/models/dates/generate", json={"inputs": texts}).json()["results"]
    assert [one["text"] for one in found] == ["2021-03-23", "2021-03-23", "2021-03-23", "1996-07-04"]


@pytest.mark.parametrize("number", ["8", "-1", "00", "+0", "0.0", "1e0", "x", "9" * 5000, "_0"])
def test_there_is_no_example_beyond_the_last(client, number):
    answer = client.get(f"/v1/models/digits/examples/{number}")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "example: must be 0 to 7, given another"
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_model_without_examples_says_so(copied):
    edit(copied / "dates" / "1", lambda manifest: manifest.update(examples=[], about=None))
    shutil.rmtree(copied / "digits")
    with in_process(copied) as client:
        model = client.get("/v1/models/dates").json()
        assert (model["examples"], model["about"]) == ([], None)
        answer = client.get("/v1/models/dates/examples/0")
        assert (answer.status_code, answer.json()["detail"]) == (404, "example: this model has none, given another")


def test_an_unknown_model_has_no_examples(client):
    assert client.get("/v1/models/none/examples/0").json()["detail"] == client.get("/v1/models/none").json()["detail"]


def test_a_type_is_that_of_the_name_whatever_the_bytes_say(copied):
    """The export names a picture by its content; what somebody else put there is shown as nothing but a picture."""
    folder, page = copied / "digits" / "1", b"<script>alert(1)</script>"
    (folder / "example-0.png").write_bytes(page)
    entry = describe(folder / "example-0.png").model_dump()
    edit(folder, lambda manifest: manifest["files"].__setitem__(0, entry))
    shutil.rmtree(copied / "dates")
    with in_process(copied) as client:
        answer = client.get("/v1/models/digits/examples/0")
        assert answer.content == page
        assert answer.headers["content-type"] == "image/png"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_picture_stays_what_was_checked_and_needs_a_key_as_other_paths_do(copied, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(line("p") + line("m", "metrics", "prometheus"))
    shutil.rmtree(copied / "dates")
    path, file = "/v1/models/digits/examples/0", copied / "digits" / "1" / "example-0.png"
    checked = file.read_bytes()
    with in_process(copied, api_keys=keys) as client:
        file.write_bytes(b"another")
        assert client.get(path, headers=bearer("p")).content == checked
        file.unlink()
        assert client.get(path, headers=bearer("p")).content == checked
        assert client.get(path).status_code == 401
        assert client.get(path, headers=bearer("m")).status_code == 403
        head = client.head(path, headers=bearer("p"))
        assert (head.status_code, head.headers["content-length"], head.content) == (200, str(len(checked)), b"")


def test_openapi_names_the_types_of_an_example(client):
    described = client.get("/openapi.json").json()["paths"]["/v1/models/{model}/examples/{number}"]["get"]
    types = {"image/png", "image/jpeg", "image/webp", "audio/wav", "application/json"}
    assert described["responses"]["200"]["content"].keys() == types
    assert "404" in described["responses"]
