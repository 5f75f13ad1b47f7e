"""What makes two embeddings alike, over HTTP: against another text or image, or the input of an earlier request."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from service.options.base import MOST_OPTION_CHARACTERS
from tests.conftest import ROOT
from tests.samples.api_keys import EVERY_SCOPE, bearer, line
from tests.samples.http_requests import SEVEN
from tests.samples.images import encoded
from tests.samples.in_process import in_process

EIGHT, FOUR = ((ROOT / "tests/data/digits" / name).read_bytes() for name in ("eight-scan.png", "four.webp"))
DINO, MINILM = "/v1/models/digits-dino", "/v1/models/minilm"
METHODS = ("relevance", "libra", "integrated")
FIRST, SECOND = "The violin is on the table.", "She bought a violin."


def text_of(image):
    return base64.b64encode(image).decode()


@pytest.fixture(scope="module")
def folder(dino, artifacts, tmp_path_factory):
    """Artifacts of two models that take the same images: only one of them embeds."""
    both = tmp_path_factory.mktemp("both")
    (both / "digits-dino").symlink_to(dino / "digits-dino")
    (both / "digits").symlink_to(artifacts / "digits")
    return both


@pytest.fixture(scope="module")
def client(folder):
    with in_process(folder) as client:
        yield client


@pytest.fixture(scope="module")
def texts(minilm):
    with in_process(minilm) as client:
        yield client


def ask(client, given, path=f"{DINO}/attention", *, status=200, **attention):
    """Explain images or texts; return the attention of each, or the words of a refusal."""
    given = given if isinstance(given, list) else [given]
    inputs = {"inputs": given} if isinstance(given[0], str) else {"images": [text_of(one) for one in given]}
    answer = client.post(path, json={**inputs, "attention": {"digits": 9, **attention}})
    assert answer.status_code == status, answer.text
    return [one["attention"] for one in answer.json()["results"]] if status == 200 else answer.json()["detail"]


def similar(client, other, image=SEVEN, **attention):
    return ask(client, image, against={"image": text_of(other)}, **attention)[0]


def vectors(client, *images):
    body = {"images": [text_of(image) for image in images]}
    return [np.array(one["embedding"]) for one in client.post(f"{DINO}/embed", json=body).json()["results"]]


def cosine(one, other):
    return one @ other / np.linalg.norm(one) / np.linalg.norm(other)


def values(attention):
    return np.array(attention["maps"][0]["values"])[0, 0]


# what an answer says


def test_libra_adds_up_to_the_cosine(client):
    attention = similar(client, EIGHT, method="libra")
    (shown,) = attention["maps"]
    conserved = shown["conserved"]
    assert conserved["score"] == pytest.approx(cosine(*vectors(client, SEVEN, EIGHT)), abs=1e-5)
    assert conserved["tokens"] + conserved["biases"] == pytest.approx(conserved["score"], abs=1e-5)
    assert values(attention).sum() == pytest.approx(conserved["tokens"], abs=1e-6)
    assert (shown["shape"], shown["signed"], shown["heads"]) == ([1, 1, 50], True, "sum")
    assert attention["against"] == {"kind": "image"}
    assert "target" not in shown
    assert abs(values(attention) - values(similar(client, FOUR, method="libra"))).max() > 1e-3


def test_integrated_gradients_add_up_to_what_the_cosine_is_more_than_that_of_an_empty_picture(client):
    attention = similar(client, EIGHT, method="integrated", steps=32)
    (shown,) = attention["maps"]
    found = shown["completeness"]
    assert found["score"] == pytest.approx(cosine(*vectors(client, SEVEN, EIGHT)), abs=1e-5)
    assert found["tokens"] == pytest.approx(found["score"] - found["baseline"], abs=1e-2)
    assert found["tokens"] > 0.1
    assert (shown["steps"], shown["baseline"]) == (32, "empty")


@pytest.mark.parametrize("options", [{"method": "libra"}, {"method": "integrated", "steps": 8}])
def test_against_two_the_map_is_that_of_the_first_less_that_of_the_second(client, options):
    both = ask(client, SEVEN, against=[{"image": text_of(EIGHT)}, {"image": text_of(FOUR)}], **options)[0]
    first, second = (similar(client, one, **options) for one in (EIGHT, FOUR))
    np.testing.assert_allclose(values(both), values(first) - values(second), atol=2e-6)
    seven, eight, four = vectors(client, SEVEN, EIGHT, FOUR)
    figures = both["maps"][0]["conserved" if options["method"] == "libra" else "completeness"]
    assert figures["score"] == pytest.approx(cosine(seven, eight) - cosine(seven, four), abs=1e-5)
    assert both["against"] == {"kind": "image", "than": {"kind": "image"}}


def test_two_others_may_be_named_by_id_and_in_a_query(client):
    body = {"images": [text_of(one) for one in (SEVEN, EIGHT, FOUR)]}
    answered = client.post(f"{DINO}/embed", json=body).json()["id"]
    against = json.dumps([{"id": f"{answered}.1"}, {"id": f"{answered}.2"}])
    found = client.get(f"/v1/attention/{answered}.0", params={"method": "libra", "against": against, "digits": 9})
    direct = ask(client, SEVEN, method="libra", against=[{"image": text_of(EIGHT)}, {"image": text_of(FOUR)}])[0]
    np.testing.assert_allclose(values(found.json()["results"][0]["attention"]), values(direct), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "relevance"}, "against: two inputs are for libra and integrated of embeddings, give one"),
        ({"method": "similar"}, "against: two inputs are for libra and integrated of embeddings, give one"),
        ({"method": "libra", "sides": "both"}, "sides: is of the likeness to one input, given two in against"),
        (
            {"method": "libra", "evaluate": "deletion"},
            "evaluate: is of the likeness to one input, given two in against",
        ),
    ],
)
def test_two_others_are_refused_where_no_difference_is_explained(client, options, words):
    against = [{"image": text_of(EIGHT)}, {"image": text_of(FOUR)}]
    assert ask(client, SEVEN, status=422, against=against, **options) == words


def test_the_second_of_two_others_is_what_the_model_takes(client):
    against = [{"image": text_of(EIGHT)}, {"text": "four"}]
    refused = ask(client, SEVEN, status=422, method="libra", against=against)
    assert refused == "against: must be image or id for feature-extraction, given text"
    refused = ask(client, SEVEN, status=422, method="libra", against=[{"image": text_of(EIGHT)}] * 3)
    assert "or a list of two" in refused


def test_libra_may_begin_at_a_later_layer(client):
    attention = similar(client, EIGHT, method="libra", layers="all")
    assert [shown["layer"] for shown in attention["maps"]] == [0, 1, 2, 3]
    for shown in attention["maps"]:
        conserved = shown["conserved"]
        assert conserved["tokens"] + conserved["biases"] == pytest.approx(conserved["score"], abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_an_image_against_itself_is_the_same_from_both_sides(client, method):
    attention = similar(client, SEVEN, method=method, sides="both")
    opposite = attention["against"]
    assert opposite.pop("kind") == "image"
    assert opposite["maps"][0].keys() == attention["maps"][0].keys()
    assert values(opposite) == pytest.approx(values(attention), abs=1e-6)
    if method == "libra":
        assert attention["maps"][0]["conserved"]["score"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_both_sides_are_those_of_two_requests(client, method):
    both = similar(client, EIGHT, method=method, sides="both")
    own, opposite = similar(client, EIGHT, method=method), similar(client, SEVEN, EIGHT, method=method)
    assert values(both) == pytest.approx(values(own), abs=1e-6)
    assert values(both["against"]) == pytest.approx(values(opposite), abs=1e-6)
    assert both["against"]["image"] == opposite["image"] != both["image"]
    assert both["against"]["tokens"] == opposite["tokens"]
    assert abs(values(both) - values(both["against"])).max() > 1e-3


def test_several_images_are_explained_by_the_same_one(client):
    found = ask(client, [SEVEN, FOUR], method="libra", against={"image": text_of(EIGHT)}, sides="both")
    for attention, image in zip(found, (SEVEN, FOUR), strict=True):
        alone = similar(client, EIGHT, image, method="libra", sides="both")
        assert values(attention) == pytest.approx(values(alone), abs=1e-6)
        assert values(attention["against"]) == pytest.approx(values(alone["against"]), abs=1e-6)


def test_an_embedding_comes_with_its_explanation(client):
    body = {"images": [text_of(SEVEN)], "attention": {"method": "libra", "against": {"image": text_of(EIGHT)}}}
    (result,) = client.post(f"{DINO}/embed", json=body).json()["results"]
    assert result["embedding"] == pytest.approx(vectors(client, SEVEN)[0].tolist(), abs=1e-6)
    score = result["attention"]["maps"][0]["conserved"]["score"]
    assert score == pytest.approx(cosine(*vectors(client, SEVEN, EIGHT)), abs=1e-6)


# forms


def test_npz_holds_both_sides(client):
    shown = similar(client, EIGHT, method="libra", sides="both")
    body = {"images": [text_of(SEVEN)], "method": "libra", "against": {"image": text_of(EIGHT)}, "sides": "both"}
    answer = client.post(f"{DINO}/attention", json={**body, "format": "npz"})
    arrays = np.load(io.BytesIO(answer.content))
    meta = json.loads(bytes(arrays["meta"]))["results"][0]["attention"]
    assert meta["against"]["kind"] == "image"
    for own, attention in ((meta, shown), (meta["against"], shown["against"])):
        assert arrays[own["maps"][0]["array"]][0, 0] == pytest.approx(values(attention), abs=1e-6)


def test_a_query_names_the_other_as_json(client):
    sent = client.post(f"{DINO}/embed", content=EIGHT, headers={"Content-Type": "image/png"}).json()["id"]
    asked = {"method": "libra", "against": json.dumps({"id": sent}), "digits": 9}
    answer = client.post(f"{DINO}/attention", content=SEVEN, headers={"Content-Type": "image/png"}, params=asked)
    attention = answer.json()["results"][0]["attention"]
    assert attention["against"] == {"kind": "id"}
    assert values(attention) == pytest.approx(values(similar(client, EIGHT, method="libra")), abs=1e-6)
    small = encoded(Image.open(io.BytesIO(EIGHT)).convert("L").resize((64, 64)))
    asked["against"] = json.dumps({"image": text_of(small)})
    answer = client.post(f"{DINO}/attention", files={"image": SEVEN}, data=asked)
    attention = answer.json()["results"][0]["attention"]
    assert attention["against"] == {"kind": "image"}
    assert values(attention) == pytest.approx(values(similar(client, small, method="libra")), abs=1e-6)


def test_each_answer_of_a_batch_has_an_id_that_names_its_own_input(client):
    images = [FOUR, EIGHT, SEVEN]
    batch = client.post(f"{DINO}/embed", json={"images": [text_of(one) for one in images]}).json()
    ids = [result["id"] for result in batch["results"]]
    assert ids == [f"{batch['id']}.{number}" for number in range(3)]
    asked = {"method": "libra", "digits": 9}
    for one, own in zip(images, ids, strict=True):
        (found,) = ask(client, SEVEN, **asked, against={"id": own})
        assert np.allclose(values(found), values(similar(client, one, **asked)), atol=1e-8)
        stored = client.get(f"/v1/attention/{own}", params={"method": "raw", "digits": 9}).json()
        assert len(stored["results"]) == 1
        (seen,) = ask(client, one, method="raw", digits=9)
        assert np.allclose(values(stored["results"][0]["attention"]), values(seen), atol=1e-8)
    assert len(client.get(f"/v1/attention/{batch['id']}").json()["results"]) == 3


def test_the_id_of_a_request_with_several_inputs_is_against_nothing(client):
    batch = client.post(f"{DINO}/embed", json={"images": [text_of(SEVEN), text_of(FOUR)]}).json()["id"]
    said = ask(client, SEVEN, status=422, method="libra", against={"id": batch})
    assert said == "against: id must be of one input, given a request of 2; ID.0 is that of the first"
    for wrong in (f"{batch}.2", f"{batch}.00", f"{batch}.0.0", f"{batch}."):
        assert ask(client, SEVEN, status=404, method="libra", against={"id": wrong}) == GONE
        assert client.get(f"/v1/attention/{wrong}").status_code == 404


def test_attention_by_id_is_against_another_id(client):
    one, other = (
        client.post(f"{DINO}/embed", json={"images": [text_of(first), text_of(FOUR)]}).json()["id"]
        for first in (SEVEN, EIGHT)
    )
    asked = {"method": "libra", "against": json.dumps({"id": f"{other}.0"}), "sides": "both", "digits": 9}
    own, _ = client.get(f"/v1/attention/{one}", params=asked).json()["results"]
    both = similar(client, EIGHT, method="libra", sides="both")
    assert values(own["attention"]) == pytest.approx(values(both), abs=1e-6)
    assert values(own["attention"]["against"]) == pytest.approx(values(both["against"]), abs=1e-6)
    sent = client.post(f"{DINO}/embed", content=SEVEN, headers={"Content-Type": "image/png"}).json()["id"]
    del asked["sides"], asked["digits"]
    drawn = client.get(f"/v1/attention/{sent}", params={**asked, "format": "png"})
    assert drawn.headers["Content-Type"] == "image/png"
    assert Image.open(io.BytesIO(drawn.content)).size[0] > 100


@pytest.mark.parametrize("where", ["beside", "inside"])
def test_the_other_image_may_be_larger_than_any_other_option(client, where):
    other = text_of((ROOT / "tests/data/digits/three-photo.jpg").read_bytes())
    assert len(other) > MOST_OPTION_CHARACTERS
    options = {"method": "libra", "against": {"image": other}}
    body = options if where == "beside" else {"attention": options}
    answer = client.post(f"{DINO}/attention", json={"images": [text_of(SEVEN)], **body})
    assert answer.status_code == 200, answer.text
    refused = client.post(f"{DINO}/attention", files={"image": SEVEN}, data={**options, "against": json.dumps(options)})
    assert refused.status_code == 400


# refusals


ONE_OF = (
    "against: must be an object with one of label, index, token, text, image, id, "
    'such as {"label": "7"}, or a list of two'
)
NONE_GIVEN = (
    "against: libra explains what makes two embeddings alike, so it must be image or id of another input, given none"
)
NO_BASE64 = "against: image must be base64 or a data: URL of it; addresses are not fetched"
GONE = "against: id must be of a request to this model that was answered, at most 600 seconds ago, given another"
REFUSED = {
    "none": ({}, 422, NONE_GIVEN),
    "two": ({"against": {"image": text_of(EIGHT), "id": "x"}}, 422, ONE_OF),
    "an empty object": ({"against": {}}, 422, ONE_OF),
    "a bare string": ({"against": "x"}, 422, ONE_OF),
    "a list": ({"against": [text_of(EIGHT)]}, 422, ONE_OF),
    "a number": ({"against": {"image": 3}}, 422, ONE_OF),
    "an unknown name": ({"against": {"url": "https://x"}}, 422, ONE_OF),
    "a text": ({"against": {"text": "x"}}, 422, "against: must be image or id for feature-extraction, given text"),
    "a class": ({"against": {"index": 3}}, 422, "against: must be image or id for feature-extraction, given index"),
    "an address": ({"against": {"image": "https://example.com/seven.png"}}, 400, NO_BASE64),
    "padded within": ({"against": {"image": "AAA=AAAA"}}, 400, NO_BASE64),
    "no bytes": ({"against": {"image": ""}}, 400, "image: must hold at least one byte, given none"),
    "no image": ({"against": {"image": "AAAA"}}, 415, "image: must be"),
    "an unknown id": ({"against": {"id": "x"}}, 404, GONE),
    "no id at all": ({"against": {"id": "../x y"}}, 404, GONE),
    "an empty id": ({"against": {"id": ""}}, 404, GONE),
    "a method without a score": (
        {"method": "rollout", "against": {"image": text_of(EIGHT)}}, 422,
        "against: is for relevance, libra and integrated, the other methods explain no class",
    ),
    "another's sides": ({"method": "raw", "sides": "both"}, 422, "sides: is for embeddings"),
    "a picture of both sides": (
        {"against": {"image": text_of(EIGHT)}, "sides": "both", "format": "png"}, 422, "sides: has no effect on png",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "status", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_other_input_is_refused_in_words(client, asked, status, words):
    assert ask(client, SEVEN, status=status, **{"method": "libra", **asked}).startswith(words)


def test_an_id_of_another_model_is_refused(client):
    sent = client.post("/v1/models/digits/classify", content=SEVEN, headers={"Content-Type": "image/png"}).json()["id"]
    assert client.get(f"/v1/attention/{sent}").status_code == 200
    assert ask(client, SEVEN, status=404, method="libra", against={"id": sent}) == GONE


def test_a_class_is_not_explained_by_another_input(client):
    path = "/v1/models/digits/attention"
    words = ask(client, SEVEN, path, status=422, method="libra", against={"image": text_of(EIGHT)})
    assert words == "against: must be label or index for image-classification, given image"
    words = ask(client, SEVEN, path, status=422, method="libra", sides="both")
    assert words.startswith("sides: is for embeddings")


def test_an_id_obeys_its_key(folder, tmp_path):
    file = tmp_path / "keys"
    file.write_text(line("a", name="alice") + line("b", EVERY_SCOPE, "bob"))
    with in_process(folder, api_keys=file) as client:
        sent = client.post(f"{DINO}/embed", json={"images": [text_of(EIGHT)]}, headers=bearer("a")).json()["id"]
        body = {"images": [text_of(SEVEN)], "method": "libra", "against": {"id": sent}}
        assert client.post(f"{DINO}/attention", json=body, headers=bearer("a")).status_code == 200
        theirs = client.post(f"{DINO}/attention", json=body, headers=bearer("b"))
        body["against"] = {"id": "x"}
        unknown = client.post(f"{DINO}/attention", json=body, headers=bearer("b"))
        assert theirs.status_code == unknown.status_code == 404
        assert theirs.content == unknown.content


def test_the_other_image_has_the_limits_of_any_image(folder):
    with in_process(folder, max_image_bytes=len(SEVEN), max_image_pixels=300 * 220, keep_seconds=0.001) as client:
        large = encoded(Image.new("L", (301, 220)))
        assert len(large) < len(SEVEN)
        words = ask(client, SEVEN, status=413, method="libra", against={"image": text_of(large)})
        assert words == "image: at most 66000 pixels, given 301 x 220 (against)"
        words = ask(client, SEVEN, status=413, method="libra", against={"image": text_of(SEVEN + b"xyz")})
        assert words == f"image: at most {len(SEVEN)} bytes, given {len(SEVEN) + 3}"
        sent = client.post(f"{DINO}/embed", json={"images": [text_of(SEVEN)]}).json()["id"]
        assert "0.001 seconds ago" in ask(client, SEVEN, status=404, method="libra", against={"id": sent})


# texts


def test_the_word_that_two_sentences_share_is_the_hottest_of_both(texts):
    for method in METHODS:
        (attention,) = ask(
            texts, FIRST, f"{MINILM}/attention", method=method, against={"text": SECOND}, sides="both", merge="words"
        )
        opposite = attention["against"]
        assert opposite["kind"] == "text"
        for side in (attention, opposite):
            words = side["tokens"]["source"]
            assert words[int(values(side).argmax())]["text"].strip(".") == "violin", method
        assert len(values(attention)) != len(values(opposite))


def test_tokens_carry_the_cosine_of_two_texts(texts):
    (attention,) = ask(texts, FIRST, f"{MINILM}/attention", method="libra", against={"text": SECOND})
    body = {"inputs": [FIRST, SECOND]}
    one, other = (np.array(one["embedding"]) for one in texts.post(f"{MINILM}/embed", json=body).json()["results"])
    conserved = attention["maps"][0]["conserved"]
    assert conserved["score"] == pytest.approx(cosine(one, other), abs=1e-5)
    assert conserved["tokens"] + conserved["biases"] == pytest.approx(conserved["score"], abs=1e-4)


def test_texts_of_other_lengths_are_explained_each_for_itself(texts):
    both = ask(texts, [FIRST, "Violin!"], f"{MINILM}/attention", method="libra", against={"text": SECOND})
    for attention, given in zip(both, (FIRST, "Violin!"), strict=True):
        (alone,) = ask(texts, given, f"{MINILM}/attention", method="libra", against={"text": SECOND})
        assert values(attention) == pytest.approx(values(alone), abs=1e-5)


def test_a_text_that_is_too_long_is_cut_off_where_that_is_asked_for_or_was(texts):
    long = "violin " * 300
    path = f"{MINILM}/attention"
    words = ask(texts, FIRST, path, status=422, method="libra", against={"text": long})
    assert words == "input: at most 256 tokens, given 302 (against)"
    body = {"inputs": FIRST, "truncate": True, "method": "libra", "against": {"text": long}, "digits": 9}
    (cut,) = texts.post(path, json=body).json()["results"]
    sent = texts.post(f"{MINILM}/embed", json={"inputs": long, "truncate": True}).json()["id"]
    (by_id,) = ask(texts, FIRST, path, method="libra", against={"id": sent})
    assert values(by_id) == pytest.approx(values(cut["attention"]), abs=1e-6)


def test_an_image_is_no_text(texts):
    path = f"{MINILM}/attention"
    words = ask(texts, FIRST, path, status=422, method="libra", against={"image": text_of(SEVEN)})
    assert words == "against: must be text or id for feature-extraction, given image"
    words = ask(texts, FIRST, path, status=422, method="relevance", queries="all", against=SECOND)
    assert words == ONE_OF
