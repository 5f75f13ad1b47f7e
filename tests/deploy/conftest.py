"""What tests of deployments share: artifacts that are quick to load, and overlays as they would be applied."""

import shutil

import pytest

from tests.samples import kubernetes


@pytest.fixture(scope="session")
def artifacts(light):
    """A folder with the artifacts of both bundled models, without graphs that explain a score."""
    return light


@pytest.fixture(scope="session")
def render_with():
    """Return what renders an overlay with components; without what it needs for that, the test is skipped."""
    if not shutil.which(kubernetes.RENDERER[0]):
        pytest.skip(kubernetes.needs_kustomize.kwargs["reason"])
    return kubernetes.render_with
