"""Two towers, served as a pair: what a client gets is what the reference library computes, and never of two pairs."""
# ruff: noqa: E501 # a table reads by its rows

import base64
import io
import json
import shutil
import threading

import numpy as np
import pytest
import torch
from regard import connect

from service.repository.loading.load import load
from service.settings import Settings
from tests.samples import explanations_reference
from tests.samples.checkpoints import EXPORTED, artifact_of, checkpoint_of, reference
from tests.samples.documented import Documented
from tests.samples.http_requests import results
from tests.samples.in_process import in_process
from tests.samples.reference_images import photograph, processed
from tests.samples.reference_texts import tokenizer_of
from tests.samples.towers import Tower

pytestmark = pytest.mark.families
PAIRS = [name for name in ("clip", "siglip") if name in EXPORTED]
"""Those of this run; what is of no pair in particular is asked of a CLIP, which is dear for no run."""
LABELS = ["cat", "old house", "bird"]
TEMPLATE = "the {} is not bad"
TOLERANCE = 1e-5


def encoded(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


PICTURES = [photograph(), photograph().rotate(180)]
SENT = [encoded(picture) for picture in PICTURES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("pairs")
    for name in PAIRS:
        for own in (name, f"{name}-text"):
            shutil.copytree(artifact_of(name).parent / own, made / own)
    return made


@pytest.fixture(scope="module")
def client(folder):
    with in_process(folder) as client:
        yield client


def post(client, name, endpoint, **body):
    return results(client.post(f"/v1/models/{name}/{endpoint}", json=body))


def tokens(name, text):
    """Return the tokens of a text; those of a SigLIP are filled with padding."""
    ids = tokenizer_of(f"{name}-text").encode(text).ids
    return ids + [2] * (28 - len(ids)) if name == "siglip" else ids


@torch.no_grad()
def wanted(name, pictures, texts):
    """Return the reference library's own scores (picture, text)."""
    pixels = torch.tensor(np.concatenate([processed(name, one) for one in pictures]), dtype=torch.float64)
    model = reference(checkpoint_of(name))
    return torch.cat([model(input_ids=torch.tensor([tokens(name, text)]), pixel_values=pixels).logits_per_image
                      for text in texts], 1)  # fmt: skip


# Answers


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("asked", ["", "-text"], ids=["the picture's", "the text's"])
def test_labels_of_a_request_are_those_of_the_reference_library(client, name, asked):
    """Whichever of the two is asked."""
    logits = wanted(name, PICTURES, [TEMPLATE.replace("{}", label) for label in LABELS])
    chances = logits.softmax(-1) if name == "clip" else logits.sigmoid()
    found = post(client, name + asked, "classify", images=SENT, labels=LABELS, template=TEMPLATE, logits=True)
    for result, own, scores in zip(found, chances.numpy(), logits.numpy(), strict=True):
        order = np.argsort(-own)
        assert [one["index"] for one in result["labels"]] == order.tolist()
        assert [one["label"] for one in result["labels"]] == [LABELS[index] for index in order]
        for label in result["labels"]:
            assert label["probability"] == pytest.approx(own[label["index"]], abs=TOLERANCE)
            assert label["logit"] == pytest.approx(scores[label["index"]], rel=TOLERANCE, abs=TOLERANCE)
        assert result["hypothesis"] == TEMPLATE.replace("{}", LABELS[order[0]])


@pytest.mark.parametrize("name", PAIRS)
def test_clients_of_hugging_face_are_answered_alike(client, name):
    parameters = {"candidate_labels": ",".join(LABELS), "hypothesis_template": TEMPLATE}
    theirs = client.post(f"/v1/models/{name}", json={"inputs": SENT[0], "parameters": parameters}).json()
    (ours,) = post(client, name, "classify", images=SENT[:1], labels=LABELS, template=TEMPLATE)
    assert theirs == [{"label": one["label"], "score": one["probability"]} for one in ours["labels"]]


def test_a_form_names_labels_between_commas(client):
    files = {"image": ("one.png", base64.b64decode(SENT[0]), "image/png")}
    asked = {"labels": ", ".join(LABELS), "template": TEMPLATE}
    (ours,) = results(client.post("/v1/models/clip/classify", files=files, data=asked))
    assert (
        ours["labels"]
        == post(client, "clip", "classify", images=SENT[:1], labels=LABELS, template=TEMPLATE)[0]["labels"]
    )


@pytest.mark.parametrize("name", PAIRS)
@torch.no_grad()
def test_pictures_and_texts_are_embedded_by_either_name(client, name):
    model = reference(checkpoint_of(name))
    pixels = torch.tensor(processed(name, PICTURES[0]), dtype=torch.float64)
    vectors = {
        "images": Tower(model, "vision")(pixels).pooler_output[0].numpy(),
        "inputs": Tower(model, "text")(torch.tensor([tokens(name, "the old house")])).pooler_output[0].numpy(),
    }
    for asked in (name, f"{name}-text"):
        for field, given in (("images", SENT[0]), ("inputs", "the old house")):
            (found,) = post(client, asked, "embed", **{field: [given]})
            assert (
                np.abs(np.array(found["embedding"]) - vectors[field]).max() < TOLERANCE * np.abs(vectors[field]).max()
            )
            openai = {"model": asked, "input": [given], "modality": {"images": "image", "inputs": "text"}[field]}
            (found,) = client.post("/v1/embeddings", json=openai).json()["data"]
            assert np.abs(np.array(found["embedding"]) - vectors[field]).max() < 1e-4
        (tei,) = client.post(
            f"/v1/models/{asked}/tei/embed", json={"inputs": "the old house", "normalize": False}
        ).json()
        assert np.abs(np.array(tei) - vectors["inputs"]).max() < 1e-4


@pytest.mark.parametrize("name", PAIRS)
def test_likeness_is_the_cosine_across(client, name):
    described = client.get(f"/v1/models/{name}").json()["contrast"]
    logits = wanted(name, PICTURES, LABELS).numpy()
    cosines = (logits - described["bias"]) / described["scale"]
    found = post(client, name, "similarity", source=LABELS, images=SENT)
    assert np.abs(np.array([one["similarity"] for one in found]) - cosines).max() < TOLERANCE
    found = post(client, name, "similarity", source={"image": SENT[1]}, inputs=LABELS)
    assert np.abs(np.array([one["similarity"] for one in found]) - cosines[1]).max() < TOLERANCE
    (one,) = post(client, name, "similarity", source=LABELS[0], images=SENT[:1], attention={"method": "libra"})
    assert one["attention"]["maps"][0]["conserved"]["score"] == pytest.approx(one["similarity"], abs=1e-5)


# Explanations


def relevance_of(name, picture, text):
    """Return which patches say a text, and which tokens say the picture, by autograd."""
    model = reference(checkpoint_of(name))
    towers = Tower(model, "vision"), Tower(model, "text")
    given = torch.tensor(processed(name, picture), dtype=torch.float64), torch.tensor([tokens(name, text)])
    seen = [tower(one, output_attentions=True) for tower, one in zip(towers, given, strict=True)]
    one, other = (out.pooler_output / out.pooler_output.norm() for out in seen)
    cosine, found = (one * other).sum(), []
    for tower, out in zip(towers, seen, strict=True):
        layers = [*out.attentions, *tower.pooled]
        gradients = torch.autograd.grad(cosine, layers, retain_graph=True)
        parts = [
            explanations_reference.positive(layer.detach().numpy(), gradient.numpy())
            for layer, gradient in zip(layers, gradients, strict=True)
        ]
        joint = explanations_reference.relevance(parts[: len(out.attentions)])[0]
        found.append(parts[-1][0] @ joint if tower.pooled else joint)
    picture, words = found
    return picture[0], words[-1], cosine.item()


@pytest.mark.parametrize("name", PAIRS)
def test_relevance_of_a_label_is_the_reference_library_s_on_both_sides(client, name):
    look = {"method": "relevance", "target": "old house", "sides": "both", "digits": 9}
    asked = {"images": SENT, "labels": LABELS, "template": TEMPLATE}
    for picture, found in zip(PICTURES, post(client, name, "classify", **asked, attention=look), strict=True):
        patches, words, _ = relevance_of(name, picture, TEMPLATE.replace("{}", "old house"))
        attention = found["attention"]
        assert np.abs(np.array(attention["maps"][0]["values"])[0, 0] - patches).max() < TOLERANCE
        opposite = attention["against"]
        assert opposite["kind"] == "text"
        assert np.abs(np.array(opposite["maps"][0]["values"])[0, 0] - words).max() < TOLERANCE
        assert found["hypothesis"] == TEMPLATE.replace("{}", "old house")
        assert "".join(one["text"] for one in opposite["tokens"]["source"] if not one["special"]).strip()


@pytest.mark.parametrize("name", PAIRS)
def test_what_says_a_label_rather_than_another_adds_up_to_the_difference(client, name):
    described = client.get(f"/v1/models/{name}").json()["contrast"]
    asked = {"images": SENT, "labels": LABELS, "logits": True}
    for method, figures in (("libra", "conserved"), ("integrated", "completeness")):
        look = {"method": method, "target": "cat", "against": {"label": "bird"}}
        for found in post(client, name, "classify", **asked, attention=look):
            logits = {one["label"]: one["logit"] for one in found["labels"]}
            difference = (logits["cat"] - logits["bird"]) / described["scale"]
            shown = found["attention"]["maps"][0][figures]
            assert shown["score"] == pytest.approx(difference, abs=1e-5)
            rest = shown["biases"] if method == "libra" else shown["baseline"] - shown["error"]
            assert shown["tokens"] + rest == pytest.approx(difference, abs=1e-5)


def test_a_raw_picture_and_a_form_have_the_options_of_attention_beside_the_method(client):
    look = {"target": "cat", "digits": 3, "against": {"label": "bird"}}
    asked = {"labels": LABELS, "attention": {"method": "libra", **look}}
    (wanted,) = post(client, "clip", "classify", images=SENT[:1], **asked)
    beside = {"labels": ",".join(LABELS), "attention": "libra", **look, "against": json.dumps(look["against"])}
    path, picture = "/v1/models/clip/classify", base64.b64decode(SENT[0])
    sent = client.post(path, params=beside, content=picture, headers={"Content-Type": "image/png"})
    form = client.post(path, data=beside, files={"image": picture})
    for answer in (sent, form):
        assert results(answer)[0]["attention"]["maps"] == wanted["attention"]["maps"]
    beside["against"] = "nothing"
    refused = client.post(path, params=beside, content=picture, headers={"Content-Type": "image/png"})
    assert refused.status_code == 422
    assert "against: must be an object" in refused.text


def test_each_picture_is_explained_by_its_own_best_label_unless_one_is_named(client):
    found = post(
        client, "clip", "classify", images=SENT * 2, labels=[*LABELS, "dog", "mat"], attention={"method": "libra"}
    )
    alone = [
        post(client, "clip", "classify", images=[one], labels=[*LABELS, "dog", "mat"], attention="libra")[0]
        for one in SENT
    ]
    for result, single in zip(found, alone * 2, strict=True):
        assert result["hypothesis"] == f"This is a photo of {result['labels'][0]['label']}." == single["hypothesis"]
        assert result["attention"]["maps"][0]["conserved"] == pytest.approx(
            single["attention"]["maps"][0]["conserved"], abs=1e-6
        )


@pytest.mark.parametrize("name", PAIRS)
def test_each_kind_of_attention_has_maps_of_its_own(client, name):
    """A SigLIP's pool is one of them: one query looks at nine patches."""
    kinds = list(client.get(f"/v1/models/{name}").json()["attention"]["kinds"])
    assert kinds == ["encoder", "pool"][: 1 + (name == "siglip")]
    for kind in kinds:
        (found,) = post(client, name, "attention", images=SENT[:1], attention={"method": "raw", "kind": kind})
        (shown,) = found["attention"]["maps"]
        pool = ("pool.attention", "pool", [1, 9])
        assert kind == "encoder" or (shown["name"], shown["kind"], shown["shape"][-2:]) == pool
        assert np.array(shown["values"]).sum(-1) == pytest.approx(1, abs=1e-4)


def test_our_client_takes_pictures_and_texts_by_either_name(client):
    with connect(str(client.base_url)) as service:
        for name in ("clip", "clip-text"):
            model = service[name]
            found = model.classify(PICTURES[0], labels=LABELS, template=TEMPLATE)
            (wire,) = post(client, "clip", "classify", images=SENT[:1], labels=LABELS, template=TEMPLATE)
            assert [one.label for one in found.labels] == [one["label"] for one in wire["labels"]]
            assert found.labels[0].probability == pytest.approx(wire["labels"][0]["probability"])
            vectors = [one.vector for one in model.embed_batch([PICTURES[0], "cat", PICTURES[1]])]
            units = np.array([one / np.linalg.norm(one) for one in vectors])
            (across,) = model.similarity("cat", [PICTURES[0]])
            assert across.similarity == pytest.approx(units[0] @ units[1], abs=1e-5)
            (back,) = model.similarity([PICTURES[0], PICTURES[1]], ["cat"])
            np.testing.assert_allclose(back.similarity, units[[0, 2]] @ units[1], atol=1e-5)
            look = model.attention(PICTURES[0], method="libra", against="cat").attention
            assert look.maps[0].values.shape[-1] == 10
            said = model.attention("cat", method="relevance", against=PICTURES[0])
            assert said.look("libra", against=PICTURES[1]).maps


@pytest.mark.parametrize("name", PAIRS)
def test_answers_have_the_fields_that_the_openapi_document_names(client, name):
    documented = Documented(client)
    documented.check(client.get(f"/v1/models/{name}"))
    for endpoint, body in (
        ("classify", {"images": SENT, "labels": LABELS, "attention": {"method": "libra", "sides": "both"}}),
        ("similarity", {"source": LABELS, "images": SENT}),
        ("similarity", {"source": {"image": SENT[0]}, "inputs": LABELS, "attention": {"method": "libra"}}),
        ("embed", {"images": SENT}),
        ("embed", {"inputs": LABELS}),
    ):
        documented.check(client.post(f"/v1/models/{name}/{endpoint}", json=body))


# Refusals


@pytest.mark.parametrize(
    ("endpoint", "body", "status", "words"),
    [
        ("classify", {"images": SENT}, 422, "labels: must be given"),
        ("classify", {"inputs": ["a"], "labels": LABELS}, 422, "images: must be given to be classified by labels, given texts"),
        ("classify", {"images": SENT, "inputs": ["a"], "labels": LABELS}, 422, "inputs: must be texts, or images be given in place of them"),
        ("classify", {"images": SENT, "labels": [str(one) for one in range(257)]}, 422, "labels: List should have at most 256 items"),
        ("classify", {"images": SENT, "labels": []}, 422, "labels: List should have at least 1 item"),
        ("classify", {"images": SENT, "labels": ["cat", "cat"]}, 422, "labels: each may be given once"),
        ("classify", {"images": SENT, "labels": ["cat " * 90]}, 422, "labels: at most 40 tokens, given"),
        ("classify", {"images": SENT, "labels": ["x" * 60000]}, 413, "labels: at most 40 tokens, given 60020 characters"),
        ("classify", {"images": SENT, "labels": LABELS, "template": "a photo"}, 422, "template: must hold {} once"),
        ("classify", {"images": SENT, "labels": LABELS, "attention": {"method": "libra", "target": "dog"}}, 422, "target: must be one of the labels of this request, given another"),
        ("classify", {"images": SENT, "labels": LABELS, "attention": {"method": "libra", "against": {"label": "dog"}}}, 422, "against: must be one of the labels of this request"),
        ("attention", {"images": SENT, "attention": {"method": "similar", "against": {"text": "a"}}}, 422, "against: must be image or id for similar, given text"),
        ("similarity", {"source": [LABELS[0], {"image": SENT[0]}], "images": SENT}, 422, 'source: must be a text or {"image": base64}'),
        ("similarity", {"source": LABELS, "images": SENT, "attention": "libra"}, 422, "attention: explains the likeness to one source, given 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_in_words(client, endpoint, body, status, words):
    answer = client.post(f"/v1/models/clip/{endpoint}", json=body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]


# Pairs


OLD, NEW = {"clip": "1", "clip-text": "1"}, {"clip": "2", "clip-text": "2"}


def another(folder, name, version, pair="f" * 64):
    """Write another version of a model, of another pair."""
    made = shutil.copytree(folder / name / "1", folder / name / version)
    manifest = json.loads((made / "manifest.json").read_text())
    manifest["version"] = version
    manifest["contrast"]["pair"] = pair
    (made / "manifest.json").write_text(json.dumps(manifest))
    return made


@pytest.fixture
def copied(folder, tmp_path):
    for name in ("clip", "clip-text"):
        shutil.copytree(folder / name, tmp_path / name)
    return tmp_path


BIAS = -1.5


def test_scores_are_sigmoids_with_a_bias_where_the_manifests_say_so(copied):
    """As those of a SigLIP, each label for itself."""
    for name in OLD:
        manifest = json.loads((path := copied / name / "1/manifest.json").read_text())
        manifest["contrast"] |= {"scores": "sigmoid", "bias": BIAS}
        path.write_text(json.dumps(manifest))
    chances = (wanted("clip", PICTURES, [TEMPLATE.replace("{}", label) for label in LABELS]) + BIAS).sigmoid()
    with in_process(copied) as client:
        found = post(client, "clip", "classify", images=SENT, labels=LABELS, template=TEMPLATE)
    for result, own in zip(found, chances.numpy(), strict=True):
        assert [one["index"] for one in result["labels"]] == np.argsort(-own).tolist()
        assert [one["probability"] for one in result["labels"]] == pytest.approx(np.sort(own)[::-1], abs=TOLERANCE)


def versions(client):
    return {one["name"]: one["version"] for one in client.get("/v1/models").json()["models"]}


def reloaded(client):
    return {
        one["model"]: (one["outcome"], one.get("reason")) for one in client.admin.post("/admin/reload").json()["models"]
    }


def refused(partner):
    return "refused", f"manifest.json: its partner {partner} must be the one that was exported with it, and is another"


def test_a_pair_is_replaced_as_a_pair_or_not_at_all(copied):
    with in_process(copied, admin_port=0) as client:
        found, done = set(), threading.Event()

        def ask():
            while not done.is_set():
                models = versions(client)
                answer = client.post("/v1/models/clip/classify", json={"images": SENT[:1], "labels": LABELS})
                found.add((models["clip"], models["clip-text"]))
                assert answer.status_code == 200

        asking = threading.Thread(target=ask)
        asking.start()
        another(copied, "clip", "2")
        outcome = reloaded(client)
        assert outcome["clip"] == refused("clip-text")
        assert outcome["clip-text"][0] == "unchanged"
        assert versions(client) == OLD
        another(copied, "clip-text", "2")
        assert {name: one[0] for name, one in reloaded(client).items()} == dict.fromkeys(OLD, "replaced")
        assert versions(client) == NEW
        another(copied, "clip-text", "3", "e" * 64)
        outcome = reloaded(client)
        assert (outcome["clip"][0], outcome["clip-text"]) == ("unchanged", refused("clip"))
        assert versions(client) == NEW
        done.set()
        asking.join()
        assert found <= {("1", "1"), ("2", "2")}
        shutil.rmtree(copied / "clip")
        outcome = reloaded(client)
        assert outcome["clip"][0] == "removed"
        assert versions(client) == {}


def test_one_of_a_pair_is_unloaded_and_loaded_with_the_other(copied):
    with in_process(copied, admin_port=0) as client:
        for one, other in (("clip", "clip-text"), ("clip-text", "clip")):
            assert client.admin.post(f"/v2/repository/models/{one}/unload").status_code == 200
            assert versions(client) == {}
            assert client.admin.post(f"/v2/repository/models/{other}/load").status_code == 200
            assert versions(client) == OLD
            asked = {"images": SENT[:1], "labels": LABELS}
            assert client.post("/v1/models/clip/classify", json=asked).status_code == 200


def test_a_start_serves_the_newest_pair_that_is_whole(copied):
    another(copied, "clip", "2")
    loaded = load(Settings(artifacts=copied))
    assert {name: one.manifest.version for name, one in loaded.items()} == OLD
    assert loaded["clip"].partner is loaded["clip-text"]
    assert loaded["clip-text"].partner is loaded["clip"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: shutil.rmtree(folder / "clip-text"), "its partner clip-text must be there too, and is not"),
        (lambda folder: shutil.rmtree(folder / "clip"), "its partner clip must be there too, and is not"),
        (
            lambda folder: (shutil.rmtree((made := another(folder, "clip", "2")).parent / "1"), made),
            "its partner clip-text must be the one that was exported with it, and is another",
        ),
    ],
    ids=["no texts", "no pictures", "another"],
)
def test_a_partner_that_is_missing_or_another_is_refused_at_the_start(copied, spoil, words):
    spoil(copied)
    with pytest.raises(ExceptionGroup) as refused:
        load(Settings(artifacts=copied))
    assert any(words in str(one) for one in refused.value.exceptions)
