"""k8s/kserve and k8s/kserve-knative: what KServe reads, and that it agrees with itself and with the overlays."""

import pytest

from service.settings import PREFIX, Settings
from tests.conftest import ROOT
from tests.samples.kubernetes import K8S, NEWEST, api, needs_kustomize, render, render_with, validate

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
