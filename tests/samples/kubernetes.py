"""What k8s/ says: files as they are, and overlays with components as they would be applied."""

import functools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from service.settings import PREFIX
from tests.conftest import ROOT

K8S = ROOT / "k8s"
OVERLAYS = ("cpu", "gpu")
COMPONENTS = sorted(path.name for path in (K8S / "components").iterdir())
OLDEST, NEWEST = "1.31", "1.37"
"""The oldest Kubernetes that the files are for, and the newest whose schemas there are."""

Document = dict[str, Any]
Rendered = dict[tuple[str, str], Document]

RENDERER = ["kubectl", "kustomize"] if shutil.which("kubectl") else ["kustomize", "build"]
needs_kustomize = pytest.mark.skipif(
    shutil.which(RENDERER[0]) is None, reason="kubectl or kustomize, which render overlays, are absent"
)

CUSTOM = {
    schema["properties"]["kind"]["const"]: schema
    for schema in (json.loads(path.read_text()) for path in sorted((ROOT / "tests/data/schemas").glob("*.json")))
}
"""The schemas of others' resources, by kind."""


def documents(path: Path) -> list[Document]:
    """Return the documents of a file."""
    return [document for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if document]


def kustomization(folder: Path) -> Document:
    """Return what a folder's kustomization says."""
    (document,) = documents(folder / "kustomization.yaml")
    return document


def key(document: Document) -> tuple[str, str]:
    """Return the kind and the name of a resource."""
    return document["kind"], document["metadata"]["name"]


def validate(document: Document, version: str) -> None:
    """Check a resource against the schema of its kind, in which no unknown field is allowed."""
    _validate(json.dumps(document), version)


@functools.cache  # most resources are the same in many overlays
def _validate(written: str, version: str) -> None:
    document = json.loads(written)
    if schema := CUSTOM.get(document["kind"]):
        jsonschema.validate(document, schema)
    else:
        kubernetes_validate.validate(document, version, strict=True)


def render(folder: Path) -> Rendered:
    """Return the resources of a kustomization as they would be applied, by kind and name."""
    done = subprocess.run([*RENDERER, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = list(yaml.load_all(done.stdout, Loader=yaml.CSafeLoader))
    by_key = {key(document): document for document in found}
    assert len(by_key) == len(found)
    return by_key


@functools.cache
def render_with(overlay: str, *components: str, monitoring: bool = False) -> Rendered:
    """Return the resources of an overlay of one's own: one of ours with components."""
    with tempfile.TemporaryDirectory() as folder:

        def path(*parts: str) -> str:
            return os.path.relpath(K8S.joinpath(*parts), Path(folder).resolve())

        own = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [path("overlays", overlay), *([path("monitoring")] if monitoring else [])],
            "components": [path("components", name) for name in components],
        }
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(own))
        return render(Path(folder))


def of_kind(rendered: Rendered, *kinds: str) -> list[Document]:
    """Return the resources of some kinds."""
    return [document for (kind, _), document in rendered.items() if kind in kinds]


def pod(workload: Document) -> Document:
    """Return the specification of the pods of a workload."""
    spec: Document = workload["spec"]["template"]["spec"]
    return spec


def containers(workload: Document) -> list[Document]:
    """Return all containers of a workload, those that run first included."""
    return pod(workload).get("initContainers", []) + pod(workload)["containers"]


def api(workload: Document) -> Document:
    """Return the container that serves."""
    (container,) = (one for one in pod(workload)["containers"] if one["name"] == "api")
    return container


def environment(rendered: Rendered) -> dict[str, str | None]:
    """Return the settings of the replicas; None is a value that the cluster knows, such as that of a Secret."""
    container = api(rendered["Deployment", "regard"])
    (source,) = container["envFrom"]
    found = dict(rendered["ConfigMap", source["configMapRef"]["name"]]["data"])
    for variable in container["env"]:
        assert ("value" in variable) != ("valueFrom" in variable), variable
        found[variable["name"]] = variable.get("value")
    assert all(name.startswith(PREFIX) for name in found)
    return found
