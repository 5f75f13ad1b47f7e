"""Rules, dashboard and what provisions them: every alert fires in its test, and every name is one that is exposed."""

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from service.telemetry.metrics import Metrics
from tests.samples.kubernetes import NEWEST, needs_kustomize, render, validate

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "k8s/monitoring"
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
GROUPS = yaml.safe_load((MONITORING / "rules.yaml").read_text())["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
RULE = runpy.run_path(str(MONITORING / "write_prometheusrule.py"))
RUNBOOKS = RULE["RUNBOOKS"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [rule["expr"] for rule in RULES] + [target["expr"] for panel in PANELS for target in panel["targets"]]
OF_THE_SCRAPE = {"job", "instance", "namespace"}

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, which tests rules, is absent")


@pytest.fixture(scope="module")
def exposed():
    """The labels of every series that the service exposes, by name."""
    metrics = Metrics()
    for metric in metrics.registry._collector_to_names:
        if isinstance(metric, MetricWrapperBase) and metric._labelnames and not metric._metrics:
            metric.labels(*metric._labelnames)
    text = metrics.text().decode()
    return {
        sample.name: set(sample.labels) | OF_THE_SCRAPE
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def promtool(*arguments, folder):
    return subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False)


@needs_promtool
def test_every_alert_fires_when_it_should_and_not_otherwise(tmp_path):
    shutil.copy(MONITORING / "rules.yaml", tmp_path)
    shutil.copy(Path(__file__).with_name("rules_test.yaml"), tmp_path)
    done = promtool("test", "rules", "rules_test.yaml", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested():
    tests = yaml.safe_load(Path(__file__).with_name("rules_test.yaml").read_text())["tests"]
    fires = {one["alertname"] for test in tests for one in test.get("alert_rule_test", []) if one["exp_alerts"]}
    assert fires == set(ALERTS)


@needs_promtool
def test_prometheus_accepts_the_configuration_that_compose_mounts(tmp_path):
    for mount in COMPOSE["services"]["prometheus"]["volumes"]:
        source, target, *_ = mount.split(":")
        if source.startswith("./"):
            shutil.copy(ROOT / source, tmp_path / Path(target).name)
    done = promtool("check", "config", "prometheus.yml", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


def test_replicas_that_are_gone_are_missed_by_the_names_that_compose_scrapes():
    (scrape,) = yaml.safe_load((ROOT / "deploy/prometheus.yaml").read_text())["scrape_configs"]
    assert scrape["relabel_configs"] == [{"source_labels": ["__meta_dns_name"], "target_label": "instance"}]
    missed = re.search(r'job="(\w+)", instance=~"([^"]+)"', ALERTS["RegardReplicaDown"]["expr"])
    assert missed[1] == scrape["job_name"]
    assert all(re.fullmatch(missed[2], name) for name in scrape["dns_sd_configs"][0]["names"])


@needs_promtool
def test_every_query_of_the_dashboard_is_understood(tmp_path):
    queries = [target["expr"] for panel in PANELS for target in panel["targets"]]
    plain = [re.sub(r"\$(job|namespace|model)", "regard", query).replace("$__rate_interval", "5m") for query in queries]
    assert not any("$" in query for query in plain)
    rules = [{"record": f"query:{index}", "expr": query} for index, query in enumerate(plain)]
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = promtool("check", "rules", "queries.yaml", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_summary_and_a_runbook(name):
    assert ALERTS[name]["annotations"].keys() == {"summary", "runbook_url"}
    assert ALERTS[name]["annotations"]["runbook_url"] == f"{RUNBOOKS}#{name.lower()}"
    assert f"\n## {name}\n" in (ROOT / "docs/runbooks.md").read_text()
    assert ALERTS[name]["labels"]["severity"] in {"critical", "warning"}


def test_a_runbook_is_of_an_alert():
    assert set(re.findall(r"^## (.*)$", (ROOT / "docs/runbooks.md").read_text(), re.MULTILINE)) == set(ALERTS)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_name_and_label_of_an_expression_is_exposed(exposed, expression):
    plain = re.sub(r'"[^"]*"', '""', expression)
    names = set(re.findall(r"\b(?:regard|process)_\w+", plain))
    assert names <= set(exposed)
    assert set(re.findall(r"regard:[\w:]+", plain)) <= RECORDED
    for name, selector in re.findall(r"\b(regard_\w+)\{([^}]*)\}", plain):
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector)) <= exposed[name], name
    grouped = {label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", plain) for label in labels.split(",")}
    assert grouped <= set().union(*(exposed[name] for name in names))


def test_what_an_alert_or_a_legend_says_is_a_label_of_what_it_is_about(exposed):
    recorded = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}

    def labels(expression):
        for name, meaning in recorded.items():
            expression = expression.replace(name, f"({meaning})")
        grouped = re.findall(r"\bby \(([^)]*)\)", expression)
        if grouped:
            return {label.strip() for group in grouped for label in group.split(",")}
        if re.match(r"up\b", expression):  # Prometheus makes it of each scrape
            return OF_THE_SCRAPE
        made = set(re.findall(r'label_replace\([^"]*, "(\w+)"', expression))
        return made.union(*(exposed[name] for name in re.findall(r"\b(?:regard|process)_\w+", expression)))

    said = [(rule["expr"], rule["annotations"]["summary"]) for rule in ALERTS.values()]
    said += [(target["expr"], target["legendFormat"]) for panel in PANELS for target in panel["targets"]]
    for expression, text in said:
        assert set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+)", text)) <= labels(expression), text


def test_the_rules_of_kubernetes_are_those_of_compose():
    rule = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())
    assert rule["kind"] == "PrometheusRule"
    assert rule["spec"] == {"groups": GROUPS}, "run: python k8s/monitoring/write_prometheusrule.py"
    own = yaml.safe_load(RULE["rule"]("https://runbooks.test/"))["spec"]["groups"][1]["rules"][0]["annotations"]
    assert own["runbook_url"] == "https://runbooks.test/#regarderrorsfast"
    assert "./k8s/monitoring/rules.yaml:/etc/prometheus/rules.yaml:ro" in COMPOSE["services"]["prometheus"]["volumes"]


def test_the_monitor_asks_a_port_of_the_service_that_it_selects():
    monitor = yaml.safe_load((MONITORING / "servicemonitor.yaml").read_text())["spec"]
    services = list(yaml.safe_load_all((ROOT / "k8s/base/service.yaml").read_text()))
    (service,) = (one for one in services if one["metadata"]["labels"] == monitor["selector"]["matchLabels"])
    assert service["metadata"]["name"] == "regard-admin"
    (endpoint,) = monitor["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == (service["spec"]["ports"][0]["name"], "/metrics")


@needs_kustomize
def test_kustomize_renders_what_the_operators_read():
    rendered = {kind: document for (kind, _), document in render(MONITORING).items()}
    assert set(rendered) == {"ServiceMonitor", "PrometheusRule", "ConfigMap"}
    for document in rendered.values():
        validate(document, NEWEST)
    assert {document["metadata"]["namespace"] for document in rendered.values()} == {"regard"}
    assert rendered["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(rendered["ConfigMap"]["data"]["regard.json"]) == DASHBOARD


def test_compose_provisions_the_dashboard_from_the_same_file():
    mounts = dict(mount.split(":")[:2] for mount in COMPOSE["services"]["grafana"]["volumes"])
    assert mounts["./k8s/monitoring/dashboard.json"] == "/etc/grafana/provisioning/dashboards/regard.json"
    (provider,) = yaml.safe_load((ROOT / "deploy/grafana/dashboards.yaml").read_text())["providers"]
    assert provider["options"]["path"] == "/etc/grafana/provisioning/dashboards"
    assert mounts["./deploy/grafana/dashboards.yaml"].startswith(provider["options"]["path"])


def test_prometheus_scrapes_every_replica_that_compose_runs():
    (job,) = yaml.safe_load((ROOT / "deploy/prometheus.yaml").read_text())["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    assert set(found["names"]) == {name for name in COMPOSE["services"] if name.startswith("api-")}
    assert found["port"] == 9090


def test_the_dashboard_has_its_rows_and_no_panel_lies_on_another():
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Traffic", "Latency by stage", "Queues and refusals", "Faults", "Device"]
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == [
        "datasource",
        "job",
        "namespace",
        "model",
    ]
