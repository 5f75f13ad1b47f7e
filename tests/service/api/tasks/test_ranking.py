"""Texts are ranked as by sentence-transformers, and each is explained as its pair is."""
# ruff: noqa: E501 # a refusal is a line

import shutil
import warnings

import numpy as np
import pytest

from tests.samples.in_process import in_process
from tests.samples.odd_texts import LONG, ODD, fifty

NAMES = ("bert-rank", "roberta-rank")
QUERY = "the old cat"


@pytest.fixture(scope="module")
def client(families, minilm, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranking")
    for name in (*NAMES, "bert", "roberta"):
        (folder / name).symlink_to(families(name))
    (folder / "minilm").symlink_to(minilm / "minilm")
    with in_process(folder, max_text_bytes=100_000) as client:
        yield client


@pytest.fixture(scope="module")
def encoder_of(checkpoints, client, tmp_path_factory):
    """What returns the cross-encoder of a checkpoint, in float64."""
    import torch
    from sentence_transformers import CrossEncoder
    from transformers import PreTrainedTokenizerFast

    from tests.samples.reference_texts import tokenizer_of

    def load(name):
        folder = tmp_path_factory.mktemp("reference") / name
        shutil.copytree(checkpoints(name), folder)
        most = client.get(f"/v1/models/{name}").json()["inputs"]["max_tokens"]
        pad = {"bert-rank": "[PAD]", "roberta-rank": "<pad>"}[name]
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer_of(name), pad_token=pad, model_max_length=most,
            model_input_names=["input_ids", "attention_mask", *(["token_type_ids"] if name == "bert-rank" else [])],
        ).save_pretrained(folder)  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return CrossEncoder(str(folder), device="cpu", model_kwargs={"dtype": torch.float64})

    return load


def rerank(client, name, texts, query=QUERY, **options):
    answer = client.post(f"/v1/models/{name}/rerank", json={"query": query, "texts": texts, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


@pytest.mark.parametrize("name", NAMES)
def test_fifty_texts_are_ranked_as_by_the_reference_library(client, encoder_of, name):
    texts = fifty()
    assert len(texts) == 50
    wanted = encoder_of(name).predict([(QUERY, text) for text in texts])
    found = rerank(client, name, texts, truncate=True)
    scores = np.array([one["score"] for one in found])
    order = [one["index"] for one in found]
    assert sorted(order) == list(range(50))
    np.testing.assert_allclose(scores, wanted[order], atol=1e-5)
    assert scores.std() > 0.03
    gaps = wanted[order][:-1] - wanted[order][1:]
    assert gaps.min() > -1e-5  # best first, as far as float32 tells
    assert ODD[0] == ODD[23]
    assert order.index(23) > order.index(0)  # equals by index
    assert found[order.index(23)]["score"] == found[order.index(0)]["score"]
    raw = rerank(client, name, texts, truncate=True, raw_scores=True)
    as_logits = {one["index"]: one["score"] for one in raw}
    if name == "bert-rank":
        np.testing.assert_allclose([1 / (1 + np.exp(-as_logits[index])) for index in order], scores, atol=1e-9)
    else:
        assert [as_logits[index] for index in order] == scores.tolist()
    assert [one["index"] for one in raw] == order


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["libra", "relevance", "rollout"])
def test_a_text_is_explained_as_its_pair_is(client, name, method):
    texts = ["é and ½", "a red bird", "the old dog"]
    asked = {"method": method, "digits": 7}
    best, second = rerank(client, name, texts, attention=asked, top_k=2, return_texts=True)
    for answered in (best, second):
        check_explained(client, name, asked, texts, answered)


def check_explained(client, name, asked, texts, one):
    """Hold an explained text against what `classify` says of its pair, and what is said of it later."""
    assert one["text"] == texts[one["index"]]
    pair = {"text": QUERY, "text_pair": one["text"]}
    alone = client.post(f"/v1/models/{name}/classify", json={"inputs": pair, "attention": asked}).json()["results"]
    tokens, wanted = one["attention"]["tokens"], alone[0]["attention"]
    assert tokens == wanted["tokens"]
    assert {token.get("sequence") for token in tokens["source"]} == {None, 0, 1}
    values = [np.array(found["maps"][0]["values"]) for found in (one["attention"], wanted)]
    np.testing.assert_allclose(*values, atol=1e-6)
    later = client.get(f"/v1/attention/{one['id']}", params=asked).json()["results"][0]["attention"]
    assert later["tokens"] == tokens
    np.testing.assert_allclose(later["maps"][0]["values"], values[0], atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["libra", "relevance", "integrated"])
def test_a_text_is_explained_against_another_one(client, name, method):
    asked, texts, other = {"method": method, "digits": 7}, ["a red bird", "the old dog", "é and ½"], "a new house"
    body = {"query": QUERY, "texts": texts, "attention": {**asked, "against": {"text": other}}, "raw_scores": True}
    answer = client.post(f"/v1/models/{name}/rerank", json=body).json()
    plain = {one["index"]: one for one in rerank(client, name, [*texts, other], attention=asked, raw_scores=True)}
    theirs = plain[3]["attention"]
    assert answer["against"]["attention"] == theirs
    assert answer["against"]["score"] == pytest.approx(plain[3]["score"], abs=1e-6)
    assert [one["index"] for one in answer["results"]] == [index for index in plain if index < 3]
    for ranked in answer["results"]:
        own, tokens = plain[ranked["index"]]["attention"], ranked["attention"]["tokens"]["source"]
        assert tokens == own["tokens"]["source"]
        query = [place for place, token in enumerate(tokens) if token.get("sequence") == 0]
        assert "".join(tokens[place]["text"] for place in query).strip("Ġ")
        wanted, of_other = (np.array(of["maps"][0]["values"]) for of in (own, theirs))
        wanted[..., query] -= of_other[..., query]
        assert np.abs(of_other[..., query]).max() > 1e-3
        np.testing.assert_allclose(ranked["attention"]["maps"][0]["values"], wanted, atol=1e-6)


def test_one_text_has_the_answer_s_own_id(client):
    answer = client.post("/v1/models/bert-rank/rerank", json={"query": QUERY, "texts": ["a dog"]}).json()
    assert answer["results"][0].keys() == {"id", "index", "score"}
    assert answer["results"][0]["id"] == answer["id"]
    assert client.get(f"/v1/attention/{answer['id']}").status_code == 200


@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_cut_off_and_never_the_query_also_when_it_is_asked_about_later(client, name):
    query = "the old house and the new mat"
    (one,) = rerank(client, name, [LONG], query, truncate=True, attention="raw")
    most = client.get(f"/v1/models/{name}").json()["inputs"]["max_tokens"]
    tokens = one["attention"]["tokens"]["source"]
    assert len(tokens) == most
    ends = [max(token["span"][1] for token in tokens if token.get("sequence") == number) for number in (0, 1)]
    assert ends[0] == len(query)
    assert 0 < ends[1] < len(LONG)
    assert client.get(f"/v1/attention/{one['id']}").json()["results"][0]["attention"]["tokens"]["source"] == tokens


@pytest.mark.parametrize("name", NAMES)
def test_of_a_long_text_in_windows_the_best_one_counts(client, encoder_of, name):
    import torch

    texts = [f"{odd} {LONG} {odd} {LONG}" for odd in ODD] + list(ODD)
    encoder = encoder_of(name)
    most = encoder.tokenizer.model_max_length
    found = rerank(client, name, texts, overflow="window", stride=9, raw_scores=True)
    scores = {one["index"]: one["score"] for one in found}
    best, gaps = [], []
    for index, text in enumerate(texts):
        given = encoder.tokenizer(
            [QUERY], [text], truncation="only_second", max_length=most, stride=9, return_overflowing_tokens=True,
            padding=True, return_tensors="pt",
        )  # fmt: skip
        given.pop("overflow_to_sample_mapping", None)
        with torch.no_grad():
            logits = encoder.model(**given).logits[:, 0].numpy()
        best.append(int(logits.argmax()))
        gaps.append(np.diff(np.sort(logits))[-1:].sum())
        np.testing.assert_allclose(scores[index], logits.max(), atol=1e-5)
    assert max(best) > 1  # not always the first one
    assert [one["index"] for one in found] == sorted(scores, key=lambda index: (-scores[index], index))

    index = max(range(len(ODD)), key=lambda one: (best[one] > 0) * gaps[one])
    asked = {"method": "libra", "digits": 7}
    (one,) = rerank(client, name, [texts[index]], overflow="window", stride=9, attention=asked, raw_scores=True)
    tokens = one["attention"]["tokens"]["source"]
    ids = encoder.tokenizer(
        QUERY, texts[index], truncation="only_second", max_length=most, stride=9, return_overflowing_tokens=True
    )
    spans = [tuple(token["span"]) for token in tokens if token.get("sequence") == 1]
    encoding = ids.encodings[best[index]]
    assert spans == [span for span, number in zip(encoding.offsets, encoding.sequence_ids, strict=True) if number == 1]
    conserved = one["attention"]["maps"][0]["conserved"]
    np.testing.assert_allclose(conserved["score"], one["score"], atol=1e-5)
    later = client.get(f"/v1/attention/{one['id']}", params=asked).json()["results"]
    assert len(later) == 1
    assert later[0]["attention"]["tokens"] == one["attention"]["tokens"]
    np.testing.assert_allclose(
        later[0]["attention"]["maps"][0]["values"], one["attention"]["maps"][0]["values"], atol=1e-6
    )
    pair = {"text": QUERY, "text_pair": texts[index]}
    body = {"inputs": pair, "overflow": "window", "stride": 9, "attention": asked}
    alone = client.post(f"/v1/models/{name}/attention", json=body).json()["results"]
    np.testing.assert_allclose(alone[0]["attention"]["maps"][0]["values"], later[0]["attention"]["maps"][0]["values"])
    fed = client.get(f"/v1/attention/{one['id']}/input")
    assert fed.status_code == 422
    assert "id: must be of a text that was read at once, given one of" in fed.json()["detail"]


def test_a_thousand_texts_are_ranked_at_once_and_no_more(client):
    texts = [f"{ODD[0]} {number}" for number in range(1000)]
    found = rerank(client, "bert-rank", texts, top_k=3)
    whole = rerank(client, "bert-rank", texts)
    assert found == [{**one, "id": few["id"]} for one, few in zip(whole, found, strict=False)]
    assert len(whole) == 1000


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("bert", {}, 404, "rerank: this model's task is text-classification; it serves classify, attention"),
        ("roberta", {}, 404, "rerank: this model's task is text-classification; it serves classify, attention"),
        ("minilm", {}, 404, "rerank: this model's task is feature-extraction; it serves embed, similarity, attention"),
        ("bert-rank", {"query": None}, 422, "query: must be a string"),
        ("bert-rank", {"query": ["a"]}, 422, "query: must be a string"),
        ("bert-rank", {"texts": "a"}, 422, "texts: must be a list of strings"),
        ("bert-rank", {"texts": ["a", 3]}, 422, "texts: must be a list of strings"),
        ("bert-rank", {"texts": []}, 422, "texts: must be 1 to 1000, given 0"),
        ("bert-rank", {"texts": ["a"] * 1001}, 422, "texts: must be 1 to 1000, given 1001"),
        ("bert-rank", {"top_k": 0}, 422, "top_k: Input should be greater than or equal to 1, given 0"),
        ("bert-rank", {"top_n": 2}, 422, "options: unknown option; did you mean top_k?"),
        ("bert-rank", {"inputs": "a"}, 422, "options: unknown option"),
        ("bert-rank", {"texts": ["a", LONG]}, 422, "input: at most 40 tokens, given 152 (input 2 of 2)"),
        ("bert-rank", {"query": LONG, "truncate": True}, 422, "query: must leave room for a text in 40 tokens, takes 147"),
        ("bert-rank", {"query": "a " * 60, "texts": ["b"] * 1000}, 413, "query: at most 100000 characters, counted once"),
        ("bert-rank", {"overflow": "window", "truncate": True}, 422, "overflow: texts are read in windows, or cut off by truncate, given both"),
        ("bert-rank", {"stride": 3}, 422, "stride: is of windows; ask for overflow=window too"),
        ("bert-rank", {"overflow": "cut"}, 422, "overflow: Input should be 'window'"),
        ("bert-rank", {"overflow": "window", "stride": -1}, 422, "stride: Input should be greater than or equal to 0"),
        ("bert-rank", {"overflow": "window", "stride": 32, "texts": ["a", LONG]}, 422, "stride: must be less than the 32 tokens of a window, given 32 (input 2 of 2)"),
        ("bert-rank", {"attention": {"target": 1}}, 422, "target: is for relevance"),
        ("bert-rank", {"attention": {"method": "libra", "against": {"label": "b"}}}, 422, "against: must be an object of another text"),
        ("bert-rank", {"attention": {"method": "libra", "against": "b"}}, 422, "against: must be an object of another text"),
        ("bert-rank", {"attention": {"method": "libra", "against": {"text": 3}}}, 422, "against: must be an object of another text"),
        ("bert-rank", {"attention": {"against": {"text": "b"}}}, 422, "against: is for relevance, libra and integrated, given raw"),
        ("bert-rank", {"attention": {"method": "libra", "evaluate": "deletion", "against": {"text": "b"}}}, 422, "evaluate: is of one score"),
        ("bert-rank", {"attention": {"method": "libra", "against": {"text": LONG}}}, 422, "input: at most 40 tokens, given 152 (against)"),
        ("bert-rank", {"attention": {"format": "png"}}, 422, "format: a prediction is answered in json"),
    ],
)  # fmt: skip
def test_what_cannot_be_ranked_is_refused_with_the_reason(client, name, body, status, said):
    answer = client.post(f"/v1/models/{name}/rerank", json={"query": QUERY, "texts": ["a dog"], **body})
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"].startswith(said)
