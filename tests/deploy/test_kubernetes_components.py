"""What each component changes, and that docs/kubernetes.md explains it."""

import re
import tomllib

import pytest
import yaml

from service.settings import Settings
from tests.conftest import ROOT
from tests.samples.kubernetes import (
    COMPONENTS,
    K8S,
    NEWEST,
    OVERLAYS,
    api,
    containers,
    documents,
    environment,
    key,
    kustomization,
    needs_kustomize,
    pod,
    render,
    validate,
)

EXAMPLE = K8S / "overlays/example"
PAPER = (ROOT / "docs/kubernetes.md").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
EXAMPLES = [
    document for block in re.findall(r"```yaml\n(.*?)```", PAPER, re.DOTALL) for document in yaml.safe_load_all(block)
]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGES = {
    service["image"] for service in yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
}
RECORDED = {
    rule["record"]
    for group in yaml.safe_load((K8S / "monitoring/rules.yaml").read_text())["groups"]
    for rule in group["rules"]
    if "record" in rule
}
SCALED = 0.1
"""An autoscaler ignores a load that differs from its target by less than this share."""


def volume(workload, name):
    (found,) = (one for one in pod(workload).get("volumes", []) if one["name"] == name)
    return found


def mount(container, name):
    (found,) = (one for one in container["volumeMounts"] if one["name"] == name)
    return found


# Models


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_without_a_component_the_models_are_those_of_the_image(overlay, render_with):
    deployment = render_with(overlay)["Deployment", "regard"]
    assert [one["name"] for one in pod(deployment)["volumes"]] == ["tmp"]
    assert "initContainers" not in pod(deployment)


@pytest.mark.parametrize("component", ["models-image", "models-init", "models-claim"])
def test_models_of_ones_own_are_where_the_service_looks_for_them_and_cannot_be_changed(component, render_with):
    rendered = render_with("cpu", component)
    deployment = rendered["Deployment", "regard"]
    place = environment(rendered)["REGARD_ARTIFACTS"]
    assert mount(api(deployment), "artifacts") == {"name": "artifacts", "mountPath": place, "readOnly": True}
    source = volume(deployment, "artifacts")
    if component == "models-image":
        assert source["image"]["reference"] == f"regard-artifacts:{VERSION}"
    elif component == "models-claim":
        assert source["persistentVolumeClaim"] == {"claimName": "regard-artifacts", "readOnly": True}
    else:
        (first,) = pod(deployment)["initContainers"]
        assert first["image"] == f"regard-artifacts-init:{VERSION}"
        assert first["command"] == [
            "cp",
            "-r",
            "--no-preserve=mode",
            "/models/.",
            f"{mount(first, 'artifacts')['mountPath']}/",
        ]
        assert "emptyDir" in source


# Secrets


def test_keys_are_read_where_the_secret_is_mounted(render_with):
    rendered = render_with("cpu", "keys")
    deployment = rendered["Deployment", "regard"]
    secret = volume(deployment, "keys")["secret"]
    folder = mount(api(deployment), "keys")["mountPath"]
    file = environment(rendered)["REGARD_API_KEYS"].removeprefix(f"{folder}/")
    assert secret == {"secretName": "regard-keys", "defaultMode": 0o440}  # readable by the group that is the fsGroup
    assert f"create secret generic {secret['secretName']} --from-file={file}" in PAPER


def test_a_store_of_ones_own_is_named_by_a_secret_and_ours_is_gone(render_with):
    rendered = render_with("cpu", "store-external")
    (url,) = (one for one in api(rendered["Deployment", "regard"])["env"] if one["name"] == "REGARD_REDIS_URL")
    secret = url["valueFrom"]["secretKeyRef"]
    assert f"create secret generic {secret['name']} \\\n  --from-literal={secret['key']}=" in PAPER
    assert not [name for name in rendered if name[1] in ("regard-store", "regard-to-store")]


def test_prometheus_sends_its_key(render_with):
    rendered = render_with("cpu", "keys", "metrics-key", monitoring=True)
    plain = render_with("cpu", monitoring=True)["ServiceMonitor", "regard"]["spec"]
    (endpoint,), (without,) = rendered["ServiceMonitor", "regard"]["spec"]["endpoints"], plain["endpoints"]
    credentials = endpoint.pop("authorization")["credentials"]
    assert endpoint == without  # the list is replaced whole, so the component says the rest once more
    assert f"secret generic {credentials['name']} --from-literal={credentials['key']}=" in PAPER


def test_the_store_is_bounded_and_is_the_one_of_compose(render_with):
    (container,) = containers(render_with("cpu")["Deployment", "regard-store"])
    options = dict(zip(container["args"][::2], container["args"][1::2], strict=True))
    assert (options["--save"], options["--appendonly"]) == ("", "no")  # nothing is written
    limit = container["resources"]["limits"]["memory"]
    assert int(options["--maxmemory"].removesuffix("mb")) * 1.25 <= int(limit.removesuffix("Mi"))
    assert {image for image in IMAGES if image.startswith("valkey/")} <= {container["image"]}


# Scaling


def test_the_autoscaler_acts_on_a_replica_that_cannot_use_both_of_its_cores(render_with):
    (metric,) = render_with("cpu")["HorizontalPodAutoscaler", "regard"]["spec"]["metrics"]
    assert metric["resource"]["target"]["averageUtilization"] * (1 + SCALED) < 75


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_keda_follows_a_series_that_is_recorded(overlay, render_with):
    scaled = render_with(overlay, "keda")["ScaledObject", "regard"]["spec"]
    queues, cpu = scaled["triggers"]
    assert set(re.findall(r"regard:[\w:]+", queues["metadata"]["query"])) == {"regard:queue_cost:ratio"} <= RECORDED
    assert 0 < float(queues["metadata"]["threshold"]) < 0.5
    # replicas that are not scraped are not idle: no answer is a failure, and then there are more than the least
    assert queues["metadata"]["ignoreNullValues"] == "false"
    assert queues["metricType"] == "AverageValue"
    assert scaled["fallback"]["replicas"] > scaled["minReplicaCount"] >= 2
    assert (cpu["type"], cpu["metadata"]["value"]) == ("cpu", "50")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_adapter_serves_the_metric_that_the_autoscaler_asks_for(overlay, render_with):
    metrics = render_with(overlay, "custom-metrics")["HorizontalPodAutoscaler", "regard-queues"]["spec"]["metrics"]
    (asked,) = (one["pods"]["metric"]["name"] for one in metrics if one["type"] == "Pods")
    (rule,) = (rule for document in EXAMPLES if "rules" in document for rule in document["rules"]["custom"])
    assert rule["name"]["as"] == asked
    assert rule["seriesQuery"].partition("{")[0] in RECORDED


def test_tensorrt_has_a_folder_for_its_engines_and_the_time_to_build_them(render_with):
    rendered = render_with("gpu", "tensorrt")
    deployment, settings = rendered["Deployment", "regard"], environment(rendered)
    assert settings["REGARD_DEVICE"] == "tensorrt"
    assert mount(api(deployment), "engines")["mountPath"] == settings["REGARD_ENGINE_CACHE"]
    startup = api(deployment)["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 1200
    assert api(deployment)["resources"]["limits"]["nvidia.com/gpu"] == 1


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_on_openshift_the_namespace_chooses_the_user_and_names_are_looked_up_where_its_dns_is(overlay, render_with):
    rendered, plain = render_with(overlay, "openshift"), render_with(overlay)
    chosen = {"runAsUser", "runAsGroup", "fsGroup"}
    for name in ("regard", "regard-store"):
        theirs, ours = (pod(one["Deployment", name]) for one in (rendered, plain))
        kept = {field: value for field, value in ours["securityContext"].items() if field not in chosen}
        assert ours["securityContext"].keys() >= chosen
        assert theirs == ours | {"securityContext": kept}
    (dns,) = rendered["NetworkPolicy", "regard-dns"]["spec"]["egress"]
    assert dns["to"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}}}]
    assert {(port["protocol"], port["port"]) for port in dns["ports"]} == {("UDP", 5353), ("TCP", 5353)}


# Documents


@needs_kustomize
def test_the_example_serves_an_image_of_ones_own_at_a_host_of_ones_own():
    rendered = render(EXAMPLE)
    (image,) = kustomization(EXAMPLE)["images"]
    assert api(rendered["Deployment", "regard"])["image"] == f"{image['newName']}:{image['newTag']}"
    assert rendered["HTTPRoute", "regard"]["spec"]["hostnames"] == ["models.example.com"]
    assert "REGARD_API_KEYS" in environment(rendered)
    assert {kind for kind, _ in rendered} >= {"ScaledObject", "HTTPRoute", "ServiceMonitor"}
    assert kustomization(EXAMPLE) in EXAMPLES


def test_every_component_is_explained():
    assert set(re.findall(r"^\| `([a-z-]+)` \| ", PAPER, re.MULTILINE)) >= set(COMPONENTS)


def test_every_target_that_the_paper_builds_is_a_stage_of_the_dockerfile():
    built = set(re.findall(r"--target ([\w-]+)", PAPER))
    assert built >= {"cpu", "with-models", "artifacts", "artifacts-init"}
    assert built <= set(re.findall(r"^FROM \S+ AS ([\w-]+)$", DOCKERFILE, re.MULTILINE))


def test_the_image_with_tensorrt_is_built_by_the_python_and_in_the_folder_of_ours():
    (recipe,) = re.findall(r"```dockerfile\n(.*?)```", PAPER, re.DOTALL)
    build, copied, install, ours, back = recipe.replace("\\\n", "").splitlines()
    (python,) = re.findall(r"^ARG BASE_IMAGE=(\S+)@", DOCKERFILE, re.MULTILINE)
    image = f"registry.example.com/regard:{VERSION}-gpu"
    assert (build, ours) == (f"FROM {python} AS tensorrt", f"FROM {image}")
    assert (copied, back) == tuple(f"COPY --from={one} /opt/venv /opt/venv" for one in (image, "tensorrt"))
    pip = re.match(r"RUN (.*? install) ", install)[1]
    assert f"RUN {pip} --no-cache-dir" in DOCKERFILE


def test_the_namespace_is_there_before_its_secrets():
    (commands,) = (one for one in re.findall(r"```sh\n(.*?)```", PAPER, re.DOTALL) if "service.keys alice" in one)
    assert commands.startswith("kubectl apply -f k8s/base/namespace.yaml")
    assert "kubectl -n regard create secret" in commands


@pytest.mark.parametrize("section", ["KEDA", "An adapter"])
def test_the_old_autoscaler_is_deleted_before_the_new_one_is_applied(section):
    text = PAPER.partition(f"**{section}.**")[2].partition("\n**")[0]
    assert "kubectl -n regard delete hpa regard" in text
    assert "before you apply" in " ".join(text.split())


def test_every_folder_and_setting_of_the_paper_exists():
    for path in re.findall(r"k8s/[\w/.-]+\w", PAPER):
        assert (ROOT / path).exists(), path
    known = {f"REGARD_{name}".upper() for name in Settings.model_fields}
    assert set(re.findall(r"\bREGARD_[A-Z_]+", PAPER)) <= known


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.get("kind", "values"))
def test_the_examples_of_the_paper_are_valid(example):
    if example.get("kind") == "Kustomization":
        for name in (*example["resources"], *example.get("components", [])):
            assert (EXAMPLE / name / "kustomization.yaml").exists()
        literals = [one for made in example.get("configMapGenerator", []) for one in made["literals"]]
        Settings.model_validate({line.partition("=")[0][7:].lower(): line.partition("=")[2] for line in literals})
    elif example.get("kind") == "Deployment":  # a patch
        assert key(example) in {key(one) for one in documents(K8S / "base/deployment.yaml")}
    elif "kind" in example:
        validate(example, NEWEST)
