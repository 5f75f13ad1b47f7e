"""Writes the JSON schema of one version of a custom resource, without prose and without what we never set.

    python tests/data/schemas/from_crd.py CRD.yaml VERSION > tests/data/schemas/NAME.json

The schema is strict: a property that it does not name is refused, as `kubectl apply --validate=strict` does.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

PROSE = {"description", "default", "example", "format"}
FRAMEWORKS = "huggingface lightgbm onnx paddle pmml pytorch sklearn tensorflow triton xgboost"
NEVER_SET = {
    *FRAMEWORKS.split(),
    *"affinity batcher containers dnsConfig ephemeralContainers explainer hostAliases".split(),
    *"initContainers logger transformer workerSpec".split(),
}
"""Properties of an InferenceService that would make its schema fifty times as large."""
VOLUMES = {"accessModes", "capacity", "local", "nodeAffinity", "storageClassName", "volumeMode"}
"""Properties of the volumes of nodes that we set."""


def strict(node: Any) -> Any:
    """Return a schema of OpenAPI, as Kubernetes writes it, as a JSON schema that admits no unknown property."""
    if isinstance(node, list):
        return [strict(one) for one in node]
    if not isinstance(node, dict):
        return node
    found = {name: strict(value) for name, value in node.items() if name not in PROSE | {"properties"}}
    if "properties" in node:
        found["properties"] = {name: strict(value) for name, value in node["properties"].items()}
        if not node.get("x-kubernetes-preserve-unknown-fields"):
            found.setdefault("additionalProperties", False)
    if found.pop("x-kubernetes-int-or-string", False):
        found.pop("anyOf", None)
        found["type"] = ["integer", "string"]
    if found.pop("nullable", False):
        found["type"] = [found["type"], "null"]
    if "(?i)" in str(found.get("pattern")):
        del found["pattern"]  # Python allows flags at the start only
    return {name: value for name, value in found.items() if not name.startswith("x-kubernetes")}


def schema(resource: Any, version: str) -> Any:
    """Return the schema of a version of a CustomResourceDefinition."""
    spec = resource["spec"]
    (found,) = (one["schema"]["openAPIV3Schema"] for one in spec["versions"] if one["name"] == version)
    found = strict(found)
    properties = found["properties"]
    properties.pop("status", None)
    properties["apiVersion"] = {"const": f"{spec['group']}/{version}"}
    properties["kind"] = {"const": spec["names"]["kind"]}
    if spec["names"]["kind"] == "InferenceService":
        members = properties["spec"]["properties"]
        canary = members["canary"]["items"]["properties"]
        for part in (members, members["predictor"]["properties"], canary["predictor"]["properties"]):
            for name in NEVER_SET & part.keys():
                del part[name]
    if spec["names"]["kind"] == "LocalModelNodeGroup":
        members = properties["spec"]["properties"]["persistentVolumeSpec"]["properties"]
        for name in members.keys() - VOLUMES:
            del members[name]
    return found | {"required": ["apiVersion", "kind", "metadata", "spec"]}


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text())
    sys.stdout.write(json.dumps(schema(given, sys.argv[2]), separators=(",", ":"), sort_keys=True) + "\n")
