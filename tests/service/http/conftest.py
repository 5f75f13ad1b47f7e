"""What the tests of API keys and of the middleware share."""

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.repository.loading import load
from service.settings import Settings
from service.store import open_store
from tests.samples.api_keys import EVERY_SCOPE, line


@pytest.fixture(scope="session")
def artifacts(light):
    """A folder with the artifacts of both bundled models, without graphs that explain a score."""
    return light


@pytest.fixture(scope="module")
def models(artifacts):
    """Both bundled models."""
    return load(Settings(artifacts=artifacts))


@pytest.fixture
def file(tmp_path):
    """A file of three keys: `p` may predict, `m` read metrics, and `a` do everything."""
    path = tmp_path / "keys"
    path.write_text(
        "# who may do what\n\n" + line("p") + line("m", "metrics", "prometheus") + line("a", EVERY_SCOPE, "root")
    )
    return path


@pytest.fixture
def client(models, file, artifacts):
    """A client of the application in this process, which asks for a key."""
    settings = Settings(artifacts=artifacts, api_keys=file, key_in_flight=0)
    with TestClient(create_app(settings, models, open_store(settings)), raise_server_exceptions=False) as client:
        yield client
