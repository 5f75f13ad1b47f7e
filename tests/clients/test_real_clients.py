"""Real clients are answered: every call of each, and the examples of docs/clients.md."""

import pytest

from benchmarks.peers import Unusable
from tests.clients.conformance import outcomes, running_service
from tests.clients.environments import CLIENTS, prepared
from tests.clients.examples import examples

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def service():
    with running_service() as service:
        yield service


@pytest.mark.parametrize("name", CLIENTS)
def test_every_call_of_a_client_is_answered(name, service):
    try:
        interpreter, _ = prepared(name)
    except Unusable as error:
        pytest.skip(f"{name}: {error}")
    found = outcomes(name, interpreter, service)
    assert found
    assert not [f"{one.call}: {one.fault}" for one in found if one.fault]


def test_every_client_has_an_example():
    assert {example.client for example in examples()} == {name for name in CLIENTS if not CLIENTS[name].is_ours}
