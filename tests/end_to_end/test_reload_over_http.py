"""Artifacts are tried before they are trusted, and replaced while requests are answered."""

import json
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from onnx import TensorProto, helper

from tests.conftest import served
from tests.samples.changed_artifacts import deadly, edit, newer, put_graph
from tests.samples.http_requests import PNG, SEVEN
from tests.samples.in_process import in_process
from tests.samples.wrong_manifests import DATES, DIGITS


@pytest.fixture(scope="session")
def artifacts(light):
    """Most tests here need no graph that explains a score."""
    return light


def classify(client):
    return client.post("/v1/models/digits/classify", content=SEVEN, headers=PNG)


def reloaded(client):
    answer = client.admin.post("/admin/reload")
    assert answer.status_code == 200, answer.text
    return {one["model"]: one for one in answer.json()["models"]}


@pytest.fixture
def living(copied):
    with in_process(copied, admin_port=0) as client:
        client.artifacts = copied
        yield client


def test_a_newer_version_takes_the_place_of_the_old_one_and_a_bad_one_changes_nothing(living):
    assert {one["outcome"] for one in reloaded(living).values()} == {"unchanged"}
    assert "overwritten" not in str(living.events)
    os.utime(living.artifacts / "dates/1/manifest.json", (0, 0))
    assert reloaded(living)["dates"]["outcome"] == "unchanged"
    (said,) = [line for line in living.events if line["event"].startswith("overwritten version")]
    assert (said["model"], said["version"]) == ("dates", "1")
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

    put_graph(newer(living.artifacts, "digits", 11), "predict", deadly())
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


def test_a_start_serves_the_newest_version_that_can_be_served(copied):
    """The newest version of `dates` ends its trial, which was to try `digits` too."""
    put_graph(newer(copied, "dates", 2), "encode", deadly())
    newer(copied, "digits", 2)
    (newer(copied, "digits", 3) / "predict.onnx").write_bytes(b"")
    with served(copied) as client:
        assert classify(client).json()["version"] == "2"
        assert client.post("/v1/models/dates/generate", json={"inputs": "3/23/21"}).json()["version"] == "1"
        states = {(one["name"], one["version"]): one for one in client.post("/v2/repository/index").json()}
        assert 'regard_reloads_total{outcome="refused"} 2.0' in client.get("/metrics").text
    assert states["digits", "3"]["state"] == states["dates", "2"]["state"] == "UNAVAILABLE"
    assert states["digits", "3"]["reason"].startswith("predict.onnx: ")
    assert states["dates", "2"]["reason"] == "2: loading it ends a process"
    assert states["digits", "1"]["reason"] == "not loaded"
    faults = [line for line in client.log if line["event"] == "artifact cannot be used"]
    assert [(line["model"], line["version"], line["served"]) for line in faults] == [
        ("dates", "2", "1"),
        ("digits", "3", "2"),
    ]


def test_a_version_whose_manifest_does_not_fit_its_graphs_is_refused_and_the_old_one_goes_on(living):
    before = classify(living).json()["results"]
    dates = {"inputs": "3/23/21", "attention": {"kind": "cross"}}
    cases = zip(list(DIGITS.values())[::20], list(DATES.values())[::20], strict=False)  # a start refuses all of them
    for version, (digit, date) in enumerate(cases, 2):
        changed = {"digits": digit, "dates": date}
        for model, (change, _) in changed.items():
            edit(newer(living.artifacts, model, version), change)
        outcomes = reloaded(living)
        for model, (_, reason) in changed.items():
            assert (outcomes[model]["outcome"], outcomes[model]["version"]) == ("refused", str(version))
            told, logged = outcomes[model]["reason"], f"manifest.json: {reason}"
            assert told.startswith(logged) or logged.startswith(told)
            assert len(told) > len("manifest.json: ")
            shutil.rmtree(living.artifacts / model / str(version))
    assert classify(living).json()["version"] == "1"
    assert classify(living).json()["results"] == before
    assert living.post("/v1/models/dates/generate", json=dates).json()["results"][0]["text"] == "2021-03-23"
    assert living.get("/health/ready").status_code == 200


@pytest.mark.parametrize("workers", [1, 2])
def test_what_happens_to_the_files_of_an_artifact_changes_no_answer(complete, tmp_path, workers):
    """The weights are mapped files. Other bytes would change answers, and a truncation would end the process."""
    copied = shutil.copytree(complete, tmp_path / "artifacts")
    everything = {"method": "relevance", "queries": "all"}

    def answers(client):
        pixels = client.post("/v1/models/digits/attention", params=everything, content=SEVEN, headers=PNG)
        texts = client.post("/v1/models/dates/generate", json={"inputs": "3/23/21", "attention": {"kind": "cross"}})
        return [one.json()["results"] for one in (classify(client), pixels, texts)]

    with served(copied, workers=workers) as client:
        before = answers(client)
        for model in ("digits", "dates"):
            for file in (copied / model / "1").iterdir():
                size = file.stat().st_size
                with file.open("r+b") as stream:
                    stream.write(os.urandom(size))
        assert [answers(client) for _ in range(4)] == [before] * 4
        for model in ("digits", "dates"):
            for file in (copied / model / "1").iterdir():
                os.truncate(file, 0)
        assert [answers(client) for _ in range(4)] == [before] * 4
        assert client.process.poll() is None
        restarted = {"worker ended, and is started again", "worker ended"}
        assert not restarted & {json.loads(line)["event"] for line in client.lines()}


def test_requests_are_answered_while_versions_change_and_each_names_one(living):
    stop = threading.Event()
    seen = []

    def ask():
        with httpx.Client(base_url=living.base_url, timeout=30) as client:
            while not stop.is_set():
                seen.append(classify(client))
                time.sleep(0.01)

    with ThreadPoolExecutor(3) as threads:
        asking = [threads.submit(ask) for _ in range(3)]
        try:
            for version in range(2, 4):
                newer(living.artifacts, "digits", version)
                assert reloaded(living)["digits"]["outcome"] == "replaced"
                while seen[-1].json()["version"] != str(version):
                    time.sleep(0.02)
        finally:
            stop.set()
        for task in asking:
            task.result()
    assert {answer.status_code for answer in seen} == {200}
    assert [answer.json()["results"][0]["labels"][0]["label"] for answer in seen] == ["7"] * len(seen)
    assert {answer.json()["version"] for answer in seen} == {"1", "2", "3"}


def test_metrics_and_admin_are_on_the_port_of_their_own_only(living):
    assert living.get("/metrics").status_code == living.post("/admin/reload").status_code == 404
    assert living.admin.get("/metrics").status_code == living.admin.get("/health/ready").status_code == 200
    assert living.admin.get("/v1/models").status_code == 404


def test_without_a_port_for_admins_nobody_can_ask_for_a_reload(client):
    assert client.post("/admin/reload").status_code == 404
    assert client.get("/metrics").status_code == 200
