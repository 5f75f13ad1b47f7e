"""Every overlay with its components: schemas, restricted pods, settings, and the time that a pod has to drain."""

import tomllib

import pytest
import yaml

from service.settings import PREFIX, Settings
from tests.conftest import ROOT
from tests.samples.kubernetes import (
    COMPONENTS,
    CUSTOM,
    K8S,
    NEWEST,
    OLDEST,
    OVERLAYS,
    api,
    containers,
    documents,
    environment,
    kustomization,
    of_kind,
    pod,
    render,
    validate,
)

MARGIN_SECONDS = 10
MODELS = ("models-image", "models-init", "models-claim")
EVERYTHING = ("keys", "metrics-key", "gateway", "keda", "store-external")
NEEDS_MONITORING = "metrics-key"
CASES = [
    *((overlay,) for overlay in OVERLAYS),
    *(("gpu" if component == "tensorrt" else "cpu", component) for component in COMPONENTS if component != "store"),
    *(("cpu", *EVERYTHING, models) for models in MODELS),
    *(("gpu", *EVERYTHING, models, "tensorrt") for models in MODELS),
    ("gpu", "keys", "ingress", "custom-metrics", "models-image", "openshift"),
    ("cpu", "store-external", "models-init", "openshift"),
    ("cpu", "keda", "custom-metrics"),
    ("gpu", "custom-metrics", "keda"),
]
VOLUMES = {"emptyDir", "persistentVolumeClaim", "configMap", "secret", "image"}
"""The kinds of volumes that we use, of those that the pod security standard allows."""
FOLDERS = [
    path.parent for path in sorted(K8S.rglob("kustomization.yaml")) if path.parent != K8S / "monitoring"
]  # the folder of the monitoring holds the rules in another form too
DEPLOYMENT = documents(K8S / "base/deployment.yaml")[0]


@pytest.fixture(scope="module", params=[*CASES, ("example",)], ids=" ".join)
def rendered(request, render_with):
    """An overlay with components, as it would be applied."""
    overlay, *components = request.param
    if overlay == "example":
        return render(K8S / "overlays/example")
    return render_with(overlay, *components, monitoring=NEEDS_MONITORING in components)


def assert_restricted(workload, user):
    """The pod security standard 'restricted', and a root file system nobody writes to."""
    spec = pod(workload)
    assert not any(spec.get(shared) for shared in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"))
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert {spec["securityContext"].get(name) for name in ("runAsUser", "runAsGroup", "fsGroup")} == {user}
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    for volume in spec.get("volumes", []):
        (kind,) = set(volume) - {"name"}
        assert kind in VOLUMES, volume
    for container in containers(workload):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["readOnlyRootFilesystem"] is True
        assert not {"privileged", "procMount", "runAsUser", "seccompProfile"} & set(context)
        assert not any("hostPort" in port for port in container.get("ports", []))


def assert_bounded(workload):
    for container in containers(workload):
        resources = container["resources"]
        assert resources["requests"]["memory"] == resources["limits"]["memory"], container["name"]
        assert "cpu" in resources["requests"], container["name"]
        assert "cpu" not in resources["limits"], container["name"]


# Files


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("path", [K8S / "base" / name for name in kustomization(K8S / "base")["resources"]], ids=str)
def test_every_resource_of_the_base_satisfies_the_strict_schema_of_its_kind(path, version):
    for document in documents(path):
        validate(document, version)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(K8S)))
def test_a_kustomization_names_every_file_beside_it_and_no_other(folder):
    stated = kustomization(folder)
    named = {*stated.get("resources", []), *(patch["path"] for patch in stated.get("patches", []) if "path" in patch)}
    for name in named:
        assert (folder / name).exists(), name
    beside = {path.name for path in folder.iterdir()} - {"kustomization.yaml"}
    assert beside == {name for name in named if "/" not in name}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_tags_the_image_with_the_projects_version(overlay):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    tagged = {image["name"]: image["newTag"] for image in kustomization(K8S / "overlays" / overlay)["images"]}
    assert tagged == {"regard": f"{version}-{overlay}"}
    assert set(tagged) == {container["image"] for container in containers(DEPLOYMENT)}
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    assert {f"{name}:{tag}" for name, tag in tagged.items()} <= {service["image"] for service in services}


# What is applied


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_a_rendered_overlay_satisfies_the_strict_schemas(rendered, version):
    for document in rendered.values():
        validate(document, version)


def test_the_schemas_refuse_a_field_that_does_not_exist(render_with):
    rendered = render_with("cpu", *EVERYTHING, monitoring=True)
    kinds = {kind for kind, _ in rendered}
    assert {"ScaledObject", "HTTPRoute", "ServiceMonitor", "PrometheusRule"} == kinds & CUSTOM.keys()
    for document in rendered.values():
        if "spec" in document:
            with pytest.raises(Exception, match=r"(?i)additional properties|unevaluated|unexpected"):
                validate(document | {"spec": document["spec"] | {"unheardOf": 1}}, NEWEST)


def test_every_pod_is_restricted_and_bounded(rendered, request):
    user = None if "openshift" in request.node.callspec.params["rendered"] else 10001
    workloads = of_kind(rendered, "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")
    assert workloads
    for workload in workloads:
        assert_restricted(workload, user)
        assert_bounded(workload)
    labels = rendered["Namespace", "regard"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_everything_is_in_one_namespace(rendered):
    outside = {name for name, document in rendered.items() if document["metadata"].get("namespace") != "regard"}
    assert outside == {("Namespace", "regard")}


def test_no_claim_is_made_that_only_some_clusters_can_fill(rendered):
    for claim in of_kind(rendered, "PersistentVolumeClaim"):
        assert claim["spec"]["storageClassName"]


def test_every_setting_exists_and_is_accepted(rendered):
    found = {name: "4" if value is None and "CORES" in name else value for name, value in environment(rendered).items()}
    given = {name.removeprefix(PREFIX).lower(): value for name, value in found.items() if value is not None}
    assert given.keys() <= Settings.model_fields.keys()
    Settings.model_validate(given)
    assert "REGARD_THREADS" not in found


def test_replicas_share_a_store(rendered):
    # Otherwise attention by id is found only by the replica that answered the request.
    scaled = of_kind(rendered, "HorizontalPodAutoscaler", "ScaledObject")
    least = [one["spec"].get("minReplicas", one["spec"].get("minReplicaCount")) for one in scaled]
    least += [rendered["Deployment", "regard"]["spec"].get("replicas")]
    assert max(number for number in least if number) >= 2
    settings = environment(rendered)
    assert "REGARD_REDIS_URL" in settings
    assert int(settings["REGARD_KEEP_BYTES"]) < 0.75 * (256 << 20), "the store's --maxmemory"


def test_no_setting_of_the_config_map_is_hidden(rendered):
    """A variable of the container hides one of the ConfigMap, where docs/kubernetes.md says that settings belong."""
    container = api(rendered["Deployment", "regard"])
    assert {one["name"] for one in container["env"] if "value" in one} <= {"REGARD_REDIS_URL"}


def test_one_thing_sets_the_number_of_replicas(rendered):
    scaled = of_kind(rendered, "HorizontalPodAutoscaler", "ScaledObject")
    for scaler in scaled:
        target = scaler["spec"]["scaleTargetRef"]
        assert target["name"] == "regard"
        assert target.get("kind", "Deployment") == "Deployment"
    assert len(scaled) + ("replicas" in rendered["Deployment", "regard"]["spec"]) == 1


def test_a_pod_has_the_time_to_finish_what_is_in_flight(rendered):
    deployment, settings = rendered["Deployment", "regard"], environment(rendered)
    before = api(deployment)["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = int(settings.get("REGARD_DRAIN_SECONDS", Settings().drain_seconds))
    grace = int(settings["REGARD_SHUTDOWN_GRACE_SECONDS"])
    assert before + drain + grace + MARGIN_SECONDS <= pod(deployment)["terminationGracePeriodSeconds"]


def test_a_slow_start_does_not_fail_a_rollout(rendered):
    deployment = rendered["Deployment", "regard"]
    startup = api(deployment)["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] < deployment["spec"]["progressDeadlineSeconds"]


def test_every_mount_has_its_volume_and_every_volume_a_mount(rendered):
    for workload in of_kind(rendered, "Deployment"):
        mounts = {mount["name"] for one in containers(workload) for mount in one.get("volumeMounts", [])}
        assert mounts == {volume["name"] for volume in pod(workload).get("volumes", [])}
    settings = environment(rendered)
    places = {mount["mountPath"]: mount for mount in api(rendered["Deployment", "regard"])["volumeMounts"]}
    assert places.keys() <= {
        "/tmp",
        "/keys",
        *(settings.get(f"REGARD_{name}") for name in ("ARTIFACTS", "ENGINE_CACHE")),
    }
    assert {place for place, mount in places.items() if not mount.get("readOnly")} <= {"/tmp", "/cache"}
    assert ("REGARD_API_KEYS" in settings) == ("/keys" in places)
    assert ("REGARD_ENGINE_CACHE" in settings) == ("/cache" in places)


def test_no_variable_of_kubernetes_own_is_taken_for_a_setting(rendered):
    # A Service called regard would give each pod REGARD_PORT=tcp://... and REGARD_SERVICE_HOST.
    assert {name for kind, name in rendered if kind == "Service"} >= {"regard", "regard-admin"}
    for workload in of_kind(rendered, "Deployment"):
        assert pod(workload)["enableServiceLinks"] is False


def test_the_cores_follow_the_cpu_request(rendered):
    (cores,) = (one for one in api(rendered["Deployment", "regard"])["env"] if one["name"] == "REGARD_CORES")
    assert cores["valueFrom"]["resourceFieldRef"] == {"containerName": "api", "resource": "requests.cpu"}


def test_the_gpu_overlay_demands_one_gpu_and_does_not_wait_for_a_second():
    (patch,) = documents(K8S / "overlays/gpu/deployment.yaml")
    assert api(patch)["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert pod(patch)["tolerations"][0]["key"] == "nvidia.com/gpu"
    assert pod(patch)["nodeSelector"] == {"kubernetes.io/arch": "amd64"}, "its packages exist for no other"
    assert patch["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
