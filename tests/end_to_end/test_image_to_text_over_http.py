"""Texts of pictures by a checkpoint: what a client gets is what the reference library computes."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from tests.samples.checkpoints import checkpoint_of, reference
from tests.samples.documented import Documented
from tests.samples.http_requests import EVERY_MAP, JSON, PNG, results
from tests.samples.images import encoded
from tests.samples.in_process import in_process
from tests.samples.reference_images import photograph, processed
from tests.samples.reference_texts import ASKED, decoded, generated_of

pytestmark = pytest.mark.families
NAME = "trocr"
PATH = f"/v1/models/{NAME}"
PHOTO = photograph()
PICTURES = [PHOTO, PHOTO.rotate(90, expand=True), Image.eval(PHOTO, lambda level: 255 - level)]
SHORT = {"num_beams": 1, "max_new_tokens": 5}
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def client(families):
    with in_process(families(NAME).parent) as client:
        yield client


def post(client, endpoint="generate", picture=PHOTO, **options):
    return client.post(f"{PATH}/{endpoint}", content=encoded(picture), headers=PNG, params=options)


def normal(picture):
    return torch.from_numpy(processed(NAME, picture)).double()


def test_the_text_of_a_picture_is_the_reference_library_s_token_for_token(client):
    model, found = reference(checkpoint_of(NAME)), set()
    for picture in PICTURES:
        for asked in ASKED:
            (result,) = results(post(client, picture=picture, **asked))
            wanted = generated_of(model, normal(picture), **asked)
            assert [token["token"] for token in result["tokens"]] == wanted, asked
            assert result["text"] == decoded(NAME, wanted)
            found.add(result["text"])
    assert len(found) > 2


def test_maps_of_a_text_are_those_of_one_pass_over_it_and_lie_over_the_picture(client):
    model = reference(checkpoint_of(NAME))
    (result,) = results(post(client, attention="raw", **SHORT, **{k: v for k, v in EVERY_MAP.items() if k != "method"}))
    fed = [2, *(token["token"] for token in result["tokens"])][:5]
    with torch.no_grad():
        out = model(normal(PHOTO), decoder_input_ids=torch.tensor([fed]), output_attentions=True)
    maps = {"encoder": out.encoder_attentions, "decoder": out.decoder_attentions, "cross": out.cross_attentions}
    shown = result["attention"]["maps"]
    assert [(one["kind"], one["layer"]) for one in shown] == [
        (kind, layer) for kind, layers in maps.items() for layer in range(len(layers))
    ]
    for found in shown:
        wanted = maps[found["kind"]][found["layer"]][0].numpy()
        assert np.abs(np.array(found["values"]) - wanted).max() < TOLERANCE
    axes = result["attention"]["tokens"]
    assert (axes["grid"], axes["prefix"]) == ({"rows": 2, "columns": 3}, 1)
    assert len(axes["target"]) == len(axes["target_input"]) == len(fed)
    assert result["attention"]["image"]["box"] == {"left": 0, "top": 0, "right": 90, "bottom": 60}


@pytest.mark.parametrize("method", ["libra", "relevance", "integrated"])
def test_what_a_token_rests_on_is_in_the_picture_and_in_the_tokens_before_it(client, method):
    answer = post(client, attention=method, **SHORT)
    (result,) = results(answer)
    own, cross = result["attention"]["maps"]
    assert (own["kind"], own["shape"][-1], cross["kind"], cross["shape"][-1]) == ("decoder", 5, "cross", 7)
    if method == "relevance":  # which is not negative, and adds up to nothing
        assert np.min(cross["values"]) >= 0
        assert np.max(cross["values"]) > 0
        return
    for place, target in enumerate(cross["targets"]):
        parts = {name: part["sum"] for name, part in target["parts"].items()}
        assert parts.keys() == {"source", "prefix", "start"}
        assert parts["source"] == pytest.approx(np.sum(cross["values"][0][place]), abs=1e-3)
        assert parts["prefix"] + parts["start"] == pytest.approx(np.sum(own["values"][0][place]), abs=1e-3)
        if method == "libra":
            assert sum(part["share"] for part in target["parts"].values()) == pytest.approx(1, abs=1e-3)
    later = results(client.get(f"/v1/attention/{answer.json()['id']}", params={"method": method}))
    assert later[0]["attention"]["maps"] == result["attention"]["maps"]


def test_a_drawing_has_a_panel_for_each_token(client):
    asked = {"kind": "cross", "format": "png", **SHORT}
    drawn = [post(client, "attention", **asked, **rows) for rows in ({"queries": "0"}, {"queries": "all"}, {})]
    assert {one.headers["Content-Type"] for one in drawn} == {"image/png"}
    narrow, wide, usual = (Image.open(io.BytesIO(one.content)).size for one in drawn)
    assert usual == wide
    assert wide[0] > 2 * narrow[0]


def test_other_protocols_and_the_openapi_document_agree(client):
    documented = Documented(client)
    asked = {"images": [base64.b64encode(encoded(PHOTO)).decode()], **SHORT, "attention": {"method": "libra"}}
    (ours,) = results(documented.check(client.post(f"{PATH}/generate", json=asked)))
    body = {"inputs": asked["images"][0], "parameters": {"max_new_tokens": 5, "num_beams": 1}}
    assert client.post(PATH, json=body, headers=JSON).json() == [{"generated_text": ours["text"]}]
    documented.check(client.get(PATH))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attention": "rollout", "kind": "cross"}, "method rollout: needs maps of tokens onto themselves"),
        ({"attention": "libra", "kind": "encoder"}, "method libra: is in decoder and cross, not encoder"),
        ({"attention": "raw", "kind": "cross", "queries": "cls"}, "queries: cls needs a class token, and this kind of"),
        ({"max_new_tokens": 41}, "max_new_tokens: at most 40, given 41"),
    ],
)
def test_what_it_cannot_answer_is_refused_in_words(client, options, words):
    answer = post(client, **options)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]


def test_a_text_is_no_picture(client):
    answer = client.post(f"{PATH}/generate", json={"inputs": "the cat"})
    assert answer.status_code == 422
    assert "images" in answer.json()["detail"]
