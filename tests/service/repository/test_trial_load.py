import json
import re

import pytest

from contract.artifact import ArtifactError, find_artifacts
from service.repository.trial_load import Trial
from service.settings import Settings
from tests.conftest import served, start
from tests.samples.changed_artifacts import deadly, put_graph


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


def test_many_threads_leave_the_trial_enough_memory(artifacts):
    """Each thread sets aside address space, which is what the memory of the trial is limited by."""
    with served(artifacts, threads=96) as client:
        assert client.get("/health/ready").status_code == 200


def test_a_trial_that_the_system_kills_says_that_memory_may_be_short(artifacts):
    folders = find_artifacts(artifacts)
    trial = Trial(folders, Settings(artifacts=artifacts), "fork")
    try:
        trial._process.kill()
        with pytest.raises(ArtifactError, match="SIGKILL, which the system sends where memory is short"):
            trial.outcome(folders[0], exact=True)
    finally:
        trial.close()
