"""Entities are those of the reference library's pipeline, and each is explained as autograd says."""

import functools
import json
import warnings

import numpy as np
import pytest
import torch

from tests.samples import explanations_reference
from tests.samples.checkpoints import TAGS, checkpoint_of, reference
from tests.samples.in_process import in_process
from tests.samples.odd_texts import LONG, fifty
from tests.samples.reference_texts import tokenizer_of

NAMES = ("bert-tags", "roberta-tags", "xlm-roberta-tags", "distilbert-tags")
STRATEGIES = ("none", "simple", "first", "average", "max")
TEXT = "a good dog, not very high, and the old cat sat on a blue mat"


@pytest.fixture(scope="module")
def client(families, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tags")
    for name in (*NAMES, "bert"):
        (folder / name).symlink_to(families(name))
    with in_process(folder, max_text_bytes=100_000) as client:
        yield client


def reference_of(name):
    return reference(checkpoint_of(name))


@functools.cache
def pipeline_of(name, most):
    """Return the reference library's pipeline of a checkpoint, in float64."""
    from transformers import PreTrainedTokenizerFast, pipeline

    typed = ["token_type_ids"] if name == "bert-tags" else []
    unknown, pad = ("<unk>", "<pad>") if "roberta" in name else ("[UNK]", "[PAD]")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_of(name), unk_token=unknown, pad_token=pad, model_max_length=most,
        model_input_names=["input_ids", "attention_mask", *typed],
    )  # fmt: skip
    return pipeline("token-classification", model=reference_of(name), tokenizer=tokenizer, device="cpu")


def tag(client, name, inputs, **options):
    answer = client.post(f"/v1/models/{name}/tag", json={"inputs": inputs, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", NAMES)
def test_fifty_texts_have_the_entities_that_the_reference_library_finds(client, name, strategy):
    texts = fifty()
    assert len(texts) == 50
    most = client.get(f"/v1/models/{name}").json()["inputs"]["max_tokens"]
    ignored = ["O", "I-PER", "PER"] if name == "bert-tags" else ["O"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [pipeline_of(name, most)(text, aggregation_strategy=strategy, ignore_labels=ignored) for text in texts]
    found = tag(client, name, texts, aggregate=strategy, ignore=ignored, truncate=True)
    sent = {"aggregation_strategy": strategy, "ignore_labels": ignored, "truncate": True}
    posted = client.post(f"/v1/models/{name}", json={"inputs": texts, "parameters": sent}).json()
    kind = "entity" if strategy == "none" else "entity_group"
    for text, theirs, result, of_client in zip(texts, wanted, found, posted, strict=True):
        ours = result["entities"]
        assert [(one["label"], one["start"], one["end"]) for one in ours] == [
            (one[kind], one["start"], one["end"]) for one in theirs
        ]
        assert [one["text"] for one in ours] == [text[one["start"] : one["end"]] for one in ours]
        scores = [float(one.pop("score")) for one in theirs]
        assert [one["probability"] for one in ours] == pytest.approx(scores, abs=1e-5)
        assert [one.pop("score") for one in of_client] == pytest.approx(scores, abs=1e-5)
        assert of_client == theirs
    assert sum(len(one) for one in wanted) > 5
    if name != "xlm-roberta-tags":  # what pieces a unigram model learns differs from run to run
        assert len({one[kind] for own in wanted for one in own}) >= 2
        assert strategy == "none" or any(len(one["tokens"]) > 1 for result in found for one in result["entities"])


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
@pytest.mark.parametrize("name", NAMES[:2])
def test_long_texts_are_read_in_the_windows_of_the_reference_library(client, name, strategy):
    texts = [" ".join(fifty()[first : first + 8]) for first in range(0, 48, 8)]
    most = client.get(f"/v1/models/{name}").json()["inputs"]["max_tokens"]
    options = {"aggregation_strategy": strategy, "ignore_labels": ["O"], "stride": 5}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [pipeline_of(name, most)(text, **options) for text in texts]
    found = tag(client, name, texts, aggregate=strategy, overflow="window", stride=5)
    posted = client.post(f"/v1/models/{name}", json={"inputs": texts, "parameters": options}).json()
    for theirs, result, of_client in zip(wanted, found, posted, strict=True):
        assert [(one["label"], one["start"], one["end"]) for one in result["entities"]] == [
            (one["entity_group"], one["start"], one["end"]) for one in theirs
        ]
        scores = [float(one.pop("score")) for one in theirs]
        assert [one["probability"] for one in result["entities"]] == pytest.approx(scores, abs=1e-5)
        assert [one.pop("score") for one in of_client] == pytest.approx(scores, abs=1e-5)
        assert of_client == theirs
    assert sum(len(one) for one in wanted) > 5


LONG_TEXT = " ".join([TEXT] * 4)
WINDOWED = {"overflow": "window", "stride": 4}


@pytest.mark.parametrize("method", ["raw", "libra", "relevance"])
def test_an_entity_of_a_long_text_is_explained_in_its_window_beside_it_and_later(client, method):
    entities = tag(client, "bert-tags", LONG_TEXT, **WINDOWED)[0]["entities"]
    numbers = [None] if method == "raw" else [None, 0, len(entities) - 1]
    starts = set()
    for number in numbers:
        about = {} if number is None else {"target": number}
        body = {"inputs": [LONG_TEXT, TEXT], **WINDOWED, "attention": {"method": method, "digits": 7, **about}}
        body["inputs"] = body["inputs"] if number in (None, 0) else LONG_TEXT
        answer = client.post("/v1/models/bert-tags/tag", json=body).json()
        attention = answer["results"][0]["attention"]
        entity = entities[number if number is not None else surest(entities)]
        tokens = attention["tokens"]["source"]
        spans = [tokens[place]["span"] for place in entity["tokens"]]
        assert [spans[0][0], spans[-1][1]] == [entity["start"], entity["end"]]
        starts.add(tokens[1]["span"][0])
        if method != "raw":
            target = attention["maps"][0]["target"]
            assert target["entity"] == entities.index(entity)
            assert target["position"] == entity["tokens"][0]
        alone = client.post("/v1/models/bert-tags/attention", json=body).json()["results"][0]["attention"]
        later = client.get(
            f"/v1/attention/{answer['results'][0].get('id', answer['id'])}",
            params={"attention": method, "digits": 7, **about},
        )
        assert later.status_code == 200, later.text
        assert alone == attention == later.json()["results"][0]["attention"]
    assert method == "raw" or len(starts) > 1, "in windows of their own"


def surest(entities):
    return max(range(len(entities)), key=lambda number: entities[number]["probability"])


def test_a_long_text_without_an_entity_is_explained_where_the_likeliest_label_is(client):
    ignored = {one["label"] for one in tag(client, "bert-tags", LONG_TEXT, aggregate="none", **WINDOWED)[0]["entities"]}
    options = {**WINDOWED, "aggregate": "none", "ignore": ["O", *ignored], "attention": "libra"}
    (result,) = tag(client, "bert-tags", LONG_TEXT, **options)
    assert result["entities"] == []
    target = result["attention"]["maps"][0]["target"]
    assert "entity" not in target
    assert target["label"] in set(TAGS) - ignored


def test_entities_of_several_windows_are_explained_one_at_a_time(client):
    last = len(tag(client, "bert-tags", LONG_TEXT, **WINDOWED)[0]["entities"]) - 1
    body = {"inputs": LONG_TEXT, **WINDOWED, "attention": {"method": "libra", "target": [0, last]}}
    answer = client.post("/v1/models/bert-tags/tag", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("target: entities of several windows of a text are explained one at a ti")


def test_what_states_are_compared_with_is_read_whole(client):
    attention = {"method": "similar", "against": {"text": TEXT}}
    plain, windowed = (
        client.post("/v1/models/bert-tags/attention", json={"inputs": TEXT, **more, "attention": attention})
        for more in ({}, WINDOWED)
    )
    assert plain.status_code == windowed.status_code == 200
    assert plain.json()["results"] == windowed.json()["results"]
    attention["against"]["text"] = LONG_TEXT
    answer = client.post("/v1/models/bert-tags/attention", json={"inputs": TEXT, **WINDOWED, "attention": attention})
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith("(against)")
    pictures = [
        client.post("/v1/models/bert-tags/attention", json={"inputs": TEXT, **more, "attention": {
            "method": "similar", "against": {"text": "a cat"}, "format": "png"}}).content
        for more in ({}, WINDOWED)
    ]  # fmt: skip
    assert pictures[0] == pictures[1]


def test_windows_of_all_texts_are_bounded_together(client):
    body = {"inputs": ["a " * 290] * 150, "overflow": "window", "stride": 37}
    answer = client.post("/v1/models/bert-tags/tag", json=body)
    assert answer.status_code == 413
    assert "at most 100000 tokens in all windows; send fewer, or a smaller stride" in answer.json()["detail"]


def test_entities_of_many_texts_in_windows_are_explained_as_those_of_many_texts(client):
    attention = {"method": "libra", "evaluate": "compare", "target": 0}
    for more in ({}, WINDOWED):
        body = {"inputs": [TEXT] * 14, **more, "attention": attention}
        assert client.post("/v1/models/bert-tags/tag", json=body).status_code == 200, more


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"inputs": ""}, "input: must hold at least one token to be explained, given none"),
        ({"inputs": TEXT, "ignore": [*TAGS, "PER", "LOC"]}, "ignore: must leave a label to be explained, leaves none"),
    ],
)
def test_what_leaves_nothing_to_explain_is_said(client, body, said):
    answer = client.post("/v1/models/bert-tags/tag", json={**body, "attention": "libra"})
    assert answer.status_code == 422
    assert answer.json()["detail"] == said


@pytest.mark.parametrize("more", [{}, WINDOWED])
def test_the_input_without_such_an_entity_is_named(client, more):
    body = {"inputs": [TEXT, "the"], **more, "attention": {"method": "libra", "target": 1}}
    answer = client.post("/v1/models/bert-tags/tag", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("target: must be an entity of the text, of which there are ")
    assert answer.json()["detail"].endswith("(input 2 of 2)")


def test_windows_do_not_change_a_text_that_fits(client):
    plain, windowed = (tag(client, "bert-tags", TEXT, attention="libra", **more) for more in ({}, WINDOWED))
    assert [one["entities"] for one in plain] == [one["entities"] for one in windowed]
    assert plain[0]["attention"] == windowed[0]["attention"]


def test_the_tokens_of_an_entity_are_those_that_attention_has(client):
    for result in tag(client, "bert-tags", [TEXT, "Ünï the cat"], attention="raw", aggregate="first", ignore=[]):
        tokens = result["attention"]["tokens"]["source"]
        assert result["entities"]
        for entity in result["entities"]:
            spans = [tokens[place]["span"] for place in entity["tokens"]]
            assert [spans[0][0], spans[-1][1]] == [entity["start"], entity["end"]]


def explained(client, name, text=TEXT, options=None, **attention):
    body = {"inputs": text, "attention": {"digits": 9, **attention}, **(options or {})}
    answer = client.post(f"/v1/models/{name}/attention", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]["attention"]["maps"]


@pytest.mark.parametrize("name", NAMES)
def test_relevance_of_an_entity_is_that_of_its_label_at_its_first_token_less_that_of_none(client, name):
    entities = tag(client, name, TEXT)[0]["entities"]
    assert entities
    model = reference_of(name)
    out = model(torch.tensor([tokenizer_of(name).encode(TEXT).ids]), output_attentions=True)
    targets = [{"entity": number} for number in range(len(entities))]
    for number, shown in enumerate(explained(client, name, method="relevance", target=targets)):
        place = entities[number]["tokens"][0]
        index = int(out.logits[0, place].argmax())
        assert shown["target"] == {"entity": number, "position": place, "index": index, "label": TAGS[index]}
        assert shown["against"] == {"index": 0, "label": "O"}
        assert TAGS[index].split("-", 1)[-1] == entities[number]["label"]
        score = out.logits[0, place, index] - out.logits[0, place, 0]
        gradients = torch.autograd.grad(score, out.attentions, retain_graph=True)
        layers = [
            explanations_reference.positive(weights.detach().numpy(), gradient.numpy())
            for weights, gradient in zip(out.attentions, gradients, strict=True)
        ]
        joint = explanations_reference.relevance(layers)[0]
        np.testing.assert_allclose(shown["values"][0], joint[[place]], atol=1e-5)


@pytest.mark.parametrize("method", ["relevance", "libra", "integrated"])
def test_the_surest_entity_is_explained_by_default_and_each_as_it_is_alone(client, method):
    entities = tag(client, "bert-tags", TEXT)[0]["entities"]
    assert len(entities) > 1
    (surest,) = explained(client, "bert-tags", method=method)
    every = explained(client, "bert-tags", method=method, target=list(range(len(entities))))
    best = max(range(len(entities)), key=lambda number: entities[number]["probability"])
    assert surest["target"]["entity"] == best
    np.testing.assert_allclose(surest["values"], every[best]["values"], atol=1e-6)
    assert len({json.dumps(one["values"]) for one in every}) == len(every)


def test_what_is_conserved_is_the_difference_of_two_logits(client):
    answer = client.post("/v1/models/bert-tags/tag", json={"inputs": TEXT, "attention": "libra"}).json()
    target = answer["results"][0]["attention"]["maps"][0]["target"]
    logits = reference_of("bert-tags")(torch.tensor([tokenizer_of("bert-tags").encode(TEXT).ids])).logits[0].detach()
    own = logits[target["position"]]
    scores = {
        None: own[target["index"]],
        "O": own[target["index"]] - own[0],
        "I-LOC": own[target["index"]] - own[TAGS.index("I-LOC")],
    }
    for label, wanted in scores.items():
        against = None if label is None else {"label": label}
        (one,) = explained(client, "bert-tags", method="libra", target=target["entity"], against=against)
        assert one["conserved"]["score"] == pytest.approx(float(wanted), abs=1e-4)
        assert ("against" in one) is (label is not None)
    params = {"method": "libra", "target": json.dumps({"entity": target["entity"]}), "digits": 9}
    later = client.get(f"/v1/attention/{answer['id']}", params=params).json()["results"][0]["attention"]["maps"][0]
    assert later["conserved"]["score"] == pytest.approx(float(scores["O"]), abs=1e-4)
    params |= {"aggregate": "none", "ignore": "", "target": 0}
    later = client.get(f"/v1/attention/{answer['id']}", params=params).json()["results"][0]["attention"]["maps"][0]
    assert later["target"]["position"] == 1  # behind [CLS], every token is an entity
    assert "against" not in later


def test_where_no_entity_is_found_the_likeliest_label_is_explained(client):
    found = tag(client, "bert-tags", "the", aggregate="none", ignore=[])[0]["entities"]
    options = {"aggregate": "none", "ignore": [one["label"] for one in found]}
    assert tag(client, "bert-tags", "the", **options)[0]["entities"] == []
    (one,) = explained(client, "bert-tags", "the", options, method="libra", against=None)
    logits = reference_of("bert-tags")(torch.tensor([tokenizer_of("bert-tags").encode("the").ids])).logits[0, 1:-1]
    chances = logits.softmax(-1).detach().numpy()
    chances[:, [TAGS.index(label) for label in options["ignore"]]] = 0
    place, index = np.unravel_index(chances.argmax(), chances.shape)
    assert one["target"] == {"position": 1 + place, "index": index, "label": TAGS[index]}


def test_an_evaluation_measures_the_probability_of_the_label(client):
    entities = tag(client, "bert-tags", TEXT)[0]["entities"]
    body = {"inputs": TEXT, "attention": {"method": "libra", "target": 0, "evaluate": "compare"}}
    shown = client.post("/v1/models/bert-tags/attention", json=body).json()["results"][0]["attention"]["evaluation"]
    assert shown["entity"] == 0
    assert shown["position"] == entities[0]["tokens"][0]
    assert {"relevance", "libra", "integrated", "random"} <= {one["method"] for one in shown["compare"]}
    for curves in shown["compare"]:
        assert curves["deletion"]["probabilities"][0] == pytest.approx(entities[0]["probability"], abs=0.4)
    alone = {"inputs": TEXT, "aggregate": "none", "attention": {"method": "libra", "target": 0, "evaluate": "deletion"}}
    shown = client.post("/v1/models/bert-tags/attention", json=alone).json()["results"][0]["attention"]["evaluation"]
    first = tag(client, "bert-tags", TEXT, aggregate="none")[0]["entities"][0]
    assert shown["curves"][0]["probabilities"][0] == pytest.approx(first["probability"], abs=1e-4)


def test_tensors_hold_the_entities_and_the_probabilities_of_every_token(client):
    texts = ["the cat", TEXT]
    body = {"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": texts}]}
    entities, chances = client.post("/v2/models/bert-tags/infer", json=body).json()["outputs"]
    assert [json.loads(one) for one in entities["data"]] == [one["entities"] for one in tag(client, "bert-tags", texts)]
    array = np.array(chances["data"]).reshape(chances["shape"])
    for row, text in zip(array, texts, strict=True):
        ids = tokenizer_of("bert-tags").encode(text).ids
        wanted = reference_of("bert-tags")(torch.tensor([ids])).logits[0].softmax(-1).detach().numpy()
        np.testing.assert_allclose(row[: len(ids)], wanted, atol=1e-5)
        assert (row[len(ids) :] == 0).all()


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("bert/tag", {}, 404, "tag: this model's task is text-classification; it serves classify, attention"),
        ("bert-tags/classify", {}, 404, "classify: this model's task is token-classification; it serves"),
        ("bert-tags/tag", {"inputs": {"text": "a", "text_pair": "b"}}, 422, "text_pair: is for text-classification"),
        ("bert-tags/tag", {"aggregate": "mean"}, 422, "aggregate: Input should be 'none', 'simple', 'first'"),
        ("bert-tags/tag", {"ignore": [1]}, 422, "ignore: must be at most 256 labels"),
        ("bert-tags/tag", {"ignore": ["a"] * 257}, 422, "ignore: must be at most 256 labels"),
        ("bert-tags/tag", {"top_k": 2}, 422, "options: unknown option"),
        ("bert-tags/tag", {"inputs": [LONG]}, 422, "input: at most 40 tokens, given"),
        ("bert-tags/tag", {"attention": {"target": 0}}, 422, "target: is for relevance"),
        ("bert-tags/tag", {"attention": {"method": "libra", "target": {"entity": 99}}}, 422, "target: must be an"),
        ("bert-tags/tag", {"attention": {"method": "libra", "target": {"entity": -1}}}, 422, "target: must be 1 "),
        ("bert-tags/tag", {"attention": {"method": "libra", "target": {"token": 1}}}, 422, "target: must be 1 to 256"),
        ("bert-tags/tag", {"attention": {"method": "libra", "target": "PER"}}, 422, "target: must be numbers"),
        ("bert-tags/tag", {"attention": {"method": "libra", "target": -1}}, 422, "target: must be numbers of entities"),
        ("bert-tags/tag", {"attention": {"method": "libra", "queries": 1}}, 422, "queries: are the targets' own"),
        ("bert-tags/tag", {"attention": {"method": "libra", "against": {"text": "a"}}}, 422, "against: must be label"),
        ("bert-tags/tag", {"attention": {"method": "libra", "against": {"label": "PER"}}}, 422, "against: must be a"),
        ("bert/classify", {"attention": {"method": "libra", "target": {"entity": 0}}}, 422, "target: an entity is of"),
        ("bert-tags/tei/predict", {}, 404, "predict: is for text-classification, this model's task is token-classific"),
        ("bert-tags/tei/embed", {}, 404, "embed: is for feature-extraction, this model's task is token-classification"),
        ("bert-tags", {"parameters": {"stride": 8, "aggregation_strategy": "none"}}, 422, "stride: needs another agg"),
        ("bert-tags", {"parameters": {"stride": 8, "truncate": True}}, 422, "overflow: texts are read in windows, or"),
        ("bert-tags/tag", {**WINDOWED, "attention": {"method": "libra", "target": 99}}, 422, "target: must be an ent"),
        ("bert-tags", {"parameters": {"aggregation_strategy": "mean"}}, 422, "aggregation_strategy: Input should be"),
        ("bert-tags", {"parameters": {"top_k": 1}}, 422, "parameters: this model's task is token-classification"),
    ],
)  # fmt: skip
def test_what_cannot_be_tagged_is_refused_with_the_reason(client, path, body, status, said):
    answer = client.post(f"/v1/models/{path}", json={"inputs": TEXT, **body})
    assert answer.status_code == status, answer.text
    found = answer.json()
    assert found.get("detail", found.get("error")).startswith(said)


def test_an_entity_is_not_explained_against_its_own_label(client):
    label = explained(client, "bert-tags", method="libra", target=0)[0]["target"]["label"]
    body = {"inputs": TEXT, "attention": {"method": "libra", "target": 0, "against": {"label": label}}}
    answer = client.post("/v1/models/bert-tags/attention", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"] == "against: must be another label than the entity's, given the same"


def test_a_class_is_for_one_answer_an_input(client):
    outputs = [{"name": "probabilities", "parameters": {"classification": 2}}]
    sent = {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [TEXT]}], "outputs": outputs}
    answer = client.post("/v2/models/bert-tags/infer", json=sent)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("classification: is for one class an input, a tagger has one")


def test_entities_that_are_too_large_together_are_refused(families, tmp_path):
    (tmp_path / "bert-tags").symlink_to(families("bert-tags"))
    with in_process(tmp_path, max_answer_bytes=2000) as client:
        answer = client.post("/v1/models/bert-tags/tag", json={"inputs": TEXT})
    assert answer.status_code == 413
    assert answer.json()["detail"].startswith("entities: at most 2000 bytes an answer, this one may have ")
