"""Every setting that a deployment names is one the service has: it refuses to start with any other."""

import re
from pathlib import Path

import pytest

from service.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
KNOWN = {f"{PREFIX}{name}".upper() for name in Settings.model_fields}
FILES = [ROOT / "Dockerfile", ROOT / "docker-compose.yml", *sorted((ROOT / "k8s").rglob("*.yaml"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_deployment_names_only_settings_that_exist(path):
    assert set(re.findall(rf"\b{PREFIX}[A-Z_]+", path.read_text())) <= KNOWN


def test_the_settings_of_a_deployment_are_accepted():
    literals = re.findall(rf"- {PREFIX}([A-Z_]+)=(\S+)", (ROOT / "k8s/base/kustomization.yaml").read_text())
    assert literals
    Settings.model_validate({name.lower(): value for name, value in literals})
