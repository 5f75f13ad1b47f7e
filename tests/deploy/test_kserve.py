"""k8s/kserve and k8s/kserve-knative: what KServe reads, and that it agrees with itself and with the overlays."""

import os
import tempfile
from pathlib import Path

import pytest
import yaml

from service.settings import PREFIX, Settings
from tests.conftest import ROOT
from tests.samples.kubernetes import K8S, NEWEST, api, needs_kustomize, render, render_with, validate

PAPER = (ROOT / "docs/kubernetes.md").read_text()

pytestmark = needs_kustomize


@pytest.fixture(scope="module")
def rendered():
    return render(K8S / "kserve")


@pytest.fixture(scope="module")
def predictor(rendered):
    return rendered["InferenceService", "digits"]["spec"]["predictor"]


@pytest.fixture(scope="module")
def container(rendered):
    return container_of(rendered)


@pytest.fixture(scope="module")
def knative():
    return render(K8S / "kserve-knative")


def container_of(rendered):
    (container,) = rendered["ServingRuntime", "regard"]["spec"]["containers"]
    return container


def settings_of(container):
    return Settings.model_validate(
        {one["name"].removeprefix(PREFIX).lower(): one.get("value", "2") for one in container["env"]}
    )


def admitted(rendered):
    """The ports of the replicas, by the label of the namespaces that reach them; None is everybody."""
    found = {}
    for rule in rendered["NetworkPolicy", "regard"]["spec"]["ingress"]:
        (peer,) = rule.get("from", [None])
        label = peer and "=".join(*peer["namespaceSelector"]["matchLabels"].items())
        found[label] = [port["port"] for port in rule["ports"]]
    return found


def with_variants(folder, *variants):
    """Either mode with some of k8s/kserve-variants, as a kustomization of one's own."""
    with tempfile.TemporaryDirectory() as own:
        to = {name: os.path.relpath(K8S / name, Path(own).resolve()) for name in (folder, "kserve-variants")}
        said = {"resources": [to[folder]], "components": [f"{to['kserve-variants']}/{one}" for one in variants]}
        (Path(own) / "kustomization.yaml").write_text(yaml.safe_dump({"kind": "Kustomization", **said}))
        return render(Path(own))


VARIANTS = {path.name for path in (K8S / "kserve-variants").iterdir()}
COMBINED = [
    *(("kserve", one) for one in sorted(VARIANTS - {"canary-knative"})),
    ("kserve", "gpu", "keda"),
    ("kserve", "gpu", "cache"),
    ("kserve", "keda", "canary"),
    ("kserve-knative", "canary-knative"),
    ("kserve-knative", "cache"),
]


@pytest.mark.parametrize("parts", COMBINED, ids=" ".join)
def test_a_variant_satisfies_the_strict_schemas_and_is_named_in_the_document(parts):
    for document in with_variants(*parts).values():
        validate(document, NEWEST)
    assert all(f"`{one}`" in PAPER for one in parts[1:])


def test_a_gpu_is_asked_for_as_by_the_overlay():
    rendered = with_variants("kserve", "gpu")
    service = rendered["InferenceService", "digits"]
    predictor, container = service["spec"]["predictor"], container_of(rendered)
    overlay = render_with("gpu")["Deployment", "regard"]["spec"]
    pod, theirs = overlay["template"]["spec"], api(render_with("gpu")["Deployment", "regard"])
    assert predictor["model"]["resources"] == container["resources"] == theirs["resources"]
    assert (predictor["tolerations"], predictor["nodeSelector"]) == (pod["tolerations"], pod["nodeSelector"])
    assert predictor["deploymentStrategy"] == overlay["strategy"]
    assert container["image"] == theirs["image"]
    assert predictor["model"]["env"] == [{"name": "REGARD_DEVICE", "value": "cuda"}]
    assert "REGARD_DEVICE" in {one["name"] for one in container["env"]}
    assert service["metadata"]["annotations"]["serving.kserve.io/autoscalerClass"] == "none"
    assert not {"scaleMetric", "scaleTarget"} & predictor.keys()


@pytest.mark.parametrize("variants", [("keda",), ("gpu", "keda")], ids=" ".join)
def test_keda_asks_what_it_asks_for_the_overlays(variants):
    rendered = with_variants("kserve", *variants)
    service = rendered["InferenceService", "digits"]
    assert service["metadata"]["annotations"]["serving.kserve.io/autoscalerClass"] == "keda"
    (metric,) = service["spec"]["predictor"]["autoScaling"]["metrics"]
    ours, _ = render_with("cpu", "keda")["ScaledObject", "regard"]["spec"]["triggers"]
    asked, target = metric["external"]["metric"], metric["external"]["target"]
    namespace = service["metadata"]["namespace"]
    assert asked["query"] == ours["metadata"]["query"].replace('"regard"', f'"{namespace}"')
    assert asked["serverAddress"] == ours["metadata"]["serverAddress"]
    assert (target["type"], target["averageValue"]) == (ours["metricType"], ours["metadata"]["threshold"])


def test_a_model_is_served_from_the_cache_of_its_address_by_nodes_of_a_group():
    rendered = with_variants("kserve", "cache")
    cache = rendered["LocalModelCache", "regard-digits"]["spec"]
    assert rendered["InferenceService", "digits"]["spec"]["predictor"]["model"]["storageUri"] == cache["sourceModelUri"]
    group = rendered["LocalModelNodeGroup", *cache["nodeGroups"]]["spec"]
    claim, volume = group["persistentVolumeClaimSpec"], group["persistentVolumeSpec"]
    assert claim["storageClassName"] == volume["storageClassName"]
    assert group["storageLimit"] == claim["resources"]["requests"]["storage"] == volume["capacity"]["storage"]


def test_a_canary_is_the_predictor_but_for_its_name_and_version(predictor):
    (canary,) = with_variants("kserve", "canary")["InferenceService", "digits"]["spec"]["canary"]
    next_one = dict(canary["predictor"])
    assert next_one.pop("name")
    assert next_one["model"]["storageUri"] != predictor["model"]["storageUri"]
    scaling = {"minReplicas", "maxReplicas", "scaleMetric", "scaleTarget"}
    plain = [{name: one for name, one in each.items() if name not in {*scaling, "model"}}
             for each in (next_one, predictor)]  # fmt: skip
    assert plain[0] == plain[1]
    other = {"storageUri": "", "name": "kserve-container"}
    assert next_one["model"] | other == predictor["model"] | other
    assert scaling & next_one.keys() == {"minReplicas"}, "its number is fixed"


def test_knatives_canary_changes_a_version_and_a_share_alone(knative):
    changed = with_variants("kserve-knative", "canary-knative")["InferenceService", "digits"]["spec"]["predictor"]
    before = knative["InferenceService", "digits"]["spec"]["predictor"]
    assert changed.pop("canaryTrafficPercent") == 10
    assert changed["model"].pop("storageUri") != before["model"]["storageUri"]
    assert changed == before | {"model": {name: one for name, one in before["model"].items() if name != "storageUri"}}


def test_everything_satisfies_the_strict_schemas(rendered):
    assert {kind for kind, _ in rendered} >= {"ServingRuntime", "InferenceService"}
    for document in rendered.values():
        validate(document, NEWEST)


def test_the_runtime_is_what_the_service_asks_for(rendered, predictor):
    runtime = rendered["ServingRuntime", "regard"]["spec"]
    (offered,) = runtime["supportedModelFormats"]
    assert predictor["model"]["modelFormat"] == {"name": offered["name"], "version": offered["version"]}
    assert predictor["model"]["protocolVersion"] in runtime["protocolVersions"]


def test_the_settings_are_accepted_and_the_ports_are_theirs(rendered, container):
    settings = settings_of(container)
    assert [port["containerPort"] for port in container["ports"]] == [settings.port]
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/v2/health/ready", "port": settings.port}
    assert container["livenessProbe"]["httpGet"] == {"path": "/health/live", "port": settings.probe_port}
    annotations = rendered["ServingRuntime", "regard"]["spec"]["annotations"]
    assert annotations["prometheus.kserve.io/port"] == str(settings.admin_port)
    assert str(settings.artifacts) == "/mnt/models"
    (cores,) = (one for one in container["env"] if one["name"] == "REGARD_CORES")
    assert cores["valueFrom"]["resourceFieldRef"]["containerName"] == container["name"] == "kserve-container"


def test_the_model_is_called_by_a_name_that_an_artifact_has(rendered):
    ((name),) = (name for kind, name in rendered if kind == "InferenceService")
    assert (ROOT / "model/artifacts" / name / "1/manifest.json").exists()


def test_replicas_find_their_store_and_it_lets_them_in(rendered, predictor, container):
    assert predictor["minReplicas"] >= 2
    (url,) = (one["value"] for one in container["env"] if one["name"] == "REGARD_REDIS_URL")
    assert ("Service", url.removeprefix("redis://").partition(":")[0]) in rendered
    assert {name for kind, name in rendered if kind == "NetworkPolicy"} == {"regard", "regard-store"}
    (peer,) = rendered["NetworkPolicy", "regard-store"]["spec"]["ingress"][0]["from"]
    assert peer["podSelector"]["matchLabels"].items() <= predictor["labels"].items()


def test_a_pod_is_as_restricted_and_drains_as_long_as_one_of_the_overlays(predictor, container):
    deployment = render_with("cpu")["Deployment", "regard"]["spec"]["template"]["spec"]
    ours = api(render_with("cpu")["Deployment", "regard"])
    for name in ("automountServiceAccountToken", "enableServiceLinks", "terminationGracePeriodSeconds"):
        assert predictor[name] == deployment[name]
    security = {name: deployment["securityContext"][name] for name in predictor["securityContext"]}
    assert predictor["securityContext"] == security
    assert security.keys() >= {"runAsNonRoot", "runAsUser", "seccompProfile"}
    for name in ("securityContext", "lifecycle", "resources"):
        assert container[name] == ours[name]
    assert predictor["model"]["resources"] == container["resources"]
    assert predictor["timeout"] > Settings().request_seconds
    assert container["image"] == ours["image"]


def test_only_monitoring_reaches_the_admin_port(rendered, predictor, container):
    policy = rendered["NetworkPolicy", "regard"]["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["podSelector"]["matchLabels"].items() <= predictor["labels"].items()
    settings = settings_of(container)
    assert admitted(rendered) == {None: [settings.port], "regard/monitoring=true": [settings.admin_port]}


# Knative


def test_with_knative_everything_satisfies_the_strict_schemas_too(rendered, knative):
    assert knative.keys() == rendered.keys()
    for document in knative.values():
        validate(document, NEWEST)


def test_knative_gets_no_field_that_it_refuses(knative, container):
    predictor, theirs = knative["InferenceService", "digits"]["spec"]["predictor"], container_of(knative)
    assert not {"terminationGracePeriodSeconds", "securityContext"} & predictor.keys()
    assert "lifecycle" not in theirs
    assert not [one for one in theirs["env"] if "valueFrom" in one]
    assert [port["containerPort"] for port in theirs["ports"]] == [8080]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert theirs[probe]["httpGet"] == {"path": container[probe]["httpGet"]["path"], "port": 8080}


def test_with_knative_the_service_is_the_same_but_for_the_ports(rendered, knative, container):
    ours, theirs = settings_of(container), settings_of(container_of(knative))
    changed = {"probe_port": None, "admin_port": theirs.admin_port}
    assert theirs == ours.model_copy(update=changed)
    assert str(theirs.cores) == container["resources"]["requests"]["cpu"]
    pods = rendered["InferenceService", "digits"]["spec"]["predictor"]["securityContext"]
    here = {name: value for name, value in pods.items() if name != "fsGroup"}
    assert container_of(knative)["securityContext"] == container["securityContext"] | here
    startup = container_of(knative)["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 300


def test_knative_scales_to_zero_and_waits_for_what_is_in_flight(knative):
    service = knative["InferenceService", "digits"]
    assert service["metadata"]["annotations"] == {"serving.kserve.io/deploymentMode": "Knative"}
    predictor, settings = service["spec"]["predictor"], settings_of(container_of(knative))
    assert predictor["minReplicas"] == 0
    assert predictor["scaleMetric"] == "concurrency"  # by the CPU, nothing scales to zero
    assert predictor["timeout"] >= settings.drain_seconds + settings.shutdown_grace_seconds


def test_with_knative_its_own_container_has_its_ports_and_only_monitoring_reaches_ours(knative):
    settings = settings_of(container_of(knative))
    assert admitted(knative) == {
        None: [8012, 8013, 8112],
        "kubernetes.io/metadata.name=knative-serving": [9090],
        "regard/monitoring=true": [9091, settings.admin_port],
    }
    assert settings.admin_port not in (8008, 8012, 8013, 8022, 8112, 9090, 9091)
    annotations = knative["ServingRuntime", "regard"]["spec"]["annotations"]
    assert annotations["prometheus.kserve.io/port"] == str(settings.admin_port)
