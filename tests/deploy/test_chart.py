"""The Helm chart: what helm makes of it is what kustomize makes of the overlays, and no two releases meet."""

import copy
import json
import re

import jsonschema
import pytest
import yaml

from deploy import chart, chart_values
from tests.conftest import ROOT
from tests.samples.kubernetes import (
    NEWEST,
    OLDEST,
    api,
    containers,
    documents,
    key,
    needs_kustomize,
    of_kind,
    pod,
    render_with,
    validate,
)

CHART = ROOT / "k8s/chart"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
MONITORING = {"monitoring": {"serviceMonitor": True, "rules": True, "dashboard": True}}
GPU = {"gpu": {"enabled": True}}
AS_COMPONENTS = {
    "keys": {"keys": {"enabled": True}},
    "metrics-key": {"keys": {"metricsSecret": "regard-metrics-key"}},
    "keda": {"autoscaling": {"kind": "keda"}},
    "custom-metrics": {"autoscaling": {"kind": "custom-metrics"}},
    "gateway": {"gateway": {"enabled": True}},
    "ingress": {"ingress": {"enabled": True}},
    "store-external": {"store": {"kind": "external"}},
    "models-image": {"models": {"from": "image"}},
    "models-init": {"models": {"from": "init"}},
    "models-claim": {"models": {"from": "claim"}},
    "openshift": {"openshift": True},
    "tensorrt": {"gpu": {"tensorrt": True}},
}
"""The values that stand for each component."""
CASES = [
    ("cpu",),
    ("gpu",),
    *(("cpu", name) for name in AS_COMPONENTS if name not in ("tensorrt", "metrics-key")),
    ("gpu", "tensorrt"),
    ("cpu", "keys", "metrics-key"),
    ("gpu", "keda"),
    ("gpu", "custom-metrics", "ingress", "openshift"),
    ("gpu", "keys", "metrics-key", "gateway", "keda", "store-external", "models-claim", "tensorrt"),
    ("cpu", "keys", "gateway", "ingress", "custom-metrics", "models-init", "openshift"),
]  # fmt: skip


def merged(*parts):
    found = {}
    for part in parts:
        for name, value in part.items():
            found[name] = merged(found.get(name, {}), value) if isinstance(value, dict) else value
    return found


def install(*values, name="regard", namespace="regard"):
    """What helm renders for a release, by kind and name."""
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk, which renders charts, is absent")
    with helm.Chart.load(CHART) as loaded:
        rendered = loaded.render(merged(*values), name=name, namespace=namespace)
    texts = [text for file, text in rendered.items() if file.endswith(".yaml")]
    found = [one for text in texts for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]
    by_key = {key(one): one for one in found}
    assert len(by_key) == len(found)
    return by_key


def installed(case):
    """What helm renders for an overlay with components."""
    overlay, *components = case
    return install(MONITORING, *([GPU] if overlay == "gpu" else []), *(AS_COMPONENTS[one] for one in components))


def compared(rendered):
    """What two renderings have in common: lists of named items in any order, without what the chart adds on purpose."""

    def plain(node):
        if isinstance(node, list):
            items = [plain(one) for one in node]
            named = all(isinstance(one, dict) and "name" in one for one in items)
            return sorted(items, key=lambda one: one["name"]) if named else items
        if isinstance(node, dict):
            return {name: plain(one) for name, one in node.items() if name != "app.kubernetes.io/instance"}
        return node.replace(',pod=~"regard-[a-z0-9]+-[a-z0-9]+"', "") if isinstance(node, str) else node

    found = {}
    for document in map(copy.deepcopy, rendered.values()):
        if document["kind"] == "Namespace":  # helm makes it, or is told which
            continue
        name = document["metadata"]["name"]
        if name.startswith("regard-settings-"):  # the hash, which is an annotation of the chart
            document = json.loads(json.dumps(document).replace(name, "regard-settings"))
        if name == "regard-deny-all":
            document["metadata"]["name"] = "deny-all"
            document["spec"]["podSelector"].pop("matchLabels")  # a namespace may have pods of others
        if key(document) == ("Deployment", "regard"):
            document["spec"]["template"]["metadata"].pop("annotations", None)
            for source in api(document)["envFrom"]:
                source["configMapRef"]["name"] = "regard-settings"
        found[key(document)] = plain(document)
    return found


@needs_kustomize
def test_the_chart_is_what_its_generator_writes(tmp_path):
    chart.write(tmp_path / "chart")
    written = {path.relative_to(tmp_path / "chart"): path.read_text() for path in (tmp_path / "chart").rglob("*.*")}
    kept = {path.relative_to(CHART): path.read_text() for path in CHART.rglob("*.*")}
    assert {str(name) for name in written if written[name] != kept.get(name)} == set(), "make chart"
    assert written.keys() == kept.keys()


@needs_kustomize
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_helm_installs_what_kustomize_applies(case):
    overlay, *components = case
    ours = compared(installed(case))
    theirs = compared(render_with(overlay, *components, monitoring=True))
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name] == theirs[name], name


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_what_helm_installs_satisfies_the_strict_schemas(case, version):
    for document in installed(case).values():
        validate(document, version)


def test_helm_lints_the_chart_without_a_warning():
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk, which lints charts, is absent")
    report = helm.lint(CHART, strict=True)
    assert report["errors"] == []
    assert [one["error"] for one in report["messages"]] == ["icon is recommended"]


def test_what_values_say_takes_the_place_of_what_the_chart_has():
    selector = {"kubernetes.io/arch": "arm64"}
    requests = {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"memory": "4Gi", "nvidia.com/gpu": 2}}
    taint = [{"key": "dedicated", "operator": "Exists"}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    digest = f"sha256:{'a' * 64}"
    rendered = install(
        GPU,
        {
            "image": {"repository": "registry.example.com/regard", "digest": digest, "pullSecrets": [{"name": "mine"}]},
            "gpu": {"runtimeClassName": "nvidia"},
            "nodeSelector": selector,
            "tolerations": taint,
            "affinity": affinity,
            "resources": requests,
            "settings": {"REGARD_MAX_IMAGES": "8", "REGARD_DEVICE": "auto"},
            "replicas": 3,
            "tmpSize": "4Gi",
        },
    )
    deployment = rendered["Deployment", "regard"]
    assert deployment["spec"]["replicas"] == 3
    spec = pod(deployment)
    assert (spec["nodeSelector"], spec["tolerations"], spec["affinity"]) == (selector, taint, affinity)
    assert spec["runtimeClassName"] == "nvidia"
    assert api(deployment)["image"] == f"registry.example.com/regard@{digest}"
    assert api(deployment)["resources"] == requests
    assert rendered["ServiceAccount", "regard"]["imagePullSecrets"] == [{"name": "mine"}]
    assert next(one for one in spec["volumes"] if one["name"] == "tmp")["emptyDir"]["sizeLimit"] == "4Gi"
    # the last source of variables holds
    sources = [one["configMapRef"]["name"] for one in api(deployment)["envFrom"]]
    assert sources == ["regard-settings", "regard-settings-own"]
    assert rendered["ConfigMap", "regard-settings-own"]["data"] == {"REGARD_MAX_IMAGES": "8", "REGARD_DEVICE": "auto"}


def test_a_changed_setting_replaces_the_pods_and_a_changed_number_does_not():
    def checksum(*values):
        return install(*values)["Deployment", "regard"]["spec"]["template"]["metadata"]["annotations"]

    plain = checksum()
    assert checksum({"settings": {"REGARD_MAX_IMAGES": "8"}}) != plain
    assert checksum({"keys": {"enabled": True}}) != plain, "which changes the settings"
    assert checksum({"autoscaling": {"max": 20}}) == plain


@pytest.mark.parametrize("namespaces", [("one", "one"), ("one", "two")], ids=["one namespace", "two namespaces"])
@pytest.mark.parametrize("scaling", ["cpu", "keda", "custom-metrics"])
def test_two_releases_side_by_side_have_nothing_in_common(namespaces, scaling):
    values = ({"autoscaling": {"kind": scaling}, "monitoring": {"serviceMonitor": True, "dashboard": True}},)
    first, second = (install(*values, name=name, namespace=space)
                     for name, space in zip(("film", "film-b"), namespaces, strict=True))  # fmt: skip
    for one, other, name in ((first, second, "film"), (second, first, "film-b")):
        names = {document["metadata"]["name"] for document in one.values()}
        assert all(each == name or each.startswith(f"{name}-") for each in names)
        assert not {(k, d["metadata"]["namespace"]) for k, d in one.items()} & {
            (k, d["metadata"]["namespace"]) for k, d in other.items()
        }
        strangers = [workload["spec"]["template"]["metadata"]["labels"] for workload in of_kind(other, "Deployment")]
        strangers += [document["metadata"].get("labels", {}) for document in of_kind(other, "Service")]
        for selector in selectors(list(one.values())):
            if selector:
                assert not any(selector.items() <= labels.items() for labels in strangers), selector
        deployment = one["Deployment", name]
        variables = {variable["name"]: variable.get("value") for variable in api(deployment)["env"]}
        assert variables["REGARD_REDIS_URL"] == f"redis://{name}-store:6379"
        assert ("Service", f"{name}-store") in one
        for scaler in of_kind(one, "HorizontalPodAutoscaler", "ScaledObject"):
            assert scaler["spec"]["scaleTargetRef"]["name"] == name
    if scaling == "keda":
        queries = [one["ScaledObject", name]["spec"]["triggers"][0]["metadata"]["query"]
                   for one, name in ((first, "film"), (second, "film-b"))]  # fmt: skip
        assert 'pod=~"film-[a-z0-9]+-[a-z0-9]+"' in queries[0]
        assert f'namespace="{namespaces[1]}",pod=~"film-b-' in queries[1]
        pattern = re.search(r'pod=~"([^"]+)"', queries[0])[1]
        assert re.fullmatch(pattern, "film-6d4cf56db6-x7k2p")
        assert not re.fullmatch(pattern, "film-b-6d4cf56db6-x7k2p"), "a pod of the other"


def selectors(node):
    """Every mapping of labels that selects something, wherever it is in a document."""
    if isinstance(node, list):
        return [found for one in node for found in selectors(one)]
    if not isinstance(node, dict):
        return []
    found = [node["matchLabels"]] if "matchLabels" in node else []
    if node.get("kind") == "Service":
        found.append(node["spec"]["selector"])
    return found + [one for value in node.values() for one in selectors(value)]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"autoscaling": {"kind": "both"}}, "keda"),
        ({"model": {"from": "claim"}}, "model"),
        ({"models": {"from": "folder"}}, "bundled"),
        ({"settings": {"REGARD_MAX_IMAGES": 8}}, "string"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"replicas": 0}, "replicas"),
        ({"tmpSize": "512"}, "tmpSize"),
    ],
)
def test_values_that_the_chart_does_not_know_are_refused(values, said):
    with pytest.raises(jsonschema.ValidationError) as refusal:
        jsonschema.validate(merged(VALUES, values), SCHEMA)
    assert said in str(refusal.value)
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk, which reads schemas, is absent")
    with helm.Chart.load(CHART) as loaded, pytest.raises(helm.HelmError):
        loaded.validate_schema(merged(VALUES, values))


def test_the_defaults_satisfy_the_schema_and_every_value_has_a_template_that_reads_it():
    jsonschema.validate(VALUES, SCHEMA)
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())

    def paths(node, path=""):
        for name, one in node.items():
            inner = f"{path}.{name}"
            yield from (
                paths(one, inner) if isinstance(one, dict) and one and inner[1:] not in chart_values.OPEN else [inner]
            )

    assert [path for path in paths(VALUES) if f".Values{path}" not in text] == []


def test_what_prometheus_and_grafana_write_in_braces_is_left_to_them():
    rendered = install(MONITORING)
    rules = rendered["PrometheusRule", "regard"]
    (original,) = documents(ROOT / "k8s/monitoring/prometheusrule.yaml")
    assert rules["spec"] == original["spec"]
    board = rendered["ConfigMap", "regard-dashboard"]["data"]["regard.json"]
    assert json.loads(board) == json.loads((ROOT / "k8s/monitoring/dashboard.json").read_text())


def test_every_container_of_a_release_is_one_of_the_overlays():
    images = {container["image"] for workload in of_kind(install(), "Deployment") for container in containers(workload)}
    assert images == {f"regard:{chart_values.VERSION}-cpu", VALUES["store"]["image"]}
