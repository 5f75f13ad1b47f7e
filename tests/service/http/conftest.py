"""What the tests of API keys, of the middleware and of the protocol share."""

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.repository.loading.load import load
from service.settings import Settings
from service.store import open_store
from tests.samples.api_keys import EVERY_SCOPE, line
from tests.samples.raw_http_server import running


@pytest.fixture(scope="module")
def running_server():
    """The protocol around an application of a few lines."""
    with running() as server:
        yield server


@pytest.fixture
def server(running_server):
    """The same, of which a test lets nothing reach the loop."""
    yield running_server
    assert not running_server.complaints


@pytest.fixture(scope="module")
def models(light):
    """Both bundled models."""
    return load(Settings(artifacts=light))


@pytest.fixture
def file(tmp_path):
    """A file of three keys: `p` may predict, `m` read metrics, and `a` do everything."""
    path = tmp_path / "keys"
    path.write_text(
        "# who may do what\n\n" + line("p") + line("m", "metrics", "prometheus") + line("a", EVERY_SCOPE, "root")
    )
    return path


@pytest.fixture
def client(models, file, light):
    """A client of the application in this process, which asks for a key."""
    settings = Settings(artifacts=light, api_keys=file, key_in_flight=0)
    with TestClient(create_app(settings, models, open_store(settings)), raise_server_exceptions=False) as client:
        yield client
