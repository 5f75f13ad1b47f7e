"""Labels of a request: chosen as by the pipeline of the reference library, and explained as the pairs are."""
# ruff: noqa: E501 # a row for each refusal

import json

import numpy as np
import pytest
from huggingface_hub import InferenceClient

from tests.samples.in_process import in_process
from tests.samples.many_scripts import LONG, fifty, with_tokenizer

NAMES = ("bert-nli", "roberta-nli", "bart-nli")
CLASSES = {"bert-nli": (2, 0), "roberta-nli": (0, 1), "bart-nli": (2, 0)}
"""Of entailment and contradiction."""
LABELS = ["red", "a cat", "not very good", "猫", "sky, high"]
TEMPLATE = "it is {}"


@pytest.fixture(scope="module")
def client(families, minilm, tmp_path_factory):
    folder = tmp_path_factory.mktemp("zero-shot")
    for name in (*NAMES, "bert"):
        (folder / name).symlink_to(families(name))
    (folder / "minilm").symlink_to(minilm / "minilm")
    with in_process(folder, max_text_bytes=100_000, max_inputs=600) as client:
        yield client


@pytest.fixture(scope="module")
def pipeline_of(checkpoints, client, tmp_path_factory):
    """What returns the pipeline of a checkpoint, in float64."""
    from transformers import ZeroShotClassificationPipeline

    from tests.samples.checkpoints import reference

    def load(name):
        folder = tmp_path_factory.mktemp("reference") / name
        most = client.get(f"/v1/models/{name}").json()["inputs"]["max_tokens"]
        tokenizer = with_tokenizer(name, checkpoints(name), folder, most)
        return ZeroShotClassificationPipeline(model=reference(folder), tokenizer=tokenizer, device="cpu")

    return load


def classify(client, name, inputs, **options):
    answer = client.post(f"/v1/models/{name}/classify", json={"inputs": inputs, "template": TEMPLATE, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_fifty_texts_have_the_labels_of_the_pipeline(client, pipeline_of, name, multi_label):
    texts = fifty()
    assert len(texts) == 50
    asked = {"labels": LABELS, "multi_label": multi_label, "truncate": True}
    found = classify(client, name, texts, **asked)
    pipeline = pipeline_of(name)
    for text, one in zip(texts, found, strict=True):
        if not text:  # which the pipeline refuses
            continue
        wanted = pipeline(text, LABELS, hypothesis_template=TEMPLATE, multi_label=multi_label)
        by_label = dict(zip(wanted["labels"], wanted["scores"], strict=True))
        scores = [label["probability"] for label in one["labels"]]
        np.testing.assert_allclose(scores, [by_label[label["label"]] for label in one["labels"]], atol=2e-6)
        assert scores == sorted(scores, reverse=True)
        assert sorted(label["index"] for label in one["labels"]) == list(range(5))
        assert all(LABELS[label["index"]] == label["label"] for label in one["labels"])
        assert one["hypothesis"] == TEMPLATE.replace("{}", one["labels"][0]["label"])
    spread = np.array([[label["probability"] for label in one["labels"]] for one in found])
    assert spread.std(axis=0).min() > 0.005
    assert (np.abs(spread.sum(axis=1) - 1) < 1e-9).all() != multi_label


@pytest.mark.parametrize("name", NAMES)
def test_one_label_is_held_against_contradiction(client, pipeline_of, name):
    (one,) = classify(client, name, "the old cat", labels=["red"], logits=True)
    wanted = pipeline_of(name)("the old cat", ["red"], hypothesis_template=TEMPLATE)
    assert one["labels"][0]["probability"] == pytest.approx(wanted["scores"][0], abs=2e-6)
    pair = {"text": "the old cat", "text_pair": "it is red"}
    answer = client.post(f"/v1/models/{name}/classify", json={"inputs": pair, "logits": True}).json()["results"][0]
    logits = {label["index"]: label["logit"] for label in answer["labels"]}
    assert one["labels"][0]["logit"] == pytest.approx(logits[CLASSES[name][0]], abs=1e-5)


def test_the_likeliest_labels_alone_are_answered_where_a_request_says_so(client):
    whole, few = (classify(client, "bert-nli", "a cat", labels=LABELS, **one)[0] for one in ({}, {"top_k": 2}))
    assert few["labels"] == whole["labels"][:2]
    many = [f"cat {number}" for number in range(256)]
    assert len(classify(client, "bert-nli", "a cat", labels=many)[0]["labels"]) == 256


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["libra", "relevance", "raw"])
@pytest.mark.parametrize("target", [None, "red"])
def test_entailment_of_a_label_is_explained_against_contradiction_beside_it_and_later(client, name, method, target):
    texts, options = ["é and ½", "the old dog sat"], {"method": method, "digits": 7}
    asked = options if target is None else {**options, "target": target}
    for text, one in zip(texts, classify(client, name, texts, labels=LABELS, attention=asked), strict=True):
        label = target or one["labels"][0]["label"]
        assert one["hypothesis"] == TEMPLATE.replace("{}", label)
        pair = {"text": text, "text_pair": one["hypothesis"]}
        entailment, contradiction = CLASSES[name]
        score = {} if method == "raw" else {"target": entailment, "against": {"index": contradiction}}
        body = {"inputs": pair, "attention": {**options, **score}}
        wanted = client.post(f"/v1/models/{name}/classify", json=body).json()["results"][0]["attention"]
        other = {"attention" if word == "method" else word: value for word, value in options.items()}
        later = [
            client.get(f"/v1/attention/{one['id']}", params=params).json()["results"][0]["attention"]
            for params in (options, other)
        ]
        for found in (one["attention"], *later):
            assert found["tokens"] == wanted["tokens"]
            assert found["maps"][0].get("target") == wanted["maps"][0].get("target")
            values = [np.array(each["maps"][0]["values"]) for each in (found, wanted)]
            np.testing.assert_allclose(*values, atol=1e-6)


def test_another_class_may_be_what_entailment_is_explained_against(client):
    asked = {"method": "libra", "digits": 7}
    values = [
        np.array(classify(client, "bert-nli", "a cat", labels=["red"], attention=one)[0]["attention"]["maps"][0]["values"])
        for one in (asked, {**asked, "against": {"label": "CONTRADICTION"}}, {**asked, "against": {"label": "NEUTRAL"}})
    ]  # fmt: skip
    np.testing.assert_allclose(values[0], values[1], atol=1e-6)
    assert np.abs(values[0] - values[2]).max() > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_cut_off_and_never_the_sentence_of_a_label(client, name):
    (one,) = classify(client, name, LONG, labels=["the old house"], truncate=True, attention="raw")
    tokens = one["attention"]["tokens"]["source"]
    assert len(tokens) == client.get(f"/v1/models/{name}").json()["inputs"]["max_tokens"]
    ends = [max(token["span"][1] for token in tokens if token.get("sequence") == number) for number in (0, 1)]
    assert 0 < ends[0] < len(LONG)
    assert ends[1] == len("it is the old house")
    assert client.get(f"/v1/attention/{one['id']}").json()["results"][0]["attention"]["tokens"]["source"] == tokens


@pytest.mark.parametrize("multi_label", [False, True])
def test_hugging_face_s_client_gets_the_same(client, multi_label):
    hub = InferenceClient(model=f"{client.base_url}/v1/models/bert-nli")
    found = hub.zero_shot_classification("the old cat", LABELS, hypothesis_template=TEMPLATE, multi_label=multi_label)
    (wanted,) = classify(client, "bert-nli", "the old cat", labels=LABELS, multi_label=multi_label)
    assert [(one.label, one.score) for one in found] == [
        (one["label"], one["probability"]) for one in wanted["labels"]
    ]  # fmt: skip
    parameters = {"candidate_labels": "red, a cat,", "hypothesis_template": TEMPLATE}
    both = client.post("/v1/models/bert-nli", json={"inputs": ["a", "b"], "parameters": parameters}).json()
    wanted = classify(client, "bert-nli", ["a", "b"], labels=["red", "a cat"])
    assert [[one["score"] for one in row] for row in both] == [
        [one["probability"] for one in row["labels"]] for row in wanted
    ]


@pytest.mark.parametrize("method", ["rollout", "norm", "libra"])
def test_the_probability_of_entailment_is_measured_by_every_method(client, method):
    asked = (
        {"method": method, "evaluate": "deletion", "layers": -1}
        if method == "norm"
        else {"method": method, "evaluate": "deletion"}
    )
    (one,) = classify(client, "bert-nli", "the old cat", labels=LABELS, attention=asked)
    assert one["attention"]["evaluation"]["target"] == CLASSES["bert-nli"][0]
    kept = {"attention": method, "evaluate": "deletion", **({"layers": -1} if method == "norm" else {})}
    later = client.get(f"/v1/attention/{one['id']}", params=kept)
    assert later.json()["results"][0]["attention"] == one["attention"]


def test_a_model_says_whether_it_takes_labels(client):
    found = {one["name"]: one.get("zero_shot") for one in client.get("/v1/models").json()["models"]}
    wanted = {name: dict(zip(("entailment", "contradiction"), own, strict=True)) for name, own in CLASSES.items()}
    assert found == {**wanted, "bert": None, "minilm": None}


REFUSED = "needs a text-classification with a label that begins with entail"


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("bert", {}, 422, f"labels: {REFUSED}"),
        ("minilm", {}, 404, "classify: this model's task is feature-extraction"),
        ("bert-nli", {"labels": None}, 422, "labels: must be given with template and multi_label, given none"),
        ("bert-nli", {"labels": []}, 422, "labels: List should have at least 1 item"),
        ("bert-nli", {"labels": ["a"] * 257}, 422, "labels: List should have at most 256 items"),
        ("bert-nli", {"labels": ["a", 3]}, 422, "labels: Input should be a valid string, given 3"),
        ("bert-nli", {"labels": ["a", "a"]}, 422, "labels: each may be given once, given one twice"),
        ("bert-nli", {"template": "it is"}, 422, "template: must hold {} once, given it 0 times"),
        ("bert-nli", {"template": "{} {}"}, 422, "template: must hold {} once, given it 2 times"),
        ("bert-nli", {"inputs": {"text": "a", "text_pair": "b"}}, 422, "inputs: must be a string or a list of strings where labels are given"),
        ("bert-nli", {"inputs": ["a"] * 301}, 422, "labels: at most 600 pairs of a text and a label, given 602"),
        ("bert-nli", {"inputs": "a " * 30_000}, 413, "labels: at most 100000 characters in pairs of a text and a label"),
        ("bert-nli", {"inputs": ["a", LONG]}, 422, "input: at most 40 tokens, given 161 (input 2 of 2)"),
        ("bert-nli", {"template": LONG + "{}", "truncate": True}, 422, "labels: must leave room for a text in 40 tokens, takes "),
        ("bert-nli", {"attention": {"method": "libra", "target": "x"}}, 422, "target: must be one of the labels of this request"),
        ("bert-nli", {"attention": {"method": "libra", "target": ["a", "b"]}}, 422, "target: must be one of the labels of this request"),
        ("bert-nli", {"attention": {"method": "libra", "target": {"a": 1}}}, 422, "target: must be one of the labels of this request"),
        ("bert-nli", {"attention": {"method": "libra", "against": {"index": 2}}}, 422, "against: must be another class than the target"),
        ("bert-nli", {"attention": 3}, 422, "method: Input should be "),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_chosen_from_are_refused_with_the_reason(client, name, body, status, said):
    answer = client.post(f"/v1/models/{name}/classify", json={"inputs": "a", "labels": ["a", "b"], **body})
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"].startswith(said)


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("bert", {"candidate_labels": ["a"]}, f"candidate_labels: {REFUSED}"),
        ("bert-nli", {"candidate_labels": 3}, "candidate_labels: Input should be a valid list, given 3"),
        ("bert-nli", {"candidate_labels": " , "}, "candidate_labels: List should have at least 1 item"),
        ("bert-nli", {"candidate_labels": "a,b", "hypothesis_template": "x"}, "hypothesis_template: must hold {} once"),
        ("bert-nli", {"candidate_labels": "a", "top_k": 1}, "parameters: this model's task is text-classification"),
        ("bert-nli", {"multi_label": True}, "parameters: this model's task is text-classification"),
        ("minilm", {"candidate_labels": "a"}, "parameters: this model's task is feature-extraction"),
    ],
)
def test_hugging_face_s_clients_are_told_what_is_wrong(client, name, parameters, said):
    answer = client.post(f"/v1/models/{name}", json={"inputs": "a", "parameters": parameters})
    assert answer.status_code == 422
    assert json.loads(answer.content)["error"].startswith(said)
