"""What KServe's own models of its resources make of k8s/kserve: they have every field that the files set.

KServe's classes are of another generation than those of the kubernetes package that they refer to, so neither package's
client reads them; but each class says the name and the type of every field.
"""

import re
from pathlib import Path

import kserve
import kubernetes.client
import yaml

PLAIN = {"str": str, "int": int, "bool": bool, "float": float}


def read(value, kind):
    """Return an object of the class that a type's name stands for, made of what a file says.

    Raises AssertionError naming a field that the class does not have, or whose value is of another type.
    """
    if found := re.fullmatch(r"list\[(.*)\]", kind):
        return [read(one, found[1]) for one in value]
    if found := re.fullmatch(r"dict\(str, (.*)\)", kind):
        return {name: read(one, found[1]) for name, one in value.items()}
    if plain := PLAIN.get(kind):
        assert type(value) is plain, f"{value!r} is no {kind}"
        return value
    ours = getattr(kserve, kind, None)
    if ours is None:
        return read_of_kubernetes(value, kind)
    fields = {written: name for name, written in ours.attribute_map.items()}
    assert value.keys() <= fields.keys(), f"{kind} has no {sorted(value.keys() - fields.keys())}"
    return ours(**{fields[name]: read(one, ours.openapi_types[fields[name]]) for name, one in value.items()})


def read_of_kubernetes(value, kind):
    """Return an object of one of the kubernetes package's classes, which read over fields that they do not have."""
    model = getattr(kubernetes.client, kind).from_dict(value)
    written = kubernetes.client.ApiClient().sanitize_for_serialization(model)
    assert written == value, f"{kind} reads {written} of {value}"
    return model


def document(service, name):
    """Return what one of our files says."""
    return yaml.safe_load(Path(service.manifests, f"{name}.yaml").read_text())


def the_runtime(service):
    """KServe's V1alpha1ServingRuntime has every field of our ServingRuntime."""
    runtime = read(document(service, "servingruntime"), "V1alpha1ServingRuntime")
    (container,) = runtime.spec.containers
    assert container.name == "kserve-container"
    assert runtime.spec.protocol_versions == ["v2"]
    assert runtime.spec.supported_model_formats[0].auto_select is True


def the_inference_service(service):
    """KServe's V1beta1InferenceService has every field of our InferenceService."""
    found = read(document(service, "inferenceservice"), "V1beta1InferenceService")
    assert found.spec.predictor.model.model_format.name == "regard"
    assert found.spec.predictor.model.storage_uri.startswith("oci://")
    assert found.spec.predictor.min_replicas == 2


def a_field_that_there_is_not(service):
    """A field that KServe does not have is found, in its own parts and in those of Kubernetes."""
    for place in ("spec", "spec.predictor", "spec.predictor.model", "spec.predictor.securityContext"):
        changed = part = document(service, "inferenceservice")
        for name in place.split("."):
            part = part[name]
        part["unheardOf"] = 2
        try:
            read(changed, "V1beta1InferenceService")
        except AssertionError:
            continue
        raise AssertionError(f"a field of {place} was read over")
