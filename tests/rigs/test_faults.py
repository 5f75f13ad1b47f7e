"""What the service does when something fails: a test a row of the list of faults, named by its number.

Rows 3.7 to 3.9, 3.11 and 3.15 are rigs of their own, in test_rigs.py. Rows of containers are in tests/containers/, the
memory of a GPU (3.16) in tests/end_to_end/test_gpu_against_cpu.py; 3.17 needs a GPU that can be lost.
"""

import asyncio
import concurrent.futures
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import httpx
import onnx
import pytest

from contract.artifact import describe
from tests.conftest import ROOT, start
from tests.rigs.client import Connection, request
from tests.rigs.faults import NAME, faulty, scan
from tests.rigs.mixes import DATE, DATES, DIGITS, SCANS
from tests.rigs.reload import flip, truncate
from tests.rigs.replica import Replica

SEVEN = SCANS[4]
PNG = {"Content-Type": "image/png"}
PATH = f"/v1/models/{NAME}/classify"
DEADLINE = 2.0


@pytest.fixture(scope="session")
def artifacts(light):
    """Most tests here need no graph that explains a score."""
    return light


@pytest.fixture(scope="module")
def misbehaving(artifacts, tmp_path_factory):
    """A folder with a model that misbehaves when it is told to."""
    return faulty(artifacts, tmp_path_factory.mktemp("faulty"))


@pytest.fixture(scope="module")
def replica(misbehaving):
    """The service with that model, for several tests."""
    with Replica(misbehaving, log_level="error", warm=True) as replica:
        yield replica


@pytest.fixture
def stuck(misbehaving):
    """As above, for one test that leaves it in no state to be used again, and with a deadline of two seconds."""
    settings = {"request_seconds": DEADLINE, "shutdown_grace_seconds": 3}
    with Replica(misbehaving, log_level="error", warm=True, **settings) as replica:
        yield replica
        replica.kill()


@pytest.fixture
def copied(artifacts, tmp_path):
    shutil.copytree(artifacts, tmp_path / "artifacts")
    return tmp_path / "artifacts"


def ask(replica, data, **options):
    return replica.http.post(PATH, content=data, headers=PNG, params={"top_k": 1, **options})


def label(answer):
    return answer.json()["results"][0]["labels"][0]


def behind_a_slow_one(replica, images):
    """Ask for all of them while a long run holds the device, so that they are one batch; return their answers."""
    with concurrent.futures.ThreadPoolExecutor(len(images) + 1) as pool:
        slow = pool.submit(ask, replica, scan(0, "slow"))
        time.sleep(0.15)
        sent = [pool.submit(ask, replica, image) for image in images]
        assert slow.result().status_code == 200
        return [one.result() for one in sent]


# 3.1 A model that cannot be loaded


def _missing(folder):
    (folder / "weights.bin").unlink()


def _empty(folder):
    (folder / "predict.onnx").write_bytes(b"")


def _garbage(folder):
    rewritten(folder, os.urandom(5000))


def _other_names(folder):
    model = onnx.load(folder / "predict.onnx", load_external_data=False)
    model.graph.output[0].name = "others"
    model.graph.node[-1].output[0] = "others"
    rewritten(folder, model.SerializeToString())


def _no_manifest(folder):
    (folder / "manifest.json").unlink()


def _nothing(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def rewritten(folder, data):
    """Put other bytes in a graph's place, and let the manifest agree."""
    (folder / "predict.onnx").write_bytes(data)
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["graphs"]["predict"] |= describe(folder / "predict.onnx").model_dump()
    file.write_text(json.dumps(manifest))


# those that are slow here are in tests/service/process/test_start.py too
WHOLE = [pytest.param(spoil, marks=pytest.mark.slow) for spoil in (_missing, truncate, flip, _no_manifest)]


@pytest.mark.parametrize("spoil", [_empty, _garbage, _other_names, _nothing, *WHOLE])
def test_3_01_a_model_that_cannot_be_loaded_ends_the_start_with_its_reason(copied, spoil):
    spoil(copied / "digits/1")
    process = start(copied, port=0)
    said, _ = process.communicate(timeout=30)
    last = json.loads([line for line in said.splitlines() if line.startswith("{")][-1])
    assert process.returncode in (3, 4, 6), said
    assert last["reason"]
    assert "Traceback" not in said
    assert '"event":"ready"' not in said


# 3.2 and 3.3 One bad item among others


def test_3_02_an_answer_that_is_not_a_number_fails_alone_and_is_never_sent(replica):
    images = [scan(answer, *(["not_finite"] if answer == 4 else [])) for answer in range(8)]
    answers = behind_a_slow_one(replica, images)
    assert [answer.status_code for answer in answers] == [500 if item == 4 else 200 for item in range(8)]
    for item, answer in enumerate(answers):
        assert "null" not in answer.text
        assert "NaN" not in answer.text
        if item != 4:
            assert label(answer)["index"] == item
    assert replica.counted("regard_faults_total", kind="not_finite") == 1


def test_3_03_an_item_that_fails_takes_none_of_its_batch_with_it(replica):
    for culprit in range(8):
        images = [scan(answer, *(["exception"] if answer == culprit else [])) for answer in range(8)]
        answers = behind_a_slow_one(replica, images)
        assert [answer.status_code for answer in answers] == [500 if item == culprit else 200 for item in range(8)]
        assert all(label(answer)["index"] == item for item, answer in enumerate(answers) if item != culprit)
    assert replica.counted("regard_faults_total", kind="exception") >= 8, "the batches are counted too"


# 3.4 A worker dies


@pytest.fixture
def breakable(artifacts):
    """The service, which breaks when it is told to, and a deadline of two seconds."""
    settings = {"request_seconds": DEADLINE, "shutdown_grace_seconds": 3, "log_level": "error"}
    with Replica(artifacts, program=("-m", "tests.rigs.breaking"), **settings) as replica:
        yield replica
        replica.kill()


SENT = {
    "images": (DIGITS + "/classify", {"content": SEVEN, "headers": PNG}),
    "texts": (DATES + "/generate", {"json": {"inputs": DATE}}),
    "attention": (DATES + "/attention", {"json": {"inputs": DATE}}),
}


def test_3_04_a_thread_that_dies_is_replaced_and_no_request_hangs(breakable):
    path, sent = SENT["images"]
    breakable.process.send_signal(signal.SIGUSR1)
    time.sleep(0.2)
    begun = time.monotonic()
    assert breakable.http.post(path, **sent).status_code in (200, 500, 503, 504)
    assert time.monotonic() - begun < DEADLINE + 5
    time.sleep(1)
    assert breakable.http.post(path, **sent).status_code == 200


@pytest.mark.parametrize("kind", SENT)
def test_3_04_a_panic_in_a_run_fails_its_requests_and_the_next_is_answered(breakable, kind):
    path, sent = SENT[kind]
    breakable.process.send_signal(signal.SIGUSR2)
    time.sleep(0.2)
    begun = time.monotonic()
    assert breakable.http.post(path, **sent).status_code in (500, 503)
    assert time.monotonic() - begun < DEADLINE + 5
    assert breakable.http.post(path, **sent).status_code == 200


# 3.5 A run that does not end


def test_3_05_a_run_that_does_not_end_is_given_up_at_the_deadline_and_the_next_is_answered(stuck):
    begun = time.monotonic()
    assert ask(stuck, scan(1, "endless")).status_code == 504
    assert time.monotonic() - begun < DEADLINE + 5
    assert stuck.http.get("/health/live").status_code == 200
    try:
        assert label(ask(stuck, scan(3)))["index"] == 3
        assert stuck.http.post(DATES + "/generate", json={"inputs": DATE}).status_code == 200
    except KeyError as error:
        raise AssertionError("the device is still held") from error


def test_3_05_a_run_that_does_not_end_does_not_keep_the_service_from_stopping(stuck):
    def hang():
        with contextlib.suppress(httpx.TransportError):
            ask(stuck, scan(1, "endless"))

    asking = threading.Thread(target=hang)
    asking.start()
    time.sleep(0.3)
    stuck.process.send_signal(signal.SIGTERM)
    try:
        assert stuck.process.wait(15) == 0
    except subprocess.TimeoutExpired as error:
        raise AssertionError("it is still there") from error
    finally:
        stuck.kill()
        asking.join()


# 3.6 Clients that leave


@pytest.mark.slow
def test_3_06_what_clients_that_have_left_were_waiting_for_is_not_run(replica):
    many = 100
    before = replica.counted("regard_batch_items_total", model=NAME, role="predict")

    async def leave():
        connections = [await Connection.open(replica.port) for _ in range(many)]
        for connection in connections:
            connection.leave(request("POST", PATH, scan(1), "image/png"))
        await asyncio.sleep(0.2)
        for connection in connections:
            connection.reset()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        images = [("image", scan(0, "slow"))] * 8  # one run, of some seconds
        slow = pool.submit(replica.http.post, PATH, files=images)
        time.sleep(0.3)
        asyncio.run(leave())
        assert not slow.done(), "it was to be longer"
        assert slow.result().status_code == 200
    last = time.monotonic() + 30
    while (held := replica.counted("regard_requests_in_flight")) > 1 and time.monotonic() < last:
        time.sleep(0.05)
    assert held == 1, "of which this question is one"
    assert label(ask(replica, scan(3)))["index"] == 3
    run = replica.counted("regard_batch_items_total", model=NAME, role="predict") - before
    assert run - len(images) - 1 <= many / 10


def test_3_06_clients_that_leave_at_any_moment_leave_nothing_behind(replica):
    chance = random.Random(0)
    assert replica.counted("regard_requests_in_flight") == 1, "this question"
    files = replica.files()

    async def leave():
        for _ in range(300):
            connection = await Connection.open(replica.port)
            whole = request("POST", PATH, scan(1), "image/png")
            connection.leave(whole[: chance.randint(0, len(whole))] if chance.random() < 0.5 else whole)
            await asyncio.sleep(chance.expovariate(1000))
            connection.reset()

    asyncio.run(leave())
    time.sleep(1)
    assert replica.counted("regard_requests_in_flight") == 1
    assert replica.files() <= files
    assert label(ask(replica, scan(3)))["index"] == 3


# 3.7 A stop before there is anything to stop


@pytest.mark.parametrize(
    "seconds",
    [0.8, *(pytest.param(seconds, marks=pytest.mark.slow) for seconds in (0.1, 0.3, 0.6, 1.0, 1.2, 1.5, 2.0))],
)
def test_3_07_a_stop_while_models_are_loaded_or_warmed_up_ends_the_process(artifacts, seconds):
    process = start(artifacts, port=0)
    time.sleep(seconds)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=20)
    assert process.returncode in (0, -signal.SIGTERM), said
    assert "Traceback" not in said


# 3.10 A herd at the start


@pytest.mark.slow
def test_3_10_requests_that_come_before_the_service_is_ready_are_told_to_come_again(misbehaving):
    replica = Replica(misbehaving, log_level="error")
    statuses = []

    def knock(_):
        last = time.monotonic() + 40
        while time.monotonic() < last:
            try:
                answer = ask(replica, scan(3))
            except httpx.TransportError:  # it does not listen yet
                time.sleep(0.02)
                continue
            statuses.append((answer.status_code, "Retry-After" in answer.headers))
            if answer.status_code == 200:
                return
            time.sleep(0.02)

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        list(pool.map(knock, range(200)))
    replica.stop()
    assert set(statuses) <= {(200, False), (503, True)}
    assert statuses.count((200, False)) == 200


# 3.12 to 3.14 What the machine runs out of


@pytest.mark.slow
def test_3_12_with_no_file_left_to_open_it_goes_on_and_recovers(misbehaving):
    with Replica(misbehaving, log_level="error", before=("prlimit", "--nofile=64:64")) as replica:
        held = []
        for _ in range(100):
            try:
                held.append(socket.create_connection(("127.0.0.1", replica.port), timeout=0.2))
            except OSError:
                break
        time.sleep(0.5)
        assert replica.process.poll() is None
        for connection in held:
            connection.close()
        last = time.monotonic() + 10
        while True:
            try:
                assert label(ask(replica, scan(3)))["index"] == 3
                break
            except httpx.TransportError:
                assert time.monotonic() < last
                time.sleep(0.1)


@pytest.mark.parametrize("format_", ["json", pytest.param("console", marks=pytest.mark.slow)])
def test_3_13_a_log_that_cannot_be_written_keeps_nobody_from_an_answer(misbehaving, format_):
    before = ("bash", "-c", 'exec "$@" > /dev/full 2>&1', "bash")
    with Replica(misbehaving, before=before, log_format=format_) as replica:
        for _ in range(20):
            assert label(ask(replica, scan(3)))["index"] == 3
        assert ask(replica, b"none").status_code == 415
        assert replica.process.poll() is None


@pytest.mark.slow
def test_3_13_nothing_is_written_to_a_disk(artifacts):
    """Once it has its copy of the models: under a limit of no bytes a file, which a spooled body would pass."""
    before = ("bash", "-c", 'exec "$@" > /dev/null 2>&1', "bash")
    with Replica(artifacts, before=before) as replica:
        resource.prlimit(replica.process.pid, resource.RLIMIT_FSIZE, (0, 0))
        files = [("image", SEVEN + bytes(100_000))] * 30
        assert replica.http.post(DIGITS + "/classify", files=files).status_code == 200
        assert replica.process.poll() is None


@pytest.mark.slow
def test_3_14_a_clock_that_jumps_ends_no_request(misbehaving, tmp_path):
    library = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
    if library is None:
        pytest.skip("libfaketime is not installed")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    settings = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    before = ("env", *(f"{name}={value}" for name, value in settings.items()))
    with Replica(misbehaving, before=before) as replica:
        kept = ask(replica, scan(3)).json()["id"]
        for jump in ("+3600", "-3600", "+86400", "+0"):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                slow = pool.submit(ask, replica, scan(4, "slow"))
                time.sleep(0.1)
                clock.write_text(jump)
                assert label(slow.result())["index"] == 4
            assert label(ask(replica, scan(3)))["index"] == 3
            assert replica.http.get(f"/v1/attention/{kept}").status_code == 200
        replica.stop()
        stamps = [json.loads(line)["timestamp"] for line in replica.said().splitlines() if '"request"' in line]
    assert len({stamp[:13] for stamp in stamps}) > 1, "the clock did not jump"


# 3.18 to 3.20


@pytest.mark.slow
def test_3_18_a_store_that_never_answers_delays_no_prediction_for_long(artifacts):
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen(100)
        url = f"redis://127.0.0.1:{hole.getsockname()[1]}"
        with Replica(artifacts, redis_url=url, log_level="error") as replica:
            for _ in range(3):
                begun = time.monotonic()
                assert replica.http.post(DIGITS + "/classify", content=SEVEN, headers=PNG).status_code == 200
                assert time.monotonic() - begun < 5
            assert replica.http.get("/health/live").status_code == 200


@pytest.mark.slow  # as above
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"foo": 1}, ["REGARD_FOO"]),
        ({"port": 70000, "threads": "x"}, ["REGARD_PORT", "REGARD_THREADS"]),
        ({"request_seconds": 0, "log_level": "loud", "bar": 1}, ["REGARD_REQUEST_SECONDS", "LOG_LEVEL", "REGARD_BAR"]),
    ],
)
def test_3_19_wrong_settings_are_all_named_at_once(artifacts, settings, words):
    process = start(artifacts, **settings)
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 2
    assert all(word in said for word in words)


@pytest.mark.slow  # as above
def test_3_20_a_port_that_is_taken_ends_the_start(artifacts):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(artifacts, port=taken.getsockname()[1])
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 5, said


def test_deadlines_are_not_of_the_clock_on_the_wall():
    """A jump of that one would end requests; only what is kept by the hour may look at it."""
    for file in (ROOT / "service").glob("*.py"):
        assert "datetime.now" not in file.read_text(), file.name
        assert "time.time()" not in file.read_text(), file.name
