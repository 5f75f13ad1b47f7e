"""What the tests of sessions share."""

import pytest

from service.repository.registry import load
from service.settings import Settings


@pytest.fixture(scope="module")
def digits(artifacts):
    return load(Settings(artifacts=artifacts))["digits"].artifact
