"""How alike texts are: the cosines of the vectors that the model answers, explained as these are."""

import numpy as np
import pytest

from tests.samples.in_process import in_process

SOURCE, TEXTS = "The hammer lay on the bench.", ["She bought a hammer.", "It rains.", ""]


@pytest.fixture(scope="module")
def client(minilm, artifacts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("similarity")
    for made in (minilm / "minilm", artifacts / "digits"):
        (folder / made.name).symlink_to(made)
    with in_process(folder) as client:
        yield client


def asked(client, endpoint, **body):
    answer = client.post(f"/v1/models/minilm/{endpoint}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def units(client, texts):
    vectors = np.array([one["embedding"] for one in asked(client, "embed", inputs=texts)])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_cosines_are_those_of_the_vectors_that_are_answered(client):
    found = [one["similarity"] for one in asked(client, "similarity", source=SOURCE, inputs=TEXTS)]
    np.testing.assert_allclose(found, units(client, TEXTS) @ units(client, [SOURCE])[0], atol=1e-6)
    assert found[0] > 0.4 > found[1]
    (one,) = asked(client, "similarity", source=SOURCE, inputs=TEXTS[0])
    assert one["similarity"] == pytest.approx(found[0])


def test_several_sources_make_a_matrix_with_a_row_for_each_text(client):
    sources = [SOURCE, "It pours."]
    found = [one["similarity"] for one in asked(client, "similarity", source=sources, inputs=TEXTS)]
    np.testing.assert_allclose(found, units(client, TEXTS) @ units(client, sources).T, atol=1e-6)
    (one,) = asked(client, "similarity", source=[SOURCE], inputs=TEXTS[0])
    assert one["similarity"] == pytest.approx(found[0][:1])


@pytest.mark.parametrize("method", ["libra", "relevance", "similar"])
def test_a_likeness_is_explained_as_that_of_an_embedding_beside_it_and_later(client, method):
    options = {"method": method, "digits": 7}
    found = asked(client, "similarity", source=SOURCE, inputs=TEXTS[:2], attention=options)
    against = {**options, "against": {"text": SOURCE}}
    wanted = asked(client, "embed", inputs=TEXTS[:2], attention=against)
    for one, alone in zip(found, wanted, strict=True):
        assert one["attention"]["tokens"] == alone["attention"]["tokens"]
        values = [np.array(each["attention"]["maps"][0]["values"]) for each in (one, alone)]
        np.testing.assert_allclose(*values, atol=1e-6)
        later = client.get(f"/v1/attention/{one['id']}", params={**options, "against": f'{{"text": "{SOURCE}"}}'})
        np.testing.assert_allclose(later.json()["results"][0]["attention"]["maps"][0]["values"], values[0], atol=1e-6)


def test_what_explains_no_likeness_needs_none_and_another_text_may_be_named(client):
    (one,) = asked(client, "similarity", source=SOURCE, inputs=TEXTS[0], attention="rollout")
    assert one["attention"]["method"] == "rollout"
    options = {"method": "libra", "against": {"text": "It rains."}}
    (other,) = asked(client, "similarity", source=SOURCE, inputs=TEXTS[0], attention=options)
    (wanted,) = asked(client, "embed", inputs=TEXTS[0], attention=options)
    maps = [each["attention"]["maps"][0]["values"] for each in (other, wanted)]
    np.testing.assert_allclose(*maps, atol=1e-6)
    (measured,) = asked(
        client, "similarity", source=SOURCE, inputs=TEXTS[0], attention={"method": "rollout", "evaluate": ["deletion"]}
    )
    assert measured["attention"]["evaluation"]["measure"]


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("digits", {}, 404, "similarity: this model's task is image-classification; it serves classify, attention"),
        ("minilm", {"source": None}, 422, "source: must be a string or a list of strings"),
        ("minilm", {"source": []}, 422, "source: must be 1 to 32, given 0"),
        ("minilm", {"inputs": [3]}, 422, "inputs: must be a string or a list of strings"),
        ("minilm", {"inputs": ["a"] * 2049}, 422, "inputs: must be 1 to 2048, given 2049"),
        ("minilm", {"inputs": {"text": "a", "text_pair": "b"}}, 422, "inputs: must be a string or a list of strings"),
        ("minilm", {"speed": 3}, 422, "options: unknown option"),
        ("minilm", {"source": ["a", "b"], "attention": "raw"}, 422, "attention: explains the likeness to one source, "),
        ("minilm", {"attention": 3}, 422, "method: Input should be "),
        ("minilm", {"attention": {"method": ["libra"]}}, 422, "method: Input should be "),
        ("minilm", {"attention": {"method": "libra", "target": 1}}, 422, "target: an embedding has no class or token"),
        ("minilm", {"inputs": "a " * 300}, 422, "input: at most 256 tokens, given 302"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason(client, name, body, status, said):
    answer = client.post(f"/v1/models/{name}/similarity", json={"source": SOURCE, "inputs": TEXTS, **body})
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"].startswith(said)
