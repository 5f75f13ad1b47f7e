"""What a request says of embeddings: prompts, dimensions and lengths, by every protocol as by sentence-transformers."""
# ruff: noqa: E501 # a row for each refusal

import base64
import warnings

import numpy as np
import pytest
from huggingface_hub import InferenceClient
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

from tests.samples.checkpoints import checkpoint_of
from tests.samples.exports import export, once
from tests.samples.http_requests import PNG, SEVEN
from tests.samples.in_process import in_process

TEXTS = ["the cat sat", "a dog and a bird ran high", "", "the old house was not very good", "Съешь ещё 猫 é"]
PROMPTS = {"query": "a low bird: ", "document": "high "}
CUT = 5
"""The width of vectors that one of the models has cut in its graphs."""
PATH = "/v1/models/sentences"
READ = ("tests/service/api/tasks/test_vectors.py", "tests/samples/checkpoints.py")


def model_of(folder, *modules, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SentenceTransformer(
            modules=[Transformer(str(checkpoint_of("bert"))), *modules], prompts=PROMPTS, device="cpu", **options
        )
        model.save(str(folder))


@pytest.fixture(scope="module")
def folders():
    def make(folder):
        model_of(folder / "sentences", Pooling(16, "mean"), Normalize(), default_prompt_name="query")
        model_of(folder / "cut", Pooling(16, "mean"), Normalize(), default_prompt_name="query", truncate_dim=CUT)
        model_of(folder / "apart", Pooling(16, "mean", include_prompt=False))

    return once("checkpoints-of-prompts", make, *READ)


@pytest.fixture(scope="module")
def client(folders, families, tmp_path_factory):
    given = [folders / name for name in ("sentences", "cut", "apart")]
    made = once("artifacts-of-prompts", export(*given, "--methods", "relevance,libra,integrated"), *READ)
    folder = tmp_path_factory.mktemp("vectors")
    for artifact in [*made.iterdir(), families("vit-features")]:
        (folder / artifact.name).symlink_to(artifact)
    with in_process(folder, max_text_bytes=20_000) as client:
        yield client


@pytest.fixture(scope="module")
def encode(folders):
    return SentenceTransformer(str(folders / "sentences"), device="cpu").encode


def posted(client, path, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def embedded(client, name="sentences", **body):
    return np.array([one["embedding"] for one in posted(client, f"/v1/models/{name}/embed", **body)["results"]])


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({}, {}),
        ({"prompt_name": "document"}, {"prompt_name": "document"}),
        ({"prompt": "the red "}, {"prompt": "the red "}),
        ({"prompt": ""}, {"prompt": ""}),
        ({"dimensions": 6}, {"truncate_dim": 6, "normalize_embeddings": True}),
        ({"dimensions": 6, "normalize": False}, {"truncate_dim": 6}),
        ({"dimensions": 16, "normalize": True}, {"normalize_embeddings": True}),
        ({"dimensions": 1, "prompt_name": "document"}, {"truncate_dim": 1, "normalize_embeddings": True, "prompt_name": "document"}),
    ],
)  # fmt: skip
def test_vectors_are_those_of_the_library_by_every_protocol(client, encode, asked, given):
    wanted = encode(TEXTS, **given)
    by_openai = posted(client, "/v1/embeddings", model="sentences", input=TEXTS, **asked)["data"]
    coded = posted(client, "/v1/embeddings", model="sentences", input=TEXTS, encoding_format="base64", **asked)
    hub = InferenceClient(model=f"{client.base_url}{PATH}")
    named = {name: one for name, one in asked.items() if name != "prompt"}
    if named == asked:
        found = hub.feature_extraction(TEXTS[0], **asked)
        np.testing.assert_allclose(np.ravel(found), wanted[0], atol=1e-5)
    for vectors in (
        embedded(client, inputs=TEXTS, **asked),
        [one["embedding"] for one in by_openai],
        [np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in coded["data"]],
        posted(client, PATH, inputs=TEXTS, parameters=asked),
        posted(client, f"{PATH}/tei/embed", inputs=TEXTS, **{"normalize": "dimensions" in asked, **asked}),
    ):
        np.testing.assert_allclose(np.array(vectors), wanted, atol=1e-5)
    assert np.abs(encode(TEXTS, prompt="")[0] - encode(TEXTS)[0]).max() > 1e-2


def test_pictures_have_fewer_dimensions_too(client):
    def asked(**options):
        body = {"images": [base64.b64encode(SEVEN).decode()], **options}
        return np.array(posted(client, "/v1/models/vit-features/embed", **body)["results"][0]["embedding"])

    whole = asked()
    np.testing.assert_allclose(asked(dimensions=4, normalize=False), whole[:4])
    np.testing.assert_allclose(asked(dimensions=4), whole[:4] / np.linalg.norm(whole[:4]), atol=1e-6)
    np.testing.assert_allclose(asked(normalize=True), whole / np.linalg.norm(whole), atol=1e-6)
    raw = client.post("/v1/models/vit-features/embed?dimensions=4", content=SEVEN, headers=PNG)
    np.testing.assert_allclose(raw.json()["results"][0]["embedding"], asked(dimensions=4), atol=1e-6)


def test_texts_are_compared_by_their_cut_vectors_behind_their_prompt(client, encode):
    vectors = encode(TEXTS, truncate_dim=CUT, normalize_embeddings=True, prompt_name="document")
    options = {"dimensions": CUT, "prompt_name": "document"}
    found = posted(client, f"{PATH}/similarity", source=TEXTS[0], inputs=TEXTS[1:], **options)["results"]
    np.testing.assert_allclose([one["similarity"] for one in found], vectors[1:] @ vectors[0], atol=1e-5)
    inputs = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
    for path in (PATH, f"{PATH}/tei/similarity"):
        cosines = posted(client, path, inputs=inputs, parameters=options)
        np.testing.assert_allclose(cosines, vectors[1:] @ vectors[0], atol=1e-5)


def looked(client, name, options, **body):
    given = {"inputs": TEXTS[1], **body, "attention": {**options, "digits": 8}}
    (found,) = posted(client, f"/v1/models/{name}/embed", **given)["results"]
    return found


@pytest.mark.parametrize("method", ["relevance", "libra", "integrated"])
@pytest.mark.parametrize("more", [{}, {"sides": "both"}, {"evaluate": ["deletion"]}])
def test_what_is_alike_in_cut_vectors_is_explained_as_of_a_model_that_cuts_them_itself(client, method, more):
    options = {"method": method, "against": {"text": TEXTS[0]}, **more}
    found = looked(client, "sentences", options, dimensions=CUT)
    assert len(found["embedding"]) == CUT
    mine, wanted, whole = (
        one["attention"]
        for one in (found, looked(client, "cut", options), looked(client, "sentences", options))
    )  # fmt: skip
    check_alike(mine["maps"], wanted["maps"], whole["maps"])
    if "sides" in more:
        check_alike(*(one["against"]["maps"] for one in (mine, wanted, whole)))
    if "evaluate" in more:
        check_curves(mine, wanted, whole)


def check_alike(mine, wanted, whole):
    values = [np.array(one[0]["values"]) for one in (mine, wanted, whole)]
    np.testing.assert_allclose(values[0], values[1], atol=1e-5)
    assert np.abs(values[0] - values[2]).max() > 0.05 * np.abs(values[2]).max()


def check_curves(mine, wanted, whole):
    mine, wanted, whole = (np.array(list(numbers(one["evaluation"]))) for one in (mine, wanted, whole))
    np.testing.assert_allclose(mine, wanted, atol=1e-4)
    assert np.abs(mine - whole).max() > 1e-3


def numbers(found):
    """Yield all numbers of a JSON value, in order."""
    if isinstance(found, dict):
        found = [one for _, one in sorted(found.items())]
    if isinstance(found, list):
        for part in found:
            yield from numbers(part)
    elif isinstance(found, float):
        yield found


def test_all_methods_are_compared_by_cut_vectors(client):
    options = {"method": "raw", "queries": [0], "against": {"text": TEXTS[0]}, "evaluate": ["compare"]}
    check_curves(*(
        looked(client, name, options, **asked)["attention"]
        for name, asked in (("sentences", {"dimensions": CUT}), ("cut", {}), ("sentences", {}))
    ))  # fmt: skip


def test_what_is_more_alike_to_one_text_than_to_another_is_explained_of_cut_vectors(client):
    options = {"method": "libra", "against": [{"text": TEXTS[0]}, {"text": TEXTS[3]}]}
    values = [
        np.array(found["attention"]["maps"][0]["values"])
        for found in (looked(client, "sentences", options, dimensions=CUT), looked(client, "cut", options))
    ]
    np.testing.assert_allclose(*values, atol=1e-5)


def test_a_likeness_is_explained_later_and_alone_as_beside_the_answer(client):
    options = {"method": "libra", "against": {"text": TEXTS[0]}}
    asked = {"dimensions": CUT, "prompt_name": "document"}
    beside = looked(client, "sentences", options, **asked)["attention"]
    answer = posted(client, f"{PATH}/embed", inputs=TEXTS[1], **asked)
    query = {"method": "libra", "digits": 8, "against": f'{{"text": "{TEXTS[0]}"}}'}
    later = client.get(f"/v1/attention/{answer['id']}", params=query).json()["results"][0]["attention"]
    alone = posted(client, f"{PATH}/attention", inputs=TEXTS[1], attention={**options, "digits": 8}, **asked)
    for found in (later, alone["results"][0]["attention"]):
        assert found["tokens"] == beside["tokens"]
        np.testing.assert_allclose(found["maps"][0]["values"], beside["maps"][0]["values"], atol=1e-6)
    by_id = {"method": "libra", "against": {"id": posted(client, f"{PATH}/embed", inputs=TEXTS[0], **asked)["id"]}}
    found = looked(client, "sentences", by_id, **asked)["attention"]
    np.testing.assert_allclose(found["maps"][0]["values"], beside["maps"][0]["values"], atol=1e-6)


def test_the_tokens_of_a_request_s_prompt_have_no_span(client):
    tokens = looked(client, "sentences", {"method": "raw"}, prompt="red bird ")["attention"]["tokens"]["source"]
    words = [one["text"] for one in tokens]
    assert words[:4] == ["[CLS]", "red", "bird", "a"]
    assert [one["span"] for one in tokens[:4]] == [None, None, None, [0, 1]]


def test_a_model_says_which_prompts_it_has(client):
    found = client.get(PATH).json()["inputs"]
    assert (found["prompts"], found["default_prompt"], found["prompt"]) == (PROMPTS, "query", PROMPTS["query"])
    assert client.get("/v1/models/apart").json()["inputs"].keys() == {"max_tokens"}


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("sentences", {"dimensions": 17}, 422, "dimensions: must be from 1 to 16, given 17"),
        ("sentences", {"dimensions": 0}, 422, "dimensions: Input should be greater than or equal to 1, given 0"),
        ("sentences", {"prompt_name": "no"}, 422, "prompt_name: must be one of document, query, given another"),
        ("sentences", {"prompt_name": "query", "prompt": "a"}, 422, "prompt: must be given by itself or by prompt_name, given both"),
        ("sentences", {"prompt": 3}, 422, "prompt: Input should be a valid string, given 3"),
        ("sentences", {"prompt": "a" * 9000, "inputs": ["b"] * 3}, 413, "prompt: at most 20000 characters, counted once for each text, given 27000"),
        ("sentences", {"prompt": "the red " * 30, "truncate": True}, 422, "prompt: must leave room for a text in 40 tokens"),
        ("sentences", {"prompt": "the red " * 30}, 422, "input: at most 40 tokens, given "),
        ("sentences", {"dimension": 3}, 422, "options: unknown option; did you mean dimensions?"),
        ("apart", {"prompt": "a"}, 422, "prompt: this model takes none"),
        ("apart", {"prompt_name": "query"}, 422, "prompt_name: this model takes none"),
    ],
)  # fmt: skip
def test_what_embeddings_have_not_is_refused_with_the_reason(client, name, body, status, said):
    answer = client.post(f"/v1/models/{name}/embed", json={"inputs": "b", **body})
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"].startswith(said)


def test_dimensions_are_refused_where_an_older_graph_does_not_cut(client, monkeypatch):
    from service.answering import embedding_options

    monkeypatch.setattr(embedding_options, "KEPT", "another")
    body = {"inputs": "a", "dimensions": 3, "attention": {"method": "libra", "against": {"text": "b"}}}
    answer = client.post(f"{PATH}/embed", json=body)
    assert answer.json()["detail"].startswith("dimensions: are not cut by the graphs of this artifact that explain")
    assert client.post(f"{PATH}/embed", json={"inputs": "a", "dimensions": 3}).status_code == 200
