"""k8s/kserve: what KServe reads, and that it agrees with itself and with the overlays."""

import pytest

from service.settings import PREFIX, Settings
from tests.conftest import ROOT
from tests.samples.kubernetes import K8S, NEWEST, api, needs_kustomize, of_kind, render, render_with, validate

pytestmark = needs_kustomize


@pytest.fixture(scope="module")
def rendered():
    return render(K8S / "kserve")


@pytest.fixture(scope="module")
def predictor(rendered):
    return rendered["InferenceService", "digits"]["spec"]["predictor"]


@pytest.fixture(scope="module")
def container(rendered):
    (container,) = rendered["ServingRuntime", "regard"]["spec"]["containers"]
    return container


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
    given = {one["name"].removeprefix(PREFIX).lower(): one.get("value", "2") for one in container["env"]}
    settings = Settings.model_validate(given)
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
    (policy,) = of_kind(rendered, "NetworkPolicy")
    (peer,) = policy["spec"]["ingress"][0]["from"]
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
