"""What all tests of deployments share: artifacts that are quick to load."""

import pytest


@pytest.fixture(scope="session")
def artifacts(light):
    """A folder with the artifacts of both bundled models, without graphs that explain a score."""
    return light
