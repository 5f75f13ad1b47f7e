"""k8s/: schemas, restricted pods, the time a pod has to drain, and that kustomize finds what it names."""

import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from service.settings import Settings

ROOT = Path(__file__).parents[2]
BASE = ROOT / "k8s/base"
OVERLAYS = ["cpu", "gpu"]
OLDEST, NEWEST = "1.31", "1.37"
MARGIN_SECONDS = 10

Document = dict[str, Any]

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl, which renders overlays, is absent")


def documents(path: Path) -> list[Document]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def kustomization(folder: Path) -> Document:
    (document,) = documents(folder / "kustomization.yaml")
    return document


def key(document: Document) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


RESOURCES: dict[tuple[str, str], Document] = {
    key(document): document
    for name in kustomization(BASE)["resources"]
    if (BASE / name).is_file()
    for document in documents(BASE / name)
}
DEPLOYMENT = RESOURCES["Deployment", "regard"]
JOB = RESOURCES["Job", "regard-export"]


def settings(name: str = "base") -> dict[str, str]:
    folder = BASE if name == "base" else ROOT / "k8s/overlays" / name
    (generator,) = kustomization(folder)["configMapGenerator"]
    return dict(literal.split("=", 1) for literal in generator["literals"])


def render(overlay: str) -> dict[tuple[str, str], Document]:
    """An overlay as it would be applied, without a cluster."""
    command = ["kubectl", "kustomize", f"k8s/overlays/{overlay}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {key(document): document for document in yaml.safe_load_all(done.stdout)}


def pod(workload: Document) -> Document:
    spec: Document = workload["spec"]["template"]["spec"]
    return spec


def containers(workload: Document) -> list[Document]:
    return pod(workload).get("initContainers", []) + pod(workload)["containers"]


def api(workload: Document) -> Document:
    (container,) = (one for one in pod(workload)["containers"] if one["name"] == "api")
    return container


def assert_restricted(workload: Document) -> None:
    """The pod security standard 'restricted', and a root file system nobody writes to."""
    spec = pod(workload)
    assert not any(spec.get(shared) for shared in ("hostNetwork", "hostPID", "hostIPC"))
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["securityContext"]["fsGroup"] == 10001
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    for volume in spec["volumes"]:
        assert set(volume) - {"name"} <= {"emptyDir", "persistentVolumeClaim", "configMap"}, volume
    for container in containers(workload):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["readOnlyRootFilesystem"] is True
        assert not {"privileged", "procMount", "runAsUser", "seccompProfile"} & set(context)
        assert not any("hostPort" in port for port in container.get("ports", []))


def assert_bounded(workload: Document) -> None:
    for container in containers(workload):
        resources = container["resources"]
        assert resources["requests"]["memory"] == resources["limits"]["memory"], container["name"]
        assert "cpu" in resources["requests"], container["name"]
        assert "cpu" not in resources["limits"], container["name"]


def assert_drains_in_time(deployment: Document, set_: dict[str, str]) -> None:
    before = api(deployment)["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = int(set_.get("REGARD_DRAIN_SECONDS", Settings().drain_seconds))
    grace = int(set_["REGARD_SHUTDOWN_GRACE_SECONDS"])
    assert before + drain + grace + MARGIN_SECONDS <= pod(deployment)["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", RESOURCES, ids="-".join)
def test_every_resource_satisfies_the_strict_schema_of_its_kind(name, version):
    kubernetes_validate.validate(RESOURCES[name], version, strict=True)


@needs_kubectl
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_rendered_overlay_satisfies_the_strict_schemas(overlay, version):
    for document in render(overlay).values():
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("workload", [DEPLOYMENT, JOB], ids=["deployment", "job"])
def test_every_pod_is_restricted_and_bounded(workload):
    assert_restricted(workload)
    assert_bounded(workload)


def test_the_namespace_refuses_pods_that_are_not_restricted():
    assert RESOURCES["Namespace", "regard"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_a_pod_has_the_time_to_finish_what_is_in_flight():
    assert_drains_in_time(DEPLOYMENT, settings())


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_loosens_nothing(overlay):
    rendered = render(overlay)
    deployment = rendered["Deployment", "regard"]
    del rendered["Namespace", "regard"]
    assert {document["metadata"].get("namespace") for document in rendered.values()} == {"regard"}
    for workload in (deployment, rendered["Job", "regard-export"]):
        assert_restricted(workload)
        assert_bounded(workload)
    (config,) = (document for kind_and_name, document in rendered.items() if kind_and_name[0] == "ConfigMap")
    assert api(deployment)["envFrom"] == [
        {"configMapRef": {"name": config["metadata"]["name"]}},
        {"secretRef": {"name": "regard", "optional": True}},
    ]
    assert config["data"] == settings() | settings(overlay)
    assert_drains_in_time(deployment, config["data"])


@pytest.mark.parametrize("folder", [BASE, *(ROOT / "k8s/overlays" / name for name in OVERLAYS)], ids=lambda it: it.name)
def test_a_kustomization_names_every_file_beside_it_and_no_other(folder):
    stated = kustomization(folder)
    named = {*stated["resources"], *(patch["path"] for patch in stated.get("patches", []))}
    for name in named:
        assert (folder / name).exists(), name
    beside = {path.name for path in folder.iterdir()} - {"kustomization.yaml"}
    assert beside == {name for name in named if "/" not in name}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_patch_has_something_to_change(overlay):
    folder = ROOT / "k8s/overlays" / overlay
    for patch in kustomization(folder)["patches"]:
        for document in documents(folder / patch["path"]):
            target = RESOURCES[key(document)]
            assert target["apiVersion"] == document["apiVersion"]
            if document["kind"] == "Deployment":
                known = {container["name"] for container in containers(target)}
                assert {container["name"] for container in containers(document)} <= known


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_tags_every_image_with_the_projects_version(overlay):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    tagged = {image["name"]: image["newTag"] for image in kustomization(ROOT / "k8s/overlays" / overlay)["images"]}
    assert tagged == {"regard": f"{version}-{overlay}", "regard-export": version}
    assert set(tagged) == {container["image"] for workload in (DEPLOYMENT, JOB) for container in containers(workload)}
    built = {
        service["image"] for service in yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    }
    assert {f"{name}:{tag}" for name, tag in tagged.items()} <= built


def test_every_probe_asks_a_port_and_a_path_that_the_service_has():
    ports = {port["name"]: port["containerPort"] for port in api(DEPLOYMENT)["ports"]}
    assert ports == {"http": int(settings()["REGARD_PORT"])}
    asked = {name: api(DEPLOYMENT)[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert {ask["port"] for ask in asked.values()} == {"http"}
    assert asked["livenessProbe"]["path"] == "/health/live"
    assert asked["readinessProbe"]["path"] == asked["startupProbe"]["path"] == "/health/ready"


def test_a_slow_start_does_not_fail_a_rollout():
    startup = api(DEPLOYMENT)["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] < DEPLOYMENT["spec"]["progressDeadlineSeconds"]


def test_everything_that_selects_pods_selects_the_replicas():
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    selectors = [
        DEPLOYMENT["spec"]["selector"]["matchLabels"],
        RESOURCES["Service", "regard"]["spec"]["selector"],
        RESOURCES["PodDisruptionBudget", "regard"]["spec"]["selector"]["matchLabels"],
        RESOURCES["NetworkPolicy", "regard"]["spec"]["podSelector"]["matchLabels"],
        *(spread["labelSelector"]["matchLabels"] for spread in pod(DEPLOYMENT)["topologySpreadConstraints"]),
    ]
    assert all(selector == labels for selector in selectors)
    assert JOB["spec"]["template"]["metadata"]["labels"] != labels


def test_the_network_admits_requests_to_the_port_that_is_served():
    (rule,) = RESOURCES["NetworkPolicy", "regard"]["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [int(settings()["REGARD_PORT"])]
    assert RESOURCES["NetworkPolicy", "deny-all"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_the_replicas_wait_for_what_the_job_writes_and_cannot_change_it():
    (waiting,) = pod(DEPLOYMENT)["initContainers"]
    (job,) = pod(JOB)["containers"]
    assert job["args"] == [*waiting["args"], "--to", settings()["REGARD_ARTIFACTS"]]
    for container in containers(DEPLOYMENT):
        (mount,) = (one for one in container["volumeMounts"] if one["name"] == "artifacts")
        assert mount == {"name": "artifacts", "mountPath": settings()["REGARD_ARTIFACTS"], "readOnly": True}
    claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for work in (DEPLOYMENT, JOB)
        for volume in pod(work)["volumes"][:1]
    }
    assert claims == {"regard-artifacts"}
    assert ("PersistentVolumeClaim", "regard-artifacts") in RESOURCES


def test_no_variable_of_kubernetes_own_is_taken_for_a_setting():
    # A Service called regard would give each pod REGARD_PORT=tcp://... and REGARD_SERVICE_HOST.
    assert pod(DEPLOYMENT)["enableServiceLinks"] is False


def test_the_threads_follow_the_cpu_request():
    (threads,) = api(DEPLOYMENT)["env"]
    assert threads["name"] == "REGARD_THREADS"
    assert threads["valueFrom"]["resourceFieldRef"] == {"containerName": "api", "resource": "requests.cpu"}


def test_the_gpu_overlay_demands_one_gpu_and_does_not_wait_for_a_second():
    (patch,) = documents(ROOT / "k8s/overlays/gpu/deployment.yaml")
    assert api(patch)["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert pod(patch)["tolerations"][0]["key"] == "nvidia.com/gpu"
    assert patch["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert settings("gpu")["REGARD_DEVICE"] == "cuda"
