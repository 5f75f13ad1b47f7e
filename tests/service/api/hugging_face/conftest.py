"""A service for what protocols read and present: bundled models, and small ones of every task beside theirs."""

import pytest

from tests.samples.in_process import in_process

SMALL = (
    "bert",
    "bert-rank",
    "bert-answer",
    "bert-nli",
    "bert-tags",
    "bert-sparse",
    "roberta-rank",
    "roberta",
    "bert-mask",
    "roberta-mask",
    "roberta-features",
    "gpt2",
    "vit-features",
)


@pytest.fixture(scope="package")
def texts(artifacts, minilm, families, detectors, tmp_path_factory):
    """A client of a service with these models; the small ones have random weights."""
    folder = tmp_path_factory.mktemp("texts")
    for made in (artifacts / "digits", artifacts / "dates", minilm / "minilm", *detectors.iterdir()):
        (folder / made.name).symlink_to(made)
    for name in SMALL:
        (folder / name).symlink_to(families(name))
    with in_process(folder) as client:
        yield client


def native(client, name, endpoint, **body):
    """Return the results of our own endpoint."""
    answer = client.post(f"/v1/models/{name}/{endpoint}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]
