"""Life: artifacts are tried before they are trusted, replaced under load, and a service that is told to stop drains."""

import asyncio
import json
import re
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from onnx import TensorProto, helper

from contract.artifact import describe
from service.errors import Conflict
from service.repository.registry import Registry, load
from service.runtime.device import Device
from service.settings import Settings
from service.telemetry.metrics import Metrics
from tests.conftest import ROOT, served, start

SEVEN = (ROOT / "tests/data/digits/seven.png").read_bytes()
PNG = {"Content-Type": "image/png"}
OPSET = [helper.make_opsetid("", 20)]


def classify(client):
    return client.post("/v1/models/digits/classify", content=SEVEN, headers=PNG)


def newer(artifacts, name, version):
    """Copy the first version of an artifact as another one."""
    folder = shutil.copytree(artifacts / name / "1", artifacts / name / str(version))
    edit(folder, lambda manifest: manifest.update(version=str(version)))
    return folder


def edit(folder, change):
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def put_graph(folder, role, nodes, **options):
    """Give an artifact of digits another graph of the same ports for its predictions."""
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["batch", 28, 28, 1])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "stand-in", [pixels], [logits])
    model = helper.make_model(graph, opset_imports=options.pop("opsets", OPSET), ir_version=10, **options)
    file = folder / f"{role}.onnx"
    file.write_bytes(model.SerializeToString())
    edit(folder, lambda manifest: manifest["graphs"][role].update(describe(file).model_dump()))


def deadly():
    """Return nodes and functions that overflow the stack of whoever loads them: each calls the next."""
    ours = helper.make_opsetid("ours", 1)
    functions = [
        helper.make_function("ours", f"f{depth}", ["x"], ["y"], [
            helper.make_node(f"f{depth + 1}", ["x"], ["y"], domain="ours") if depth < 3000
            else helper.make_node("Identity", ["x"], ["y"])
        ], [*OPSET, ours])
        for depth in range(3001)
    ]  # fmt: skip
    value = helper.make_tensor("value", TensorProto.FLOAT, [1, 10], [0.0] * 10)
    nodes = [
        helper.make_node("Constant", [], ["zeros"], value=value),
        helper.make_node("f0", ["zeros"], ["logits"], domain="ours"),
    ]
    return nodes, {"functions": functions, "opsets": [*OPSET, ours]}


@pytest.fixture
def copied(artifacts, tmp_path):
    return shutil.copytree(artifacts, tmp_path / "artifacts")


@pytest.fixture
def deadly_artifacts(copied):
    nodes, options = deadly()
    put_graph(copied / "digits/1", "predict", nodes, **options)
    return copied


def test_a_graph_that_ends_whoever_loads_it_is_named_and_no_port_opens(deadly_artifacts):
    process = start(deadly_artifacts, port=0)
    said, _ = process.communicate(timeout=30)
    fault = next(line for line in map(json.loads, said.splitlines()) if line["event"] == "artifact cannot be used")
    assert process.returncode == 3
    assert fault["file"] == str(deadly_artifacts / "digits/1")
    assert re.fullmatch("loading it ends a process: SIG[A-Z]+", fault["reason"])
    assert "listening" not in said


def test_everything_that_is_wrong_with_artifacts_is_said_at_once(copied):
    for name in ("digits", "dates"):
        (copied / name / "1" / "attention.onnx").write_bytes(b"")
    process = start(copied, port=0)
    said, _ = process.communicate(timeout=30)
    files = [line["file"] for line in map(json.loads, said.splitlines()) if line["event"] == "artifact cannot be used"]
    assert process.returncode == 3
    assert files == [str(copied / name / "1" / "attention.onnx") for name in ("dates", "digits")]


def reloaded(client):
    answer = client.admin.post("/admin/reload")
    assert answer.status_code == 200, answer.text
    return {one["model"]: one for one in answer.json()["models"]}


@pytest.fixture
def living(copied):
    with served(copied, admin_port=0) as client:
        port = next(line["admin_port"] for line in map(json.loads, client.lines()) if line["event"] == "listening")
        client.artifacts = copied
        client.admin = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        yield client
        client.admin.close()


def test_a_newer_version_takes_the_place_of_the_old_one_and_a_bad_one_changes_nothing(living):
    assert {one["outcome"] for one in reloaded(living).values()} == {"unchanged"}
    newer(living.artifacts, "digits", 2)
    assert reloaded(living)["digits"] == {"model": "digits", "version": "2", "outcome": "replaced"}
    assert classify(living).json()["version"] == "2"

    weights = newer(living.artifacts, "digits", 10) / "weights.bin"
    weights.write_bytes(weights.read_bytes()[:-1])
    refused = reloaded(living)["digits"]
    assert (refused["outcome"], refused["version"]) == ("refused", "10")
    assert refused["reason"].startswith("weights.bin: must have ")
    assert str(living.artifacts) not in json.dumps(refused)
    assert classify(living).json()["version"] == "2"
    shutil.rmtree(living.artifacts / "digits/10")

    nodes, options = deadly()
    put_graph(newer(living.artifacts, "digits", 11), "predict", nodes, **options)
    assert reloaded(living)["digits"]["outcome"] == "refused"
    shutil.rmtree(living.artifacts / "digits/11")

    constant = helper.make_tensor("value", TensorProto.FLOAT, [1, 10], [float("nan")] * 10)
    nodes = [helper.make_node("Constant", [], ["logits"], value=constant)]
    put_graph(newer(living.artifacts, "digits", 12), "predict", nodes)
    assert reloaded(living)["digits"]["outcome"] == "refused"
    shutil.rmtree(living.artifacts / "digits/12")

    shutil.rmtree(living.artifacts / "dates")
    assert reloaded(living)["dates"]["outcome"] == "removed"
    assert living.post("/v1/models/dates/generate", json={"inputs": "3/23/21"}).status_code == 404
    assert classify(living).json()["version"] == "2"
    assert living.get("/health/ready").status_code == 200
    samples = living.admin.get("/metrics").text
    assert (
        'regard_model_info{model="digits",precision="fp32",provider="CPUExecutionProvider",version="2"} 1.0' in samples
    )
    assert 'version="1"' not in samples
    assert 'model="dates"' not in "".join(line for line in samples.splitlines() if "model_info" in line)
    assert 'regard_reloads_total{outcome="refused"} 3.0' in samples


def test_requests_are_answered_while_versions_change_and_each_names_one(living):
    stop = threading.Event()
    seen = []

    def ask():
        with httpx.Client(base_url=living.base_url, timeout=30) as client:
            while not stop.is_set():
                seen.append(classify(client))

    with ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask) for _ in range(4)]
        try:
            for version in range(2, 5):
                newer(living.artifacts, "digits", version)
                living.process.send_signal(signal.SIGHUP)
                while classify(living).json()["version"] != str(version):
                    time.sleep(0.02)
        finally:
            stop.set()
        for one in asking:
            one.result()
    assert {answer.status_code for answer in seen} == {200}
    assert [answer.json()["results"][0]["labels"][0]["label"] for answer in seen] == ["7"] * len(seen)
    assert {answer.json()["version"] for answer in seen} == {"1", "2", "3", "4"}


def test_metrics_and_admin_are_on_the_port_of_their_own_only(living):
    assert living.get("/metrics").status_code == living.post("/admin/reload").status_code == 404
    assert living.admin.get("/metrics").status_code == living.admin.get("/health/ready").status_code == 200
    assert living.admin.get("/v1/models").status_code == 404


def test_without_a_port_for_admins_nobody_can_ask_for_a_reload(client):
    assert client.post("/admin/reload").status_code == 404
    assert client.get("/metrics").status_code == 200


def test_one_reload_at_a_time(artifacts):
    settings = Settings(artifacts=artifacts)

    async def main():
        device = Device()
        models = Registry(load(settings), settings, device, Metrics())
        first = asyncio.create_task(models.reload())
        await asyncio.sleep(0)
        with pytest.raises(Conflict, match="reload: one at a time"):
            await models.reload()
        await first
        await models.close()
        device.close()

    asyncio.run(main())


def test_told_to_stop_it_leaves_the_rotation_first_and_answers_until_then(artifacts):
    with served(artifacts, drain_seconds=1.5) as client:
        assert "connection" not in classify(client).headers
        client.process.send_signal(signal.SIGTERM)
        while client.get("/health/ready").status_code == 200:
            time.sleep(0.01)
        assert client.get("/health/ready").headers["Retry-After"] == "1"
        answer = classify(client)
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert client.get("/health/live").status_code == 200
        assert client.process.wait(10) == 0
        with pytest.raises(httpx.ConnectError):
            classify(client)


def test_told_twice_it_stops_at_once(artifacts):
    with served(artifacts, drain_seconds=600) as client:
        for _ in range(2):
            client.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
        assert client.process.wait(5) == 0


def test_told_to_stop_while_it_loads_it_stops_without_a_failure(artifacts):
    process = start(artifacts, port=0)
    assert json.loads(process.stdout.readline())["event"] == "settings"
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "Traceback" not in said
