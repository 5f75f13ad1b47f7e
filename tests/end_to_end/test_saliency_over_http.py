"""What stands out in pictures, over HTTP, against the paper in numpy."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from contract.artifact import read_artifact
from service.inputs.image_preprocessing import decode_image
from tests.samples.detectors import encoded, picture
from tests.samples.http_requests import PNG, SEVEN
from tests.samples.in_process import in_process
from tests.samples.saliency_reference import drawn, reference

MODELS = ("scenes-clip", "tiny", "fitted", "sequence")
"""A ViT, detectors whose pictures are stretched and fitted in, and a YOLOS, whose last tokens become objects."""
NARROW = encoded(drawn(5, 64, 40).astype(np.uint8).transpose(1, 2, 0))
"""A picture that fills a part of a canvas."""


@pytest.fixture(scope="module")
def folders(towers, detectors, artifacts):
    text = towers / "scenes-clip-text"
    return {**dict.fromkeys(MODELS, detectors), "scenes-clip": towers, text.name: towers, "digits": artifacts}


@pytest.fixture(scope="module")
def client(folders, tmp_path_factory):
    every = tmp_path_factory.mktemp("every")
    for name, folder in folders.items():
        (every / name).symlink_to(folder / name)
    with in_process(every) as client:
        yield client


def ask(client, model, content=NARROW, *, status=200, **attention):
    given = {"method": "saliency", **attention}
    given = {name: json.dumps(one) if isinstance(one, dict) else one for name, one in given.items()}
    answer = client.post(f"/v1/models/{model}/attention", content=content, headers=PNG, params=given)
    assert answer.status_code == status, answer.text
    if "format" in attention:
        return answer.content
    return answer.json()["results"][0]["attention"] if status == 200 else answer.json()["detail"]


@pytest.mark.parametrize("model", MODELS)
def test_what_stands_out_is_that_of_the_paper(client, folders, model):
    manifest = read_artifact(folders[model] / model / "1").manifest
    kind = next(one for one in manifest.attention if "saliency" in one.methods)
    seen = decode_image(NARROW, manifest.image, 10**6)
    wanted = reference(np.array(seen.pixels).transpose(2, 0, 1), kind.grid, seen.shown if model == "fitted" else None)
    attention = ask(client, model, digits=9)
    (shown,) = attention["maps"]
    assert {name: shown[name] for name in ("kind", "layer", "heads", "queries", "normalized")} == {
        "kind": kind.name, "layer": None, "heads": None, "queries": None, "normalized": False
    }  # fmt: skip
    values = np.array(shown["values"])
    assert values.shape == (1, 1, kind.length)
    np.testing.assert_allclose(values[0, 0, kind.patches].reshape(kind.grid), wanted, rtol=0, atol=1e-5 * wanted.max())
    assert not np.delete(values[0, 0], range(kind.length)[kind.patches]).any()
    assert wanted.max() > 0.01
    assert manifest.verified[f"saliency: {kind.name}"] < 1e-5


def test_it_is_the_same_with_an_answer_and_with_every_other_form(client):
    values = ask(client, "scenes-clip")["maps"][0]["values"]
    answer = client.post(
        "/v1/models/scenes-clip/embed",
        content=NARROW,
        headers=PNG,
        params={"attention": "saliency", "diagnostics": "1"},
    ).json()["results"][0]
    assert answer["attention"]["maps"][0]["values"] == values
    assert len(answer["embedding"]) > 1
    assert len(answer["attention"]["diagnostics"][0]["entropy"]) > 1
    file = np.load(io.BytesIO(ask(client, "scenes-clip", format="npz")))
    np.testing.assert_allclose(file["results/0/maps/0"], values, atol=1e-5)
    image = Image.open(io.BytesIO(ask(client, "scenes-clip", format="png", width=200)))
    assert image.width == 200


def test_nothing_is_salient_in_a_picture_of_one_colour(client):
    for model in MODELS:
        grey = encoded(np.full((40, 24, 3), (90, 20, 200), np.uint8))
        assert not np.array(ask(client, model, grey)["maps"][0]["values"]).any()


def test_it_is_evaluated_and_compared_with_what_explains_the_answer(client):
    shown = ask(client, "tiny", encoded(picture(0)), evaluate="deletion", target=0)["evaluation"]
    assert len(shown["curves"]) == 1
    compared = ask(client, "tiny", encoded(picture(0)), evaluate="compare", target=0)["evaluation"]["compare"]
    rows = {row["method"]: row for row in compared}
    assert rows["saliency"]["deletion"]["area"] == shown["curves"][0]["area"]


def test_a_model_says_that_it_has_it(client):
    methods = {name: client.get(f"/v1/models/{name}").json()["attention"]["methods"] for name in (*MODELS, "digits")}
    assert [name for name, own in methods.items() if "saliency" in own] == [*MODELS]
    kinds = client.get("/v1/models/tiny").json()["attention"]["kinds"]
    assert [name for name, one in kinds.items() if "saliency" in one["methods"]] == ["cross"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": 0}, "heads: saliency is of the picture, which has none, leave it out"),
        ({"layers": 0}, "layers: saliency is of the picture, which has none, leave it out"),
        ({"queries": "found"}, "queries: saliency has one row, of the whole picture, leave it out"),
        ({"target": 0}, "target: is for relevance, libra and integrated, the other methods explain no class"),
        ({"kind": "encoder"}, "method saliency: needs pictures of three channels, of 17 pixels a side or more"),
    ],
)
def test_what_a_picture_has_not_is_refused(client, options, words):
    assert ask(client, "tiny", status=422, **options).startswith(words)


def test_a_model_of_grey_pictures_refuses_it(client):
    words = ask(client, "digits", SEVEN, status=422)
    assert words.startswith(
        "method saliency: needs pictures of three channels, of 17 pixels a side or more; this model"
    )
