import json
import os
import re
import resource
import signal
import sys
from contextlib import closing

import pytest

from contract.artifact import ArtifactError, find_artifacts, read_artifact, sha256
from service.repository.loading import trial_load
from service.settings import Settings
from tests.conftest import served, start
from tests.samples.changed_artifacts import deadly, edit, put_graph


@pytest.fixture
def deadly_artifacts(copied):
    put_graph(copied / "digits/1", "predict", deadly())
    return copied


def test_a_graph_that_ends_the_process_that_loads_it_is_named_and_no_port_opens(deadly_artifacts):
    process = start(deadly_artifacts, port=0)
    said, _ = process.communicate(timeout=30)
    fault = next(line for line in map(json.loads, said.splitlines()) if line["event"] == "artifact cannot be used")
    assert process.returncode == 3
    assert fault["file"] == str(deadly_artifacts / "digits/1")
    assert re.fullmatch("loading it ends a process: SIG[A-Z]+", fault["reason"])
    assert "listening" not in said


def test_a_tokenizer_that_writes_a_million_characters_for_one_is_refused(copied):
    """The characters of the sample texts, and of the vocabulary, do not grow: a client's would."""
    folder = copied / "dates/1"

    def grow(manifest):
        file = folder / manifest["inputs"][0]["tokenizer"]
        step = {"type": "Replace", "pattern": {"String": "#"}, "content": "#" * 1000}
        steps = {"type": "Sequence", "normalizers": [step] * 3}
        file.write_text(json.dumps(json.loads(file.read_text()) | {"normalizer": steps}))
        entry = next(one for one in manifest["files"] if one["file"] == file.name)
        entry |= {"sha256": sha256(file), "bytes": file.stat().st_size}

    edit(folder, grow)
    with closing(trial_load.Trial([folder], Settings(artifacts=copied), "fork")) as trial, pytest.raises(ArtifactError):
        trial.outcome(folder, exact=True)


def test_many_threads_leave_the_trial_enough_memory(artifacts, tmp_path):
    """Each thread sets aside address space, which is what the memory of the trial is limited by."""
    (tmp_path / "digits").symlink_to(artifacts / "digits")
    with served(tmp_path, threads=96) as client:
        assert client.get("/health/ready").status_code == 200


def test_a_trial_has_memory_for_the_maps_of_the_longest_text(artifacts, tmp_path, monkeypatch):
    allowed = []
    monkeypatch.setattr(trial_load, "_limit_memory", allowed.append)
    assert trial_load._try_one(artifacts / "dates/1", tmp_path / "copy", None, Settings(), lambda step: None) == {}
    manifest = read_artifact(artifacts / "dates/1").manifest
    files = sum(path.stat().st_size for path in (artifacts / "dates/1").iterdir() if path.name != "manifest.json")
    maps = sum(len(kind.maps) * kind.heads for kind in manifest.attention)
    assert allowed == [2**30, 4 * (files + 4 * maps * manifest.text.max_tokens**2) + 2**30]


def test_a_trial_that_the_system_kills_says_that_memory_may_be_short(artifacts):
    folders = find_artifacts(artifacts)
    with closing(trial_load.Trial(folders, Settings(artifacts=artifacts), "fork")) as trial:
        trial._process.kill()
        with pytest.raises(ArtifactError, match="SIGKILL, which the system sends where memory is short"):
            trial.outcome(folders[0], exact=True)


def test_a_trial_that_is_stopped_says_so_and_does_not_wait(artifacts):
    folders = find_artifacts(artifacts)
    with closing(trial_load.Trial(folders, Settings(artifacts=artifacts), "fork")) as trial:
        os.kill(trial._process.pid, signal.SIGSTOP)  # as if it copied from a slow disk
        trial.stop()
        with pytest.raises(ArtifactError, match="its trial was ended, since the service stops"):
            trial.outcome(folders[0], exact=True)


def test_a_trial_answers_for_the_artifact_that_is_asked_for_and_says_which_it_tries(artifacts, tmp_path):
    dates, digits = find_artifacts(artifacts)
    with closing(trial_load.Trial([dates, digits], Settings(artifacts=artifacts), "fork")) as trial:
        assert trial.outcome(digits, exact=True).manifest.name == "digits"
        assert trial.tries(dates)
        assert not trial.tries(tmp_path / "digits/2"), "it came after the trial began"
        with pytest.raises(ArtifactError, match="it ends a process"):
            trial.outcome(tmp_path / "digits/2", exact=True)
        assert not trial.tries(digits)


@pytest.mark.parametrize(("hard", "limit"), [(1 << 40, 1 << 40), (resource.RLIM_INFINITY, sys.maxsize)])
def test_a_trial_keeps_to_the_hard_limit_of_its_process(monkeypatch, hard, limit):
    limits = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1 << 30, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda which, both: limits.append(both))
    trial_load._limit_memory(sys.maxsize)
    assert limits == [(limit, hard)]
