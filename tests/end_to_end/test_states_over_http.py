"""Parts that are alike, over HTTP: in one input and between two, against the definition's states in float64."""

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity

from export.bundled import SOURCES
from service.inputs.image_preprocessing import decode_image
from tests.conftest import ROOT
from tests.samples.http_requests import JSON, SEVEN
from tests.samples.in_process import in_process

EIGHT = (ROOT / "tests/data/digits/eight-scan.png").read_bytes()
DIGITS, DINO, DATES, MINILM = (f"/v1/models/{name}" for name in ("digits", "digits-dino", "dates", "minilm"))
ROWS = [1, 25, 49]
LAYER = 2
"""Of four, that after two thirds."""
FIRST, SECOND = "The violin is on the table.", "She bought a violin."


def text_of(image):
    return base64.b64encode(image).decode()


@pytest.fixture(scope="module")
def client(dino, artifacts, tmp_path_factory):
    both = tmp_path_factory.mktemp("both")
    (both / "digits-dino").symlink_to(dino / "digits-dino")
    for name in ("digits", "dates"):
        (both / name).symlink_to(artifacts / name)
    with in_process(both) as client:
        yield client


@pytest.fixture(scope="module")
def texts(minilm):
    with in_process(minilm) as client:
        yield client


@pytest.fixture(scope="module")
def states():
    """The states of the definition of digits in float64, (layer, token, width), of an encoded image."""
    source = SOURCES["digits"]()
    traced = source.traced.double()

    def of(image):
        pixels = np.array(decode_image(image, source.image, 10**6).pixels)
        with torch.no_grad():
            found = traced.watched(torch.from_numpy(pixels)[None]).states
        return np.stack([found[name][0].numpy() for name in traced.returned_states])

    return of


def ask(client, given, path=DIGITS, *, status=200, **attention):
    """Return the attention of an input, or the words of a refusal."""
    inputs = {"inputs": given} if isinstance(given, str) else {"images": [text_of(given)]}
    answer = client.post(f"{path}/attention", json={**inputs, "attention": {"digits": 9, **attention}})
    assert answer.status_code == status, answer.text
    return answer.json()["results"][0]["attention"] if status == 200 else answer.json()["detail"]


def values(attention, number=0):
    return np.array(attention["maps"][number]["values"])


# similar


def test_likeness_is_the_cosine_of_states_less_the_mean_of_the_patches(client, states):
    attention = ask(client, SEVEN, method="similar", queries=ROWS)
    own = states(SEVEN)[LAYER]
    own = own - own[1:].mean(0)
    np.testing.assert_allclose(values(attention)[0], cosine_similarity(own[ROWS], own), atol=1e-5)
    (shown,) = attention["maps"]
    assert (shown["layer"], shown["heads"], shown["normalized"], shown["shape"]) == (LAYER, None, False, [1, 3, 50])
    assert "against" not in attention


@pytest.mark.parametrize("form", ["image", "id"])
def test_between_two_images_the_mean_is_that_of_both_and_each_has_maps(client, states, form):
    other = {"image": text_of(EIGHT)}
    if form == "id":
        answered = client.post(f"{DIGITS}/classify", json={"images": [text_of(SEVEN), text_of(EIGHT)]}).json()
        other = {"id": f"{answered['id']}.1"}
    attention = ask(client, SEVEN, method="similar", queries=ROWS, layers=[3, 0], against=other)
    for number, layer in enumerate((3, 0)):
        own, theirs = states(SEVEN)[layer], states(EIGHT)[layer]
        middle = (own[1:].mean(0) + theirs[1:].mean(0)) / 2
        wanted = cosine_similarity(own[ROWS] - middle, theirs - middle)
        np.testing.assert_allclose(values(attention["against"], number)[0], wanted, atol=1e-5)
        wanted = cosine_similarity(own[ROWS] - middle, own - middle)
        np.testing.assert_allclose(values(attention, number)[0], wanted, atol=1e-5)
    assert attention["against"]["kind"] == form
    assert attention["against"]["image"]["width"] != attention["image"]["width"]


def test_without_rows_all_are_answered_and_base64_is_the_same(client):
    whole = values(ask(client, SEVEN, method="similar"))
    assert whole.shape == (1, 50, 50)
    np.testing.assert_allclose(whole[0].diagonal(), 1, atol=1e-6)
    for dtype, within in (("float32", 1e-6), ("uint8", 1 / 120)):
        (shown,) = ask(client, SEVEN, method="similar", encoding="base64", dtype=dtype)["maps"]
        found = np.frombuffer(base64.b64decode(shown["values"]), dtype).reshape(shown["shape"]).astype(float)
        steps = found - shown.get("zero", 0)
        found = steps * abs(steps) * shown["scale"] if dtype == "uint8" else found
        np.testing.assert_allclose(found, whole, atol=within)


def test_an_earlier_request_is_compared_by_ids_as_npz_and_in_the_same_batch(client):
    answered = client.post(f"{DIGITS}/classify", json={"images": [text_of(SEVEN), text_of(EIGHT)]}).json()["id"]
    options = {"method": "similar", "queries": "25", "against": json.dumps({"id": f"{answered}.1"})}
    found = client.get(f"/v1/attention/{answered}.0", params={**options, "format": "npz"})
    arrays = np.load(io.BytesIO(found.content))
    meta = json.loads(arrays["meta"].tobytes())["results"][0]["attention"]
    direct = ask(client, SEVEN, method="similar", queries=[25], against={"image": text_of(EIGHT)})
    np.testing.assert_allclose(arrays[meta["maps"][0]["array"]], values(direct), atol=1e-6)
    np.testing.assert_allclose(arrays[meta["against"]["maps"][0]["array"]], values(direct["against"]), atol=1e-6)


def test_a_prediction_brings_it_along(client):
    body = {"images": [text_of(SEVEN)] * 2, "attention": {"method": "similar", "queries": [3], "against": {
        "image": text_of(EIGHT)}}}  # fmt: skip
    found = client.post(f"{DIGITS}/classify", json=body).json()["results"]
    assert [one["labels"][0]["label"] for one in found] == ["7", "7"]
    assert found[0]["attention"] == found[1]["attention"]
    assert len(found[0]["attention"]["against"]["maps"]) == 1


def test_the_picture_shows_both_and_frames_the_part(client):
    def drawn(**options):
        found = client.post(
            f"{DIGITS}/attention",
            json={"images": [text_of(SEVEN)], "attention": {"method": "similar", "format": "png", **options}},
        )
        assert found.status_code == 200, found.text
        return np.asarray(Image.open(io.BytesIO(found.content)).convert("RGB")).astype(int)

    alone = drawn(queries=[25], width=280)
    height, width = alone.shape[:2]
    assert width == 280
    assert abs(alone - drawn(queries=[26], width=280)).max() > 100
    both = drawn(queries=[25], width=280, against={"image": text_of(EIGHT)})
    assert both.shape[0] > height + 100
    itself = drawn(queries=[25], width=280, against={"image": text_of(SEVEN)})
    np.testing.assert_array_equal(itself[32 : 32 + height], alone)


def test_words_of_two_texts_find_each_other(texts):
    attention = ask(texts, FIRST, MINILM, method="similar", against={"text": SECOND})
    own, theirs = attention["tokens"]["source"], attention["against"]["tokens"]["source"]
    found = values(attention["against"])[0]
    assert found.shape == (len(own), len(theirs))
    violin = next(at for at, token in enumerate(own) if token["text"].strip() == "violin")
    assert theirs[int(found[violin].argmax())]["text"].strip() == "violin"
    answer = texts.post(f"{MINILM}/attention", json={"inputs": FIRST, "attention": {
        "method": "similar", "format": "png", "against": {"text": SECOND}}})  # fmt: skip
    assert Image.open(io.BytesIO(answer.content)).height > 100


# parts


def test_parts_are_the_principal_components_of_the_patches_of_both(client, states):
    attention = ask(client, SEVEN, method="parts", against={"image": text_of(EIGHT)})
    own, theirs = states(SEVEN)[LAYER], states(EIGHT)[LAYER]
    both = np.concatenate([own[1:], theirs[1:]])
    scores = PCA(3).fit_transform(both)
    scores *= np.where((scores**3).sum(0) < 0, -1, 1)
    low, high = np.percentile(scores, (2, 98), axis=0)
    wanted = ((scores - low) / (high - low)).clip(0, 1).T
    np.testing.assert_allclose(values(attention)[:, 0, 1:], wanted[:, : len(own) - 1], atol=1e-4)
    np.testing.assert_allclose(values(attention["against"])[:, 0, 1:], wanted[:, len(own) - 1 :], atol=1e-4)
    assert attention["maps"][0]["shape"] == [3, 1, 50]
    assert attention["maps"][0]["queries"] is None


def test_the_picture_of_parts_has_their_colours(client):
    (shown,) = ask(client, SEVEN, method="parts")["maps"]
    colours = np.array(shown["values"])[:, 0, 1:].reshape(3, 7, 7)
    body = {"images": [text_of(SEVEN)], "attention": {"method": "parts", "format": "png", "opacity": 1, "width": 280}}
    found = client.post(f"{DIGITS}/attention", json=body)
    picture = np.asarray(Image.open(io.BytesIO(found.content)).convert("RGB")).astype(float)
    box = ask(client, SEVEN, method="parts")["image"]["box"]
    width = ask(client, SEVEN, method="parts")["image"]["width"]
    scale = 280 / width
    for row in range(1, 6):
        for column in range(1, 6):
            y = box["top"] + (row + 0.5) * (box["bottom"] - box["top"]) / 7
            x = box["left"] + (column + 0.5) * (box["right"] - box["left"]) / 7
            at = picture[int(y * scale), int(x * scale)]
            np.testing.assert_allclose(at, 255 * colours[:, row, column], atol=20)


# what is refused


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queries": [50]}, "queries: must be from -50 to 49, given 50"),
        (
            {"queries": "mean"},
            "queries: similar is of single tokens or patches; ask for all or for indices",
        ),
        (
            {"queries": "found"},
            "queries: found is of objects, and this kind of map has no rows of any; ask for all or for indices",
        ),
        ({"layers": [4]}, "layers: must be from -4 to 3, given 4"),
        ({"heads": [0]}, "heads: similar compares states, which have none, leave it out"),
        ({"against": {"text": "seven"}}, "against: must be image or id for similar, given text"),
        ({"against": {"label": "7"}}, "against: must be image or id for similar, given label"),
        ({"sides": "both"}, "sides: is for embeddings, explained by relevance, libra and integrated"),
        ({"evaluate": ["deletion"]}, "evaluate: is for what explains an answer; similar compares states"),
        ({"target": 7}, "target: is for relevance, libra and integrated, the other methods explain no class"),
        ({"method": "parts", "queries": [3]}, "queries: parts has 3 numbers of each patch, leave it out"),
        ({"method": "parts", "pool": 4}, "pool: parts has 3 numbers of each patch, leave it out"),
        ({"discard": 0.5}, "discard: is for rollout"),
    ],
)
@pytest.mark.parametrize("path", [DIGITS, DINO])
def test_what_it_does_not_take_is_refused(client, path, options, words):
    assert ask(client, SEVEN, path, status=422, **{"method": "similar", **options}) == words


def test_rows_behind_the_end_of_the_other_text_are_drawn_too(texts):
    asked = {"method": "similar", "format": "png", "queries": [7], "against": {"text": "Violin"}}
    answer = texts.post(f"{MINILM}/attention", json={"inputs": FIRST, "attention": asked})
    assert answer.status_code == 200, answer.text
    (shown,) = ask(texts, FIRST, MINILM, method="similar", queries=[7], against={"text": "Violin"})["against"]["maps"]
    assert (shown["shape"], shown["rows"]) == ([1, 1, 3], [7])


@pytest.mark.parametrize("text", ["", "a"])
def test_a_text_of_special_tokens_or_of_one_word_has_likenesses(texts, text):
    attention = ask(texts, text, MINILM, method="similar", against={"text": SECOND})
    assert np.isfinite(values(attention)).all()
    assert np.isfinite(values(attention["against"])).all()


def test_words_are_not_merged(texts):
    words = "merge: is for what explains an answer; similar compares states"
    assert ask(texts, FIRST, MINILM, status=422, method="similar", merge="words") == words


def test_texts_have_no_coloured_parts_and_no_images_beside_them(texts):
    refused = ask(texts, FIRST, MINILM, status=422, method="parts")
    assert refused.startswith("method parts: needs the patches of an image, and an encoder alone")
    words = "against: must be text or id for similar, given image"
    assert ask(texts, FIRST, MINILM, status=422, method="similar", against={"image": text_of(SEVEN)}) == words


def test_a_model_of_several_stacks_says_what_holds(client):
    refused = ask(client, "3/23/21", DATES, status=422, method="similar")
    assert refused == (
        "method similar: needs an encoder alone, whose tokens all see one another, not in windows; "
        "this model serves raw, rollout, norm, relevance, libra, integrated"
    )


def test_another_models_input_and_one_that_is_gone_are_not_found(client):
    other = client.post(f"{DINO}/embed", json={"images": [text_of(EIGHT)]}).json()["id"]
    for missing in (other, "0" * 32):
        refused = ask(client, SEVEN, status=404, method="similar", against={"id": missing})
        assert refused.startswith("against: id must be of a request to this model that was answered, at most")


def test_more_pictures_than_fit_are_refused(client):
    body = {"images": [text_of(SEVEN)], "attention": {"method": "similar", "format": "png", "layers": "all"}}
    answer = client.post(f"{DIGITS}/attention", content=json.dumps(body), headers=JSON)
    assert answer.status_code == 413
    assert answer.json()["detail"].startswith("png: at most 144 panels, given 200")
