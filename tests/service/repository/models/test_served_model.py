"""What a served model runs: batches in parts, and the memory that a run may take. Answers are tested over HTTP."""

import dataclasses
import json
import subprocess
import sys
import threading

import numpy as np
import pytest

from contract.artifact import read_artifact
from service.arrays import padded
from service.errors import TooLarge
from service.explanations.selection import Target
from service.inputs.model_input import ModelInput
from service.options.attention import AttentionOptions
from service.repository.explaining.gradients import jobs_of, path_of
from service.repository.models import batches
from service.repository.models.gradient_jobs import stacked
from service.repository.models.graph_controls import controls_of
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import AttentionJob
from service.settings import Settings
from tests.conftest import ROOT

COUNT = 7
MEASURE = """
import ctypes, json, sys
from pathlib import Path
import numpy as np
from contract.artifact import read_artifact
from service.repository.models.predictor import Predictor
from service.settings import Settings
from tests.service.repository.models.test_served_model import MANY, asked, feed, images

def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(key))

served = Predictor(read_artifact(Path(sys.argv[1])), "cpu", Settings(threads=1))
role, controls = asked(served, few := images(served, 1), sys.argv[2])
served.batches.run(role, few, controls)
items = images(served, MANY)
role, controls = asked(served, items, sys.argv[2])
given = feed(served, role, items, controls)
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
out = served.sessions[role].run(given)
print(json.dumps([status("VmHWM") - before, sum(array.nbytes for array in out.values())]))
"""
MANY = 64
"""Images of one batch whose memory is measured: of one it would be too little."""


@pytest.fixture(scope="module")
def served(artifacts):
    return Predictor(read_artifact(artifacts / "digits" / "1"), "cpu", Settings(threads=1))


@pytest.fixture
def runs(served, monkeypatch):
    """Note how many inputs each run of a session has."""
    sizes = []
    for session in served.sessions.values():

        def run(feed, real=session.run):
            sizes.append(len(feed["pixels"]))
            return real(feed)

        monkeypatch.setattr(session, "run", run)
    return sizes


def images(served, count=COUNT):
    length = served.manifest.attention[0].length
    pixels = np.random.default_rng(0).integers(0, 256, (count, 28, 28, 1), np.uint8)
    return [ModelInput({"pixels": one}, {"image": length}, {"image": np.arange(length) == 0}) for one in pixels]


def asked(served, items, method):
    """Return the role that a method runs, and its controls."""
    if method is None:
        return "predict", {}
    rows = {} if method in ("libra", "integrated") else {"queries": "all"}
    query = served.query(AttentionOptions(method=method, diagnostics=method == "raw", **rows))
    if query.by_gradient:
        jobs = [
            jobs_of(served.manifest, item, query, Target(index % 10, (index % 50,)), None, path_of(query))[0]
            for index, item in enumerate(items)
        ]
        return method, stacked(jobs, served.manifest.graphs[method])
    special = {"image": padded([item.special["image"] for item in items])}
    return "attention", controls_of(query, items[0].lengths).feed(items[0].lengths, special)


def feed(served, role, items, controls):
    """Return the inputs of a graph for one run of all items."""
    pixels = {"pixels": np.stack([item.arrays["pixels"] for item in items])}
    given = controls | pixels
    return {port.name: given[port.name] for port in served.manifest.graphs[role].inputs}


def limit(monkeypatch, served, items):
    """Let `items` inputs run together."""
    each = 4 * served.manifest.attention[0].length * served.manifest.width
    monkeypatch.setattr(batches, "PART_STATE_BYTES", items * each)


@pytest.mark.parametrize("method", [None, "raw", "rollout", "relevance"])
def test_a_batch_in_parts_has_the_answers_of_one_run(served, runs, monkeypatch, method):
    items = images(served)
    role, controls = asked(served, items, method)
    limit(monkeypatch, served, COUNT)
    whole = served.batches.run(role, items, controls)
    limit(monkeypatch, served, 3)
    parts = served.batches.run(role, items, controls)
    assert runs == [COUNT, 3, 3, 1]
    assert list(parts) == list(whole)
    for name, rows in whole.items():
        assert len(rows) in (0, COUNT)
        np.testing.assert_allclose(np.array(parts[name]), np.array(rows), rtol=1e-4, atol=1e-5)
        assert not np.size(rows) or not np.allclose(rows[0], rows[-1])


def test_an_output_that_nobody_asked_for_has_no_rows_in_parts_either(served, monkeypatch):
    items = images(served)
    _, controls = asked(served, items, "rollout")
    limit(monkeypatch, served, 3)
    out = served.batches.run("attention", items, controls)
    assert not np.size(out["encoder.states"])
    assert {name: len(rows) for name, rows in out.items()} == {
        "logits": COUNT, "encoder": COUNT, "encoder.diagnostics": 0, "encoder.states": COUNT
    }  # fmt: skip


def test_the_maps_of_one_answer_do_not_keep_those_of_its_batch_in_memory(served, monkeypatch):
    limit(monkeypatch, served, COUNT)
    items, query = images(served), served.query(AttentionOptions(method="raw", queries="all"))
    controls = controls_of(query, items[0].lengths)
    for _, stacks in served._run_attention([AttentionJob(item, controls) for item in items]):
        (maps,) = stacks.values()
        assert maps.base is None


def test_at_least_one_input_runs_and_each_thread_has_a_share(served, runs, monkeypatch):
    items = images(served)
    monkeypatch.setattr(batches, "PART_STATE_BYTES", 1)
    served.batches.run("predict", items)
    assert runs == [1] * COUNT
    limit(monkeypatch, served, 2)
    monkeypatch.setattr(served.sessions["predict"], "cores", 2)
    runs.clear()
    served.batches.run("predict", items)
    assert runs == [4, 3]


def test_batches_on_a_gpu_are_not_cut(served, runs, monkeypatch):
    monkeypatch.setattr(served.batches, "_device", "cuda")
    monkeypatch.setattr(batches, "PART_STATE_BYTES", 1)
    served.batches.run("predict", images(served))
    assert runs == [COUNT]


@pytest.fixture
def scaled(artifacts):
    """The model as one whose scales of 8 bits are of whole inputs, on two threads."""
    artifact = read_artifact(artifacts / "digits" / "1")
    manifest = artifact.manifest.model_copy(update={"scales": "input"})
    return Predictor(dataclasses.replace(artifact, manifest=manifest), "cpu", Settings(threads=2))


@pytest.mark.parametrize(("device", "cores", "together"), [("cpu", 2, 2), ("cpu", 1, 1), ("cuda", 2, 1)])
def test_inputs_with_scales_of_their_own_run_one_by_one_two_beside_one_another(
    scaled, monkeypatch, device, cores, together
):
    items, session = images(scaled, 6), scaled.sessions["predict"]
    alone = [scaled.batches.run("predict", [item])["logits"][0] for item in items]
    both = threading.Barrier(together, timeout=30)
    running = []

    def run(feed, real=session.run):
        running.append(1)
        both.wait()
        assert len(running) <= together
        both.wait()
        out = real(feed)
        running.pop()
        assert len(feed["pixels"]) == 1
        return out

    monkeypatch.setattr(session, "run", run)
    monkeypatch.setattr(session, "cores", cores)
    monkeypatch.setattr(scaled.batches, "_device", device)
    np.testing.assert_array_equal(scaled.batches.run("predict", items)["logits"], alone)
    assert not np.allclose(alone[0], alone[1])


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's peak of a process is read")
@pytest.mark.parametrize("method", ["rollout", "norm", "relevance", "libra", "integrated"])
def test_a_run_takes_the_memory_that_its_bound_says_and_not_a_tenth_of_it(artifacts, served, method):
    folder = str(artifacts / "digits" / "1")
    found = subprocess.run(
        [sys.executable, "-c", MEASURE, folder, method], capture_output=True, text=True, check=True, cwd=ROOT
    )
    peak, returned = json.loads(found.stdout)
    lengths = {"image": served.manifest.attention[0].length}
    by_gradient = method in served.gradient_methods
    promised = MANY * served.footprint.run(lengths, by_gradient=by_gradient) + 3 * returned
    assert 0.1 * promised < peak < promised


def test_attention_of_a_long_input_is_refused_by_the_memory_that_it_may_take(served, monkeypatch):
    lengths = [{"image": served.manifest.attention[0].length}] * 2
    size = {way: served.footprint.run(lengths[0], by_gradient=way) for way in (False, True)}
    assert size[True] > size[False]
    queries = {name: served.query(AttentionOptions(method=name)) for name in ("rollout", "relevance")}
    queries["compare"] = served.query(AttentionOptions(evaluate="compare"))
    monkeypatch.setattr(served, "settings", Settings(run_bytes=size[False]))
    served.check_run(queries["rollout"], lengths)
    for name in ("relevance", "compare"):
        with pytest.raises(
            TooLarge, match=f"^attention: at most {size[False]} bytes .* may take {size[True]}; .*rollout$"
        ):
            served.check_run(queries[name], lengths)
    monkeypatch.setattr(served, "settings", Settings(run_bytes=size[False] - 1))
    with pytest.raises(TooLarge, match=r"ask for a shorter input$"):
        served.check_run(queries["rollout"], lengths)
