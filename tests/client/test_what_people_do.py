"""What people do with the client, each as its user would write it: `tests/clients/regard_calls.py`."""

import inspect
import types

import pytest

from tests.clients import regard_calls
from tests.clients.run_calls import calls_of
from tests.samples.in_process import in_process

MOST_LINES = 15
CALLS = calls_of(regard_calls)


@pytest.fixture(scope="module")
def asked(artifacts, minilm, tmp_path_factory):
    """A service of the models that the calls ask."""
    folder = tmp_path_factory.mktemp("people")
    for model in (*(artifacts / name for name in ("digits", "dates")), *minilm.iterdir()):
        (folder / model.name).symlink_to(model)
    with in_process(folder) as client:
        yield types.SimpleNamespace(
            url=str(client.base_url).rstrip("/"), images="digits", seq2seq="dates", embeddings="minilm",
            picture="tests/data/digits/seven.png",
        )  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_it_does_what_it_says_in_few_lines(call, asked, monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    lines = [line for line in inspect.getsource(call).splitlines()[2:] if line.strip()]
    assert len(lines) <= MOST_LINES
    call(asked)


def test_there_are_calls():
    assert len(CALLS) >= 8
