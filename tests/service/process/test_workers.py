"""Workers: processes that serve one port and share what is stored and counted; when one ends, the service does not."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
import structlog

from service.process import workers
from service.process.workers import LOOK_SECONDS
from tests.conftest import ROOT, served, start
from tests.samples.changed_artifacts import newer
from tests.samples.http_requests import CLASSIFY, SEVEN
from tests.samples.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")


def events(client, name):
    return [line for line in map(json.loads, client.lines()) if line["event"] == name]


def ask(client, **headers):
    """Classify over a connection of its own, which the kernel deals to either worker."""
    headers = {"Content-Type": "image/png", "Connection": "close"} | headers
    return client.post(CLASSIFY, content=SEVEN, headers=headers)


def get(url):
    return httpx.get(url, headers={"Connection": "close"}, timeout=30)


def answering(client, count=40):
    """Return which workers answered a number of requests."""
    ids = [ask(client).json()["id"] for _ in range(count)]
    return {line["worker"] for line in events(client, "request") if line["request"] in ids}


def children(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def family(pid):
    """Return all that descends from a process."""
    found = children(pid)
    for worker in found:
        found += children(worker)
    return found


def pids(client):
    """Return the processes of the workers, by number."""
    found = {}
    for child in children(client.process.pid):
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if b"--worker" in words:
            found[int(words[words.index(b"--worker") + 1])] = child
    return found


def ready(client, times):
    """Wait until workers have been ready `times` times since the start."""
    until(lambda: len(events(client, "ready")) == times)
    time.sleep(0.2)  # until the last one listens


def replaced(client, version):
    """Wait until both workers serve a version."""
    until(lambda: len([line for line in events(client, "reload")
                       if (line["outcome"], line["version"]) == ("replaced", version)]) == 2)  # fmt: skip
    assert {ask(client).json()["version"] for _ in range(20)} == {version}


@pytest.fixture(scope="module")
def two(light, tmp_path_factory):
    """A service of two workers; every test leaves both of them ready."""
    copied = shutil.copytree(light, tmp_path_factory.mktemp("workers") / "artifacts")
    with served(copied, workers=2, admin_port=0, probe_port=0) as client:
        client.artifacts = copied
        ready(client, 2)
        client.admin = f"http://127.0.0.1:{events(client, 'listening')[0]['admin_port']}"
        yield client


def test_workers_share_a_port_stored_requests_and_metrics(two):
    assert answering(two) == {0, 1}
    path = f"/v1/attention/{ask(two).json()['id']}"
    assert {get(f"{two.base_url}{path}").status_code for _ in range(20)} == {200}
    counted = [get(f"{two.admin}/metrics").text for _ in range(10)]
    sample = re.compile(
        r'^regard_requests_total{.*route="/v1/models/{model}/classify",status="200"} (.*)$', re.MULTILINE
    )
    assert [sample.findall(text) for text in counted] == [["41.0"]] * 10
    assert all("regard_ready 1.0" in text for text in counted)


def test_workers_share_a_port_for_probes(two):
    url = f"http://127.0.0.1:{events(two, 'listening')[0]['probe_port']}"
    assert {get(f"{url}/health/live").status_code for _ in range(20)} == {200}
    assert {get(f"{url}/health/ready").status_code for _ in range(20)} == {404}
    assert len({line["probe_port"] for line in events(two, "listening")}) == 1


def test_a_worker_that_ends_is_replaced_while_the_others_serve(two):
    before, times = pids(two), len(events(two, "ready"))
    os.kill(before[1], signal.SIGKILL)
    until(lambda: events(two, "worker ended, and is started again"))
    assert answering(two, 10) == {0}
    ready(two, times + 1)
    after = pids(two)
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert answering(two) == {0, 1}
    assert [line["status"] for line in events(two, "worker ended, and is started again")] == [137]


def test_a_worker_that_cannot_start_again_leaves_the_others_and_is_tried_again(two):
    graph, times = two.artifacts / "digits/1/predict.onnx", len(events(two, "ready"))
    good = graph.read_bytes()
    graph.unlink()  # what serves has it loaded
    os.kill(pids(two)[0], signal.SIGKILL)
    until(lambda: events(two, "artifact cannot be used"))
    assert answering(two, 10) == {1}
    graph.write_bytes(good)
    ready(two, times + 1)
    assert answering(two) == {0, 1}


def test_a_reload_reaches_every_worker(two):
    newer(two.artifacts, "digits", 2)
    two.process.send_signal(signal.SIGHUP)
    replaced(two, "2")


def test_a_reload_by_the_admin_port_reaches_every_worker(two):
    def reloads():
        return len([line for line in events(two, "reload") if line["model"] == "dates"])

    before = reloads()
    newer(two.artifacts, "digits", 3)
    found = httpx.post(f"{two.admin}/admin/reload", timeout=30).json()["models"]
    assert {one["model"]: one["outcome"] for one in found} == {"dates": "unchanged", "digits": "replaced"}
    replaced(two, "3")
    time.sleep(0.5)  # in which the one that answered might be told too
    assert reloads() - before == 2


def test_a_signal_to_reload_is_not_lost_beside_the_word_of_a_worker_that_reloaded(two):
    """Two pending SIGHUPs are one, with the sender of the first, whom the supervisor would not have told."""

    def reloads():
        return Counter(line["worker"] for line in events(two, "reload") if line["model"] == "dates")

    before = reloads()
    halt(two.process.pid)
    assert httpx.post(f"{two.admin}/admin/reload", timeout=30).status_code == 200
    two.process.send_signal(signal.SIGHUP)
    os.kill(two.process.pid, signal.SIGCONT)
    until(lambda: sorted((reloads() - before).values())[-1:] == [2])
    until(lambda: len(reloads() - before) == 2)


def test_a_supervisor_that_was_stopped_goes_on_when_it_is_continued(two):
    """For longer than it waits for a signal: Python then returns any number."""
    halt(two.process.pid)
    time.sleep(2 * LOOK_SECONDS)
    os.kill(two.process.pid, signal.SIGCONT)
    time.sleep(0.5)
    assert two.process.poll() is None
    assert ask(two).status_code == 200


def test_a_full_disk_ends_no_worker(light, small_disk, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(small_disk.folder))
    with served(light, workers=2, keep_bytes=1 << 30) as client:
        ready(client, 2)
        small_disk.fill()
        assert {ask(client).status_code for _ in range(100)} == {200}
        assert get(f"{client.base_url}/metrics").status_code == 200
        assert not events(client, "worker ended, and is started again")


def test_without_room_for_what_workers_share_the_start_fails_with_the_reason(light, small_disk, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(small_disk.folder))
    small_disk.fill(leave=1 << 20)
    process = start(light, port=0, workers=2)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "TMPDIR: what workers share cannot be kept there: No space left on device" in said


def test_a_worker_that_is_stopped_by_a_signal_is_replaced(light):
    """Otherwise the kernel deals it half of the connections for ever."""
    code = (
        "import runpy, sys; from service.process import workers; workers.MOST_SILENT_LOOKS = 5\n"
        "sys.argv = ['service']; runpy.run_module('service', run_name='__main__')"
    )
    with served(light, workers=2, program=["-c", code]) as client:
        ready(client, 2)
        time.sleep(1.5)  # until both have told that they are alive
        before = pids(client)
        os.kill(before[1], signal.SIGSTOP)
        until(lambda: events(client, "worker is silent, and is killed"), 60)
        until(lambda: len(events(client, "ready")) >= 3, 60)
        after = pids(client)
        assert after[0] == before[0]
        assert after[1] != before[1]


def test_workers_that_are_told_to_stop_leave_no_process_and_no_file(two):
    processes = family(two.process.pid)
    (folder,) = {file.parent for file in Path(tempfile.gettempdir()).glob(f"regard-*/*_{pids(two)[0]}.db")}
    assert folder.exists()
    two.process.send_signal(signal.SIGTERM)
    assert two.process.wait(20) == 0
    assert not folder.exists()
    until(lambda: not any(map(running, processes)), 30)


def test_workers_end_with_the_process_that_supervises_them(light):
    with served(light, workers=2) as client:
        until(lambda: len(pids(client)) == 2)
        processes = family(client.process.pid)
        client.process.kill()
        until(lambda: not any(map(running, processes)))


def halt(pid):
    """Stop a process, and wait until it has: a signal of a lower number that came meanwhile would be taken first."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T")


def running(pid):
    return state(pid) not in (None, "Z")


def state(pid):
    """Return what the kernel says of a process, None once it has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def test_a_reload_and_a_stop_reach_a_worker_that_is_only_starting(light_copy):
    with served(light_copy, workers=2) as client:
        newer(light_copy, "digits", 2)
        second = until(lambda: pids(client).get(1))
        halt(second)
        client.process.send_signal(signal.SIGHUP)
        until(lambda: events(client, "reload"))
        os.kill(second, signal.SIGCONT)
        ready(client, 2)
        until(lambda: {line["worker"] for line in events(client, "reload")} == {0, 1})
        os.kill(second, signal.SIGKILL)
        third = until(lambda: {pids(client).get(1)} - {None, second}).pop()
        halt(third)
        client.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        os.kill(third, signal.SIGCONT)
        assert client.process.wait(20) == 0
        assert len(events(client, "ready")) == 2


def test_without_a_folder_for_temporary_files_the_start_fails_with_the_reason(light, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/proc")
    monkeypatch.chdir("/proc")
    code = (
        "import tempfile; tempfile._candidate_tempdir_list = lambda: ['/proc']\n"
        "import runpy, sys; sys.argv = ['service']; runpy.run_module('service', run_name='__main__')"
    )
    environment = os.environ | {"REGARD_WORKERS": "2", "REGARD_ARTIFACTS": str(light), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=30)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "TMPDIR" in done.stdout


def test_workers_report_a_fault_at_start_once_with_the_status_of_a_single_process(light_copy):
    (light_copy / "digits/1/predict.onnx").write_bytes(b"")
    process = start(light_copy, port=0, workers=3)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 3
    assert said.count("artifact cannot be used") == 1
    assert json.loads(said.splitlines()[-1])["event"] == "artifact cannot be used"
    assert "Traceback" not in said


def test_a_worker_that_ends_as_it_becomes_ready_is_started_again(monkeypatch, tmp_path):
    """Signals are given in the order of their numbers: the end of a worker comes before what it told."""

    class Ended:
        pid, returncode = 1234, -signal.SIGKILL

        def poll(self):
            return self.returncode

    monkeypatch.setattr(workers, "release", lambda folder, pid, counted: None)
    monkeypatch.setattr(workers.Workers, "_reap_orphans", lambda self: self._stop(signal.SIGTERM))
    pending = [SimpleNamespace(si_signo=signal.SIGCHLD), SimpleNamespace(si_signo=workers.READY, si_pid=Ended.pid)]
    monkeypatch.setattr(
        signal, "sigtimedwait",
        lambda among, seconds: pending.pop(0) if pending and pending[0].si_signo in among else None,
    )  # fmt: skip
    monkeypatch.setattr(signal, "pthread_sigmask", lambda how, signals: None)
    supervisor = workers.Workers(1, {workers.SHARED_FOLDER_VARIABLE: str(tmp_path)})
    supervisor._processes, supervisor._start_at = {0: Ended()}, {}
    with structlog.testing.capture_logs() as said:
        assert supervisor.run() == 0
    assert [line["event"] for line in said] == ["worker ended, and is started again"]
