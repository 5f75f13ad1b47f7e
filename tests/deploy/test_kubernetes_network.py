"""Ports: what Services, policies, probes and routes name is served, and clients reach no metrics."""

import ipaddress

import pytest

from service.api.protocols import ROUTERS
from service.settings import Settings
from tests.samples.kubernetes import (
    K8S,
    OVERLAYS,
    api,
    containers,
    documents,
    environment,
    needs_kustomize,
    of_kind,
    pod,
    render_with,
)

CLIENTS, ADMIN, STORE = "regard", "regard-admin", "regard-store"

pytestmark = needs_kustomize


@pytest.fixture(scope="module", params=[*((overlay,) for overlay in OVERLAYS), ("cpu", "store-external")], ids=" ".join)
def rendered(request):
    overlay, *components = request.param
    return render_with(overlay, *components)


def labels(workload):
    return workload["spec"]["template"]["metadata"]["labels"]


def selected(rendered, selector):
    """The workloads whose pods a selector finds."""
    return [one for one in of_kind(rendered, "Deployment") if selector.items() <= labels(one).items()]


def ports(workload):
    return {port["name"]: port["containerPort"] for one in containers(workload) for port in one.get("ports", [])}


def test_the_ports_of_the_container_are_those_of_the_settings(rendered):
    settings = environment(rendered)
    assert ports(rendered["Deployment", "regard"]) == {
        "http": int(settings["REGARD_PORT"]),
        "admin": int(settings["REGARD_ADMIN_PORT"]),
        "probe": int(settings["REGARD_PROBE_PORT"]),
    }


def test_every_probe_asks_a_port_and_a_path_that_the_service_has(rendered):
    container = api(rendered["Deployment", "regard"])
    asked = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert asked["startup"] == asked["readiness"] == {"path": "/health/ready", "port": "http"}
    # the port of probes has connections of its own, and /health/live alone
    assert asked["liveness"] == {"path": "/health/live", "port": "probe"}


def test_everything_that_selects_pods_selects_one_workload(rendered):
    replicas = rendered["Deployment", "regard"]
    for deployment in of_kind(rendered, "Deployment"):
        assert selected(rendered, deployment["spec"]["selector"]["matchLabels"]) == [deployment]
    for service in of_kind(rendered, "Service"):
        assert len(selected(rendered, service["spec"]["selector"])) == 1, service
    for spread in pod(replicas)["topologySpreadConstraints"]:
        assert selected(rendered, spread["labelSelector"]["matchLabels"]) == [replicas]
    budget = rendered["PodDisruptionBudget", "regard"]["spec"]
    assert selected(rendered, budget["selector"]["matchLabels"]) == [replicas]
    assert budget["maxUnavailable"] == 1


def test_a_service_leads_to_a_port_that_is_served(rendered):
    for service in of_kind(rendered, "Service"):
        (workload,) = selected(rendered, service["spec"]["selector"])
        for port in service["spec"]["ports"]:
            assert ports(workload)[port["targetPort"]] == port["port"]


def test_clients_reach_no_metrics(rendered):
    # With an admin port, /metrics and /admin are there alone.
    assert "REGARD_ADMIN_PORT" in environment(rendered)
    assert [port["targetPort"] for port in rendered["Service", CLIENTS]["spec"]["ports"]] == ["http"]
    assert [port["targetPort"] for port in rendered["Service", ADMIN]["spec"]["ports"]] == ["admin"]
    assert rendered["Service", ADMIN]["spec"]["clusterIP"] == "None"


def test_the_policies_deny_everything_but_what_they_name(rendered):
    assert rendered["NetworkPolicy", "deny-all"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for policy in of_kind(rendered, "NetworkPolicy"):
        if policy["metadata"]["name"] == "deny-all":
            continue
        spec = policy["spec"]
        (direction,) = spec["policyTypes"]
        (workload,) = selected(rendered, spec["podSelector"]["matchLabels"])
        for rule in spec[direction.lower()]:
            assert rule["ports"]
            if direction == "Ingress":
                assert rule["from"]
                assert {port["port"] for port in rule["ports"]} <= set(ports(workload).values())
                continue
            for peer in rule.get("to", []):
                if set(peer) == {"podSelector"}:
                    (other,) = selected(rendered, peer["podSelector"]["matchLabels"])
                    assert {port["port"] for port in rule["ports"]} == set(ports(other).values())


def test_a_port_is_open_to_those_that_it_is_for(rendered):
    settings = environment(rendered)

    def admitted(policy):
        (rule,) = rendered["NetworkPolicy", policy]["spec"]["ingress"]
        (port,) = rule["ports"]
        return port["port"], [
            peer[kind].get("matchLabels", {}) for peer in rule["from"] for kind in ("podSelector", "namespaceSelector")
            if kind in peer
        ]  # fmt: skip

    assert admitted(CLIENTS) == (int(settings["REGARD_PORT"]), [{}, {"regard/client": "true"}])
    assert admitted(ADMIN) == (int(settings["REGARD_ADMIN_PORT"]), [{"regard/monitoring": "true"}])


def test_the_replicas_may_look_up_names_and_reach_their_store(rendered):
    (dns,) = rendered["NetworkPolicy", "regard-dns"]["spec"]["egress"]
    assert {(port["protocol"], port["port"]) for port in dns["ports"]} == {("UDP", 53), ("TCP", 53)}
    pods, link = dns["to"]
    (named,) = pods["podSelector"]["matchExpressions"]
    assert (named["key"], named["operator"]) == ("k8s-app", "In")
    assert set(named["values"]) == {"kube-dns", "node-local-dns"}
    for address in ("169.254.20.10", "169.254.169.254"):  # of NodeLocal DNSCache, and of Cloud DNS
        assert ipaddress.ip_address(address) in ipaddress.ip_network(link["ipBlock"]["cidr"])
    url = environment(rendered)["REGARD_REDIS_URL"]
    if url is None:  # of a Secret: the server is elsewhere
        assert ("Deployment", STORE) not in rendered
        assert ("NetworkPolicy", "regard-to-external-store") in rendered
        return
    host, _, port = url.removeprefix("redis://").partition(":")
    service = rendered["Service", host]["spec"]
    assert [one["port"] for one in service["ports"]] == [int(port)]
    (rule,) = rendered["NetworkPolicy", "regard-to-store"]["spec"]["egress"]
    assert rule["to"] == [{"podSelector": {"matchLabels": service["selector"]}}]
    (inward,) = rendered["NetworkPolicy", STORE]["spec"]["ingress"]
    assert inward["from"] == [{"podSelector": {"matchLabels": labels(rendered["Deployment", "regard"])}}]


# Ingress and Gateway


def routes():
    """The paths of clients, with placeholders."""
    return {route.path for router in ROUTERS for route in router.routes}


def test_the_gateway_publishes_every_path_of_clients_and_no_other():
    (route,) = documents(K8S / "components/gateway/httproute.yaml")
    (rule,) = route["spec"]["rules"]
    matches = [(match["path"]["type"], match["path"]["value"]) for match in rule["matches"]]

    def published(path):
        return any(
            path == value or (kind == "PathPrefix" and path.startswith(value + "/")) for kind, value in matches
        )  # fmt: skip

    left_out = {path for path in routes() if not published(path)}
    assert left_out == {"/v2/", "/v2/repository/index"}  # the same as /v2, and for administrators
    assert not any(map(published, ("/metrics", "/admin/reload", "/v2/repository/models/digits/load", "/health/live")))
    known = routes() | {"/page", "/openapi.json", "/v1", "/v2/health", "/v2/models"}
    assert {value for _, value in matches} <= known


@pytest.mark.parametrize("component", ["gateway", "ingress"])
def test_an_ingress_or_a_gateway_leads_to_the_clients_service(component):
    rendered = render_with("cpu", component)
    (service,) = (one["spec"] for one in of_kind(rendered, "Service") if one["metadata"]["name"] == CLIENTS)
    if component == "gateway":
        (rule,) = rendered["HTTPRoute", "regard"]["spec"]["rules"]
        assert rule["backendRefs"] == [{"name": CLIENTS, "port": service["ports"][0]["port"]}]
        assert int(rule["timeouts"]["request"].removesuffix("s")) > Settings().request_seconds
    else:
        (rule,) = rendered["Ingress", "regard"]["spec"]["rules"]
        (path,) = rule["http"]["paths"]
        backend = path["backend"]["service"]
        assert backend == {"name": CLIENTS, "port": {"name": service["ports"][0]["name"]}}
