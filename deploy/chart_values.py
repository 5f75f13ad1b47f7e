"""What the values of the Helm chart say: which rendering a switch stands for, and where each value stands."""

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
LABEL, INSTANCE = "app.kubernetes.io/name", "app.kubernetes.io/instance"
RELEASE = "{{ .Release.Name }}"
REPLICAS, STORE, SETTINGS = ("Deployment", "regard"), ("Deployment", "regard-store"), ("ConfigMap", "regard-settings")
AUTOSCALER = ("HorizontalPodAutoscaler", "regard")
Key = tuple[str, str]
Documents = dict[Key, dict[str, Any]]


@dataclass(frozen=True)
class Given:
    """An expression of a template in the place of a node; INDENT in it is the indent of what stands below its name."""

    text: str


def value(path: str, otherwise: str = "") -> Given:
    """Return the expression of a value that is a text."""
    return Given(f"{{{{ .Values.{path}{f' | default {json.dumps(otherwise)}' if otherwise else ''} | quote }}}}")


def number(path: str) -> Given:
    """Return the expression of a value that is a number."""
    return Given(f"{{{{ .Values.{path} }}}}")


def below(path: str) -> Given:
    """Return the expression of a value that is a mapping or a list."""
    return Given(f"{{{{- toYaml .Values.{path} | nindent INDENT }}}}")


IMAGE = Given(
    '"{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:'
    f'{{{{ .Values.image.tag | default (ternary "{VERSION}-gpu" "{VERSION}-cpu" .Values.gpu.enabled) }}}}{{{{ end }}}}"'
)
QUERY = (
    'sum(max by (pod) (max_over_time(regard:queue_cost:ratio{namespace="{{ .Release.Namespace }}",'
    'pod=~"{{ .Release.Name }}-[a-z0-9]+-[a-z0-9]+"}[1m])))'
)
CHECKSUM = (
    '{{ print (include (print $.Template.BasePath "/configmap-settings.yaml") .) '
    "(toYaml .Values.settings) | sha256sum | quote }}"
)

POD = "spec/template/spec"
EXPRESSIONS: tuple[tuple[Key, str, Any], ...] = (
    (REPLICAS, "spec/replicas", number("replicas")),
    (REPLICAS, "spec/template/metadata/+annotations", {"checksum/settings": Given(CHECKSUM)}),
    (REPLICAS, f"{POD}/containers/[api]/image", IMAGE),
    (REPLICAS, f"{POD}/containers/[api]/env/[REGARD_REDIS_URL]/value", Given(f'"redis://{RELEASE}-store:6379"')),
    (REPLICAS, f"{POD}/containers/[api]/env/[REGARD_REDIS_URL]/valueFrom/secretKeyRef/name", value("store.secret")),
    (REPLICAS, f"{POD}/volumes/[tmp]/emptyDir/sizeLimit", value("tmpSize")),
    (REPLICAS, f"{POD}/volumes/[keys]/secret/secretName", value("keys.secret")),
    (REPLICAS, f"{POD}/volumes/[artifacts]/image/reference", value("models.image", f"regard-artifacts:{VERSION}")),
    (REPLICAS, f"{POD}/volumes/[artifacts]/persistentVolumeClaim/claimName", value("models.claim")),
    (REPLICAS, f"{POD}/initContainers/[artifacts]/image", value("models.image", f"regard-artifacts-init:{VERSION}")),
    (STORE, f"{POD}/containers/[store]/image", value("store.image")),
    *(
        (("HorizontalPodAutoscaler", name), f"spec/{field}Replicas", number(f"autoscaling.{field}"))
        for name in ("regard", "regard-queues")
        for field in ("min", "max")
    ),
    (("ScaledObject", "regard"), "spec/minReplicaCount", number("autoscaling.min")),
    (("ScaledObject", "regard"), "spec/maxReplicaCount", number("autoscaling.max")),
    (("ScaledObject", "regard"), "spec/triggers/[prometheus]/metadata/serverAddress", value("autoscaling.prometheus")),
    (("ScaledObject", "regard"), "spec/triggers/[prometheus]/metadata/query", Given(json.dumps(QUERY))),
    (("HTTPRoute", "regard"), "spec/parentRefs", below("gateway.parentRefs")),
    (("HTTPRoute", "regard"), "spec/hostnames", below("gateway.hostnames")),
    (("Ingress", "regard"), "spec/ingressClassName", value("ingress.className")),
    (("Ingress", "regard"), "spec/rules/0/host", value("ingress.host")),
    (("Ingress", "regard"), "spec/tls/0/hosts/0", value("ingress.host")),
    (("Ingress", "regard"), "spec/tls/0/secretName", value("ingress.tlsSecret")),
    (("ServiceMonitor", "regard"), "spec/endpoints/0/authorization/credentials/name", value("keys.metricsSecret")),
    # the namespace may have pods of others
    (("NetworkPolicy", "deny-all"), "spec/podSelector", {"matchLabels": {INSTANCE: Given(f'"{RELEASE}"')}}),
)  # fmt: skip
"""What stands for a value, in every rendering that has the place."""

OWN: Mapping[Key, str] = {
    ("ServiceMonitor", "regard"): ".Values.monitoring.serviceMonitor",
    ("PrometheusRule", "regard"): ".Values.monitoring.rules",
    ("ConfigMap", "regard-dashboard"): ".Values.monitoring.dashboard",
}
"""Resources that are there only if a value says so."""


@dataclass(frozen=True)
class Switch:
    """A condition, and what is rendered where it holds: components on an overlay, and a change of that."""

    when: str
    parts: tuple[str, ...] = ()
    overlay: str = "cpu"
    change: Callable[[Documents], None] = lambda documents: None


def given(key: Key, path: str, node: Any) -> Callable[[Documents], None]:  # noqa: ANN401 # YAML
    """Return the change that puts a value where a rendering may have nothing."""

    def change(documents: Documents) -> None:
        *way, last = path.split("/")
        place = documents[key]
        for part in way:
            place = place[part]
            if isinstance(place, list):
                place = place[0]  # the service's container
        place[last] = node

    return change


def fix_replicas(documents: Documents) -> None:
    """Take the autoscaler's place by a number, as the GPU overlay does."""
    del documents[AUTOSCALER]
    documents[REPLICAS]["spec"]["replicas"] = 2


def leave_replicas(documents: Documents) -> None:
    """Leave the number of replicas to the switches of autoscaling."""
    del documents[REPLICAS]["spec"]["replicas"]
    documents[AUTOSCALER] = KEEP


KEEP: dict[str, Any] = {}
"""A resource as it is without the switch."""


def own_settings(documents: Documents) -> None:
    """Add a ConfigMap of one's own, which the container reads after the other: the last one holds."""
    documents["ConfigMap", "regard-settings-own"] = {
        **{name: node for name, node in documents[SETTINGS].items() if name != "data"},
        "metadata": {**documents[SETTINGS]["metadata"], "name": "regard-settings-own"},
        "data": below("settings"),
    }
    container = documents[REPLICAS]["spec"]["template"]["spec"]["containers"][0]
    container["envFrom"] = [*container["envFrom"], {"configMapRef": {"name": "regard-settings-own"}}]


SWITCHES: Mapping[str, Switch] = {
    "resources": Switch(".Values.resources", change=given(REPLICAS, f"{POD}/containers/resources", below("resources"))),
    **{
        name: Switch(f".Values.{name}", change=given(REPLICAS, f"{POD}/{name}", below(name)))
        for name in ("nodeSelector", "tolerations", "affinity")
    },
    "runtimeClassName": Switch(
        ".Values.gpu.runtimeClassName",
        change=given(REPLICAS, f"{POD}/runtimeClassName", value("gpu.runtimeClassName")),
    ),
    "pullSecrets": Switch(
        ".Values.image.pullSecrets",
        change=given(("ServiceAccount", "regard"), "imagePullSecrets", below("image.pullSecrets")),
    ),
    "settings": Switch(".Values.settings", change=own_settings),
    "tensorrt": Switch(".Values.gpu.tensorrt", ("tensorrt",)),
    "gpu": Switch(".Values.gpu.enabled", overlay="gpu", change=leave_replicas),
    "fixed": Switch(
        'or (eq .Values.autoscaling.kind "none") (and .Values.gpu.enabled (eq .Values.autoscaling.kind "cpu"))',
        change=fix_replicas,
    ),
    "keda": Switch('eq .Values.autoscaling.kind "keda"', ("keda",)),
    "custom-metrics": Switch('eq .Values.autoscaling.kind "custom-metrics"', ("custom-metrics",)),
    "keys": Switch(".Values.keys.enabled", ("keys",)),
    "metrics-key": Switch("and .Values.keys.enabled .Values.keys.metricsSecret", ("metrics-key",)),
    "gateway": Switch(".Values.gateway.enabled", ("gateway",)),
    "ingress": Switch(".Values.ingress.enabled", ("ingress",)),
    "store-external": Switch('eq .Values.store.kind "external"', ("store-external",)),
    "models-image": Switch('eq .Values.models.from "image"', ("models-image",)),
    "models-init": Switch('eq .Values.models.from "init"', ("models-init",)),
    "models-claim": Switch('eq .Values.models.from "claim"', ("models-claim",)),
    "openshift": Switch(".Values.openshift", ("openshift",)),
}
"""By priority: where two change the same field, the first one holds."""

VALUES = """\
# Written by `make chart` from k8s/overlays and k8s/components; docs/kubernetes.md explains what each does.
image:
  repository: regard
  # empty: {version}-cpu, or {version}-gpu
  tag: ""
  # sha256:... in place of the tag
  digest: ""
  # [{{name: my-registry}}]
  pullSecrets: []

models:
  # bundled (those of the image), image (an image volume), init (copied from an image) or claim
  from: bundled
  # of image and init; empty: regard-artifacts:{version} or regard-artifacts-init:{version}
  image: ""
  claim: regard-artifacts

# Settings of docs/settings.md, as texts: REGARD_MAX_IMAGES: "8"
settings: {{}}

# A Secret with the item keys.txt, as `python -m service.keys` writes it
keys:
  enabled: false
  secret: regard-keys
  # a Secret with the item `key`, of the scope metrics, for Prometheus
  metricsSecret: ""

gpu:
  enabled: false
  # nvidia, where NVIDIA's runtime is not the default of the nodes
  runtimeClassName: ""
  tensorrt: false

# cpu (by its usage; with a GPU the number below), keda, custom-metrics or none
autoscaling:
  kind: cpu
  min: {minimum}
  max: {maximum}
  # of keda
  prometheus: {prometheus}
# where nothing scales
replicas: 2

store:
  # own (Valkey in memory) or external
  kind: own
  image: {store}
  # of external: a Secret with the item `url`
  secret: regard-store

gateway:
  enabled: false
  parentRefs: [{{name: gateway, namespace: gateway}}]
  hostnames: [regard.example.com]
ingress:
  enabled: false
  className: ingress
  host: regard.example.com
  tlsSecret: regard-tls

# For Prometheus' operator and Grafana's sidecar. The rules hold for the whole cluster: one install has them.
monitoring:
  serviceMonitor: false
  rules: false
  dashboard: false

# Each in the place of what the chart has, if it is given
resources: {{}}
nodeSelector: {{}}
tolerations: []
affinity: {{}}
# The size of /tmp, in memory: twice the models
tmpSize: {tmp}
openshift: false
"""
CHOICES = {
    "models.from": ["bundled", "image", "init", "claim"],
    "autoscaling.kind": ["cpu", "keda", "custom-metrics", "none"],
    "store.kind": ["own", "external"],
}
PATTERNS = {"image.digest": "^(sha256:[0-9a-f]{64})?$", "tmpSize": "^[0-9]+(Ki|Mi|Gi)$"}
OPEN = {"resources", "nodeSelector", "affinity", "settings"}
CHART = f"""\
# Written by `make chart`.
apiVersion: v2
name: regard
description: Serves Transformers and Vision Transformers over HTTP and shows what they looked at.
type: application
version: {VERSION}
appVersion: {VERSION}
kubeVersion: ">=1.31.0-0"
"""
NOTES = f"""\
regard is starting. Ask it from here:
  kubectl -n {{{{ .Release.Namespace }}}} port-forward service/{RELEASE} 8000
  curl http://127.0.0.1:8000/v1/models
"""


def schema(node: Any, path: str = "") -> dict[str, Any]:  # noqa: ANN401 # YAML
    """Return the JSON schema of values: no other names, and the types of what stands there."""
    if isinstance(node, dict) and path in OPEN:
        return {"type": "object", **({"additionalProperties": {"type": "string"}} if path == "settings" else {})}
    if isinstance(node, dict):
        fields = {name: schema(one, f"{path}.{name}".removeprefix(".")) for name, one in node.items()}
        # helm itself adds `global`
        more = {} if path else {"global": {"type": "object"}}
        return {"type": "object", "additionalProperties": False, "properties": fields | more}
    kind = {bool: "boolean", int: "integer", str: "string", list: "array"}[type(node)]
    return {
        "type": kind,
        **({"minimum": 1} if kind == "integer" else {}),
        **({"enum": CHOICES[path]} if path in CHOICES else {}),
        **({"pattern": PATTERNS[path]} if path in PATTERNS else {}),
    }


def chart_files(rendered: Documents, scaled: Documents) -> dict[str, str]:
    """Return the files of the chart beside its templates; the values are what overlays and components have."""
    trigger = scaled["ScaledObject", "regard"]["spec"]["triggers"][0]["metadata"]
    pod = rendered[REPLICAS]["spec"]["template"]["spec"]
    values = VALUES.format(
        version=VERSION,
        minimum=rendered[AUTOSCALER]["spec"]["minReplicas"],
        maximum=rendered[AUTOSCALER]["spec"]["maxReplicas"],
        prometheus=trigger["serverAddress"],
        store=rendered[STORE]["spec"]["template"]["spec"]["containers"][0]["image"],
        tmp=next(one["emptyDir"]["sizeLimit"] for one in pod["volumes"] if one["name"] == "tmp"),
    )
    written = {"$schema": "http://json-schema.org/draft-07/schema#", **schema(yaml.safe_load(values))}
    return {
        "Chart.yaml": CHART,
        "values.yaml": values,
        "values.schema.json": json.dumps(written, indent=2) + "\n",
        "templates/NOTES.txt": NOTES,
    }
