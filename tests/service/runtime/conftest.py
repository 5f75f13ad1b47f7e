"""What the tests of sessions share."""

import pytest

from contract.artifact import read_artifact


@pytest.fixture(scope="module")
def digits(artifacts):
    return read_artifact(artifacts / "digits" / "1")


@pytest.fixture(scope="module")
def dates(artifacts):
    return read_artifact(artifacts / "dates" / "1")
