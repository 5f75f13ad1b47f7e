"""The service in a container that may do nothing but serve: what it answers, how it starts, and how it ends."""

import shutil
from datetime import datetime

import pytest
import yaml

from tests.conftest import ROOT
from tests.containers.conftest import ask, classify
from tests.containers.podman import FOLDER, Container, inspect, run

ANOTHER_USER = "--user=1000680000:0"
"""A user such as OpenShift chooses."""


@pytest.fixture(scope="module")
def container(cpu):
    """Read-only, without capabilities, as a user that no file knows, and without a network."""
    with Container(cpu, options=[ANOTHER_USER, "--network=none"]) as container:
        container.wait_for("ready")
        yield container


def test_it_classifies(container):
    document, _ = classify(container)
    assert document["results"][0]["labels"][0]["label"] == "7"


def test_it_generates(container):
    body = b'{"inputs": "the twenty-third of March 2021"}'
    status, _, document = ask(container, "POST", "/v1/models/dates/generate", body, "application/json")
    assert (status, document["results"][0]["text"]) == (200, "2021-03-23")


def test_it_shows_the_attention_of_an_earlier_answer(container):
    _, headers = classify(container)
    status, _, document = ask(container, "GET", f"/v1/attention/{headers['x-request-id']}")
    assert status == 200, document


def test_it_may_do_nothing_but_serve(container):
    said = container.python("print(open('/proc/1/status').read())")
    words = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
    assert int(words["CapEff"], 16) == int(words["CapBnd"], 16) == 0
    assert words["NoNewPrivs"] == "1"
    assert words["Uid"].split() == ["1000680000"] * 4
    with pytest.raises(Exception, match="Read-only file system"):
        container.python("open('/app/here', 'w')")


def test_its_health_check_passes(container):
    run("podman", "healthcheck", "run", container.id)


def test_it_ends_in_order_when_it_is_told_to(cpu):
    with Container(cpu, settings={"drain_seconds": 1}, options=["--network=none"]) as container:
        ready = container.wait_for("ready")["timestamp"]
        started = inspect("container", container.id)["State"]["StartedAt"]
        seconds = (datetime.fromisoformat(ready) - moment(started)).total_seconds()
        print(f"ready after {seconds:.1f} s")
        assert seconds < 30, "3 s are aimed at, on a machine that does nothing else"
        assert container.stop() == 0


def moment(text):
    """Podman says nanoseconds and a zone."""
    return datetime.fromisoformat(f"{text[:26]}+00:00")


def test_it_serves_a_folder_of_artifacts_that_is_mounted_in_place_of_its_own(cpu, tmp_path):
    tmp_path.chmod(0o755)
    shutil.copytree(ROOT / "model/artifacts/digits", tmp_path / "digits")
    with Container(cpu, options=["--network=none", f"--volume={tmp_path}:/artifacts:ro"]) as container:
        assert container.wait_for("ready")["models"] == ["digits"]


def test_it_serves_a_volume(cpu):
    """A new one takes what the image has in that place."""
    with Container(cpu, options=["--network=none", "--volume=/artifacts"]) as container:
        assert container.wait_for("ready")["models"] == ["dates", "digits"]


def test_podman_plays_the_deployment_of_kubernetes(cpu):
    if not shutil.which("kubectl"):
        pytest.skip("kubectl: not installed")
    rendered = run("kubectl", "kustomize", "k8s/overlays/cpu")
    pod, kept = playable(list(yaml.safe_load_all(rendered)), cpu)
    file = FOLDER / "deployment.yaml"
    file.write_text(yaml.safe_dump_all(kept))
    try:
        run("podman", "kube", "play", "--network=none", file)
        name = f"{pod}-pod-0-api" if exists_container(f"{pod}-pod-0-api") else f"{pod}-pod-api"
        found = inspect("container", name)
        container = Container.of(found["Id"])
        container.wait_for("ready")
        classify(container)
        assert found["HostConfig"]["ReadonlyRootfs"] is True
        assert found["EffectiveCaps"] in (None, [])
        assert found["Config"]["User"].startswith("10001")
    finally:
        run("podman", "kube", "down", file, check=False)
        file.unlink()


def exists_container(name):
    return bool(run("podman", "ps", "--all", "--quiet", f"--filter=name={name}").strip())


def playable(documents, image):
    """Return the name of the Deployment, and what podman 4.3 can play of all documents.

    Left out: probes (podman would run them by systemd), init containers (it restarts them for ever), claims, and what
    is about a cluster and not about a container: everything that is neither the Deployment nor a ConfigMap.
    """
    deployment = next(
        one for one in documents if one["kind"] == "Deployment"
        and any(container["name"] == "api" for container in one["spec"]["template"]["spec"]["containers"])
    )  # fmt: skip
    spec = deployment["spec"]["template"]["spec"]
    spec.pop("initContainers", None)
    (api,) = [one for one in spec["containers"] if one["name"] == "api"]
    api["image"] = image
    api["imagePullPolicy"] = "Never"
    for left_out in ("startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "ports"):
        api.pop(left_out, None)
    spec["containers"] = [api]
    spec["volumes"] = [one for one in spec.get("volumes", []) if "emptyDir" in one]
    names = {one["name"] for one in spec["volumes"]}
    api["volumeMounts"] = [one for one in api.get("volumeMounts", []) if one["name"] in names]
    deployment["spec"]["replicas"] = 1
    kept = [one for one in documents if one["kind"] == "ConfigMap"]
    for started in [*kept, deployment]:
        started["metadata"].pop("namespace", None)
    return deployment["metadata"]["name"], [*kept, deployment]
