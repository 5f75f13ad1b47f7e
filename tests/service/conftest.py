import pytest

from tests.conftest import served


@pytest.fixture(scope="session")
def client(artifacts):
    """A client of a service with both bundled models and the settings nobody changed."""
    with served(artifacts) as client:
        yield client
