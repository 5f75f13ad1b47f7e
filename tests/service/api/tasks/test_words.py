"""Weights of words are those of sentence-transformers' SparseEncoder, and each is explained as autograd says."""

import functools
import json
import warnings

import numpy as np
import pytest
import torch

from tests.samples import explanations_reference
from tests.samples.checkpoints import checkpoint_of, reference
from tests.samples.fidelity import close, weighed
from tests.samples.in_process import in_process
from tests.samples.many_scripts import LONG, fifty, with_tokenizer
from tests.samples.reference_texts import tokenizer_of

NAMES = ("bert-sparse", "distilbert-sparse")
ASKS = "bert-sparse/embed-sparse"
TEXT = "the old cat sat on a blue mat"


@pytest.fixture(scope="module")
def client(families, tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    for name in (*NAMES, "bert-features", "bert-mask"):
        (folder / name).symlink_to(families(name))
    with in_process(folder, max_text_bytes=100_000) as client:
        yield client


@pytest.fixture(scope="module")
def encoders(client, tmp_path_factory):
    """What returns the reference library's own encoder of a checkpoint, in float64."""
    from sentence_transformers import SparseEncoder

    @functools.cache
    def encoder(name):
        most = client.get(f"/v1/models/{name}").json()["inputs"]["max_tokens"]
        folder = tmp_path_factory.mktemp(name) / "saved"
        with_tokenizer(name, checkpoint_of(name), folder, most)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return SparseEncoder(str(folder), device="cpu").double()

    return encoder


def embedded(client, name, inputs, **options):
    answer = client.post(f"/v1/models/{name}/embed-sparse", json={"inputs": inputs, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def dense(words, width):
    found = np.zeros(width)
    found[[one["token"] for one in words]] = [one["weight"] for one in words]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_fifty_texts_have_the_weights_that_the_reference_library_gives(client, encoders, name):
    texts = fifty()
    assert len(texts) == 50
    wanted = encoders(name).encode(texts, convert_to_sparse_tensor=False).numpy()
    assert 0.05 < (wanted == 0).mean() < 0.95
    for text, weights, result in zip(texts, wanted, embedded(client, name, texts, truncate=True), strict=True):
        words = result["words"]
        close(dense(words, len(weights)), weights, text)
        assert {one["token"] for one in words} == set(np.flatnonzero(weights))
        assert [one["weight"] for one in words] == sorted((one["weight"] for one in words), reverse=True)
        decode = tokenizer_of(name).decode
        assert all(one["text"] == decode([one["token"]], skip_special_tokens=False) for one in words)


@pytest.mark.parametrize("name", NAMES)
def test_clients_of_tei_get_the_same_in_the_order_of_the_vocabulary(client, encoders, name):
    texts = [text for text in fifty() if text]
    sent = {"inputs": texts, "truncate": True, "truncation_direction": "Right"}
    found = client.post(f"/v1/models/{name}/tei/embed_sparse", json=sent).json()
    wanted = encoders(name).encode(texts, convert_to_sparse_tensor=False).numpy()
    for text, ours, weights in zip(texts, found, wanted, strict=True):
        assert [one["index"] for one in ours] == np.flatnonzero(weights).tolist(), text
        close(np.array([one["value"] for one in ours]), weights[weights != 0], text)
    one = client.post(f"/v1/models/{name}/tei/embed_sparse", json={"inputs": texts[0]}).json()
    assert [word["index"] for word in one[0]] == [word["index"] for word in found[0]]
    assert len(one) == 1
    assert client.get(f"/v1/models/{name}/tei/info").json()["model_type"] == {"embedding": {"pooling": "splade"}}


def test_a_prompt_of_the_model_stands_before_texts(client, encoders):
    wanted = encoders("bert-sparse").encode([TEXT], prompt_name="query", convert_to_sparse_tensor=False).numpy()
    plain = embedded(client, "bert-sparse", TEXT)[0]["words"]
    for asked in ({"prompt_name": "query"}, {"prompt": "one "}):
        (result,) = embedded(client, "bert-sparse", [TEXT], **asked)
        np.testing.assert_allclose(dense(result["words"], wanted.shape[1]), wanted[0], atol=1e-5)
        assert result["words"] != plain
    sent = {"inputs": TEXT, "prompt_name": "query"}
    (found,) = client.post("/v1/models/bert-sparse/tei/embed_sparse", json=sent).json()
    assert {one["index"]: one["value"] for one in found} == {one["token"]: one["weight"] for one in result["words"]}


def test_as_many_of_the_heaviest_words_are_answered_as_are_asked_for(client):
    (every,) = embedded(client, "bert-sparse", TEXT)
    (some,) = embedded(client, "bert-sparse", TEXT, top_k=3)
    assert some["words"] == every["words"][:3]


def test_tensors_hold_the_words_as_a_document(client):
    texts = ["the cat", TEXT]
    sent = {"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": texts}], "parameters": {"top_k": 4}}
    answer = client.post("/v2/models/bert-sparse/infer", json=sent)
    (words,) = answer.json()["outputs"]
    assert (words["name"], words["datatype"], words["shape"]) == ("words", "BYTES", [2, 1])
    wanted = [one["words"] for one in embedded(client, "bert-sparse", texts, top_k=4)]
    assert [json.loads(one) for one in words["data"]] == wanted


def explained(client, name, text=TEXT, options=None, **attention):
    body = {"inputs": text, "attention": {"digits": 9, **attention}, **(options or {})}
    answer = client.post(f"/v1/models/{name}/embed-sparse", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]["attention"]["maps"]


def seen(name):
    """Return what the reference library sees of the text in float64: its weights of words, and its maps."""
    tokens = torch.tensor([tokenizer_of(name).encode(TEXT).ids])
    out = reference(checkpoint_of(name))(tokens, output_attentions=True)
    return weighed(name, out.logits, np.ones(tokens.shape, bool))[0], out.attentions


@pytest.mark.parametrize("against", [None, "dog"])
@pytest.mark.parametrize("name", NAMES)
def test_relevance_of_a_word_is_that_of_its_weight_in_the_mean_of_all_tokens(client, name, against):
    weights, attentions = seen(name)
    heaviest = int(weights.argmax())
    index = {None: None, "dog": tokenizer_of(name).token_to_id("dog")}[against]
    score = weights[heaviest] if index is None else weights[heaviest] - weights[index]
    gradients = torch.autograd.grad(score, attentions)
    layers = [
        explanations_reference.positive(one.detach().numpy(), gradient.numpy())
        for one, gradient in zip(attentions, gradients, strict=True)
    ]
    joint = explanations_reference.relevance(layers)[0]
    wanted = (joint - np.eye(len(joint))).mean(0)
    named = {} if against is None else {"against": {"text": against}}
    word = tokenizer_of(name).decode([heaviest], skip_special_tokens=False)
    for target in ({}, {"target": heaviest}, {"target": word}):
        (shown,) = explained(client, name, method="relevance", **named, **target)
        assert shown["target"] == {"token": heaviest, "label": word}
        assert shown.get("against") == (None if index is None else {"token": index, "label": "dog"})
        np.testing.assert_allclose(shown["values"][0][0], wanted, atol=1e-5)
    assert np.abs(wanted).max() > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_shares_of_a_word_add_up_to_its_weight(client, name):
    (result,) = embedded(client, name, TEXT)
    heaviest, second = result["words"][:2]
    targets = [heaviest["token"], second["token"]]
    for one, word in zip(explained(client, name, method="libra", target=targets), (heaviest, second), strict=True):
        figures = one["conserved"]
        assert figures["score"] == pytest.approx(word["weight"], abs=1e-5)
        assert figures["tokens"] + figures["biases"] == pytest.approx(word["weight"], abs=1e-4)
        assert np.sum(one["values"]) == pytest.approx(figures["tokens"], abs=1e-4)
    (one,) = explained(client, name, method="integrated", baseline="zero", steps=256)
    figures = one["completeness"]
    assert figures["score"] == pytest.approx(heaviest["weight"], abs=1e-5)
    assert figures["relative_error"] < 0.1


def test_a_word_is_explained_of_an_earlier_request_too(client):
    body = {"inputs": TEXT, "prompt_name": "query", "attention": {"method": "libra", "digits": 9}}
    answer = client.post("/v1/models/bert-sparse/embed-sparse", json=body).json()
    (now,) = answer["results"][0]["attention"]["maps"]
    query = {"method": "libra", "digits": 9, "target": now["target"]["label"]}
    (later,) = client.get(f"/v1/attention/{answer['id']}", params=query).json()["results"][0]["attention"]["maps"]
    assert later == now


def test_an_evaluation_measures_the_weight_of_a_word(client):
    weights, _ = seen("bert-sparse")
    index = int(weights.argsort()[-2])
    attention = {"method": "libra", "target": index, "evaluate": "deletion"}
    body = {"inputs": TEXT, "attention": attention}
    shown = client.post("/v1/models/bert-sparse/attention", json=body).json()["results"][0]["attention"]["evaluation"]
    assert (shown["measure"], shown["target"]) == ("score", index)
    (curve,) = shown["curves"]
    assert curve["probabilities"][0] == pytest.approx(weights[index].item(), abs=1e-4)


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("bert-sparse/embed", {}, 404, "embed: this model's task is sparse-embedding; it serves embed-sparse, "),
        ("bert-features/embed-sparse", {}, 404, "embed-sparse: this model's task is feature-extraction; it serves "),
        ("bert-sparse/similarity", {}, 404, "similarity: this model's task is sparse-embedding; it serves "),
        (ASKS, {"top_k": 0}, 422, "top_k: Input should be greater than or equal to 1, given 0"),
        (ASKS, {"dimensions": 3}, 422, "options: unknown option"),
        (ASKS, {"prompt_name": "x"}, 422, "prompt_name: must be one of document, query, given"),
        (ASKS, {"inputs": LONG}, 422, "input: at most 40 tokens, given"),
        (ASKS, {"inputs": {"text": "a", "text_pair": "b"}}, 422, "text_pair: is for text-classif"),
        (ASKS, {"attention": {"target": 3}}, 422, "target: is for relevance, libra and integrated"),
        (ASKS, {"attention": {"method": "libra", "target": "xyzzy"}}, 422,
         "target: must be a text that is exactly one token of this model's answers, or from 0 to 129, given another"),
        (ASKS, {"attention": {"method": "libra", "target": 130}}, 422, "target: must be a text"),
        (ASKS, {"attention": {"method": "libra", "target": -1}}, 422, "target: must be a text"),
        (ASKS, {"attention": {"method": "libra", "target": ",".join("ab" * 200)}}, 422,
         "target: must be at most 256, given 400"),
        (ASKS, {"attention": {"method": "libra", "target": ["cat", "cat"]}}, 422, "target: each may"),
        (ASKS, {"attention": {"method": "libra", "target": {"entity": 0}}}, 422, "target: an entity"),
        (ASKS, {"attention": {"method": "libra", "target": "cat", "against": {"text": "cat"}}}, 422,
         "against: must be another word than the target"),
        (ASKS, {"attention": {"method": "libra", "against": {"text": "two words"}}}, 422,
         "against: must be a text that is exactly one token"),
        (ASKS, {"attention": {"method": "libra", "against": {"id": "x"}}}, 422,
         "against: must be token or text for sparse-embedding, given id"),
        ("bert-sparse", {}, 422, "inputs: no pipeline has weights of words; post texts to /v1/models/bert-sp"),
        ("bert-sparse/tei/embed", {}, 404, "embed: is not available for SPLADE models, this model's task is "),
        ("bert-sparse/tei", {}, 404, "embed: is not available for SPLADE models"),
        ("bert-sparse/tei/similarity", {}, 404, "similarity: is not available for SPLADE models"),
        ("bert-features/tei/embed_sparse", {}, 404, "embed_sparse: Model is not an embedding model with SPLADE "),
        ("bert-mask/tei/embed_sparse", {}, 404, "embed_sparse: Model is not an embedding model with SPLADE "),
        ("bert-sparse/tei/embed_sparse", {"inputs": [[1, 2]]}, 422, "inputs: must be texts; tokens of another"),
        ("bert-sparse/tei/embed_sparse", {"top_k": 2}, 422, "parameters: this model's task is sparse-embedding, whose"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_with_the_reason(client, path, body, status, said):
    answer = client.post(f"/v1/models/{path}", json={"inputs": TEXT, **body})
    assert answer.status_code == status, answer.text
    found = answer.json()
    assert found.get("detail", found.get("error")).startswith(said)


def test_words_that_are_too_many_together_are_refused(families, tmp_path):
    (tmp_path / "bert-sparse").symlink_to(families("bert-sparse"))
    with in_process(tmp_path, max_answer_bytes=8000) as client:
        assert embedded(client, "bert-sparse", TEXT)
        assert embedded(client, "bert-sparse", [TEXT] * 9, top_k=10)
        for path in ("embed-sparse", "tei/embed_sparse"):
            answer = client.post(f"/v1/models/bert-sparse/{path}", json={"inputs": [TEXT] * 9})
            assert answer.status_code == 413
            found = answer.json()
            assert found.get("detail", found.get("error")) == (
                "words: at most 8000 bytes an answer, this one would have more; ask for fewer top_k or inputs"
            )
