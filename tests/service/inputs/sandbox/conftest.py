"""What the tests of decoders share."""

import os

import pytest

from service.inputs.sandbox import decoder_process
from tests.samples.decoders import OTHERS, children


@pytest.fixture
def hostile(monkeypatch):
    """Decoders that do what an image tells them to."""
    monkeypatch.setattr(decoder_process, "FORK_SERVER_MODULE", "tests.samples.hostile_fork_server")


@pytest.fixture(autouse=True, scope="module")
def _others():
    OTHERS.update(children(os.getpid()))
