"""What several folders of tests share: artifacts that are exported once, and the service as a process."""

import functools
import hashlib
import importlib.metadata
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import hypothesis
import pytest
from filelock import FileLock

from tests.samples.redis_server import RedisServer
from tests.samples.small_disk import SmallDisk

ROOT = Path(__file__).parent.parent

pytest_plugins = ["tests.cost"]

hypothesis.settings.register_profile("untimed", deadline=None)  # the machine may be busy
hypothesis.settings.load_profile("untimed")

for name in [name for name in os.environ if name.startswith("REGARD_")]:
    del os.environ[name]  # every test chooses its own settings; programs of tests that are started get theirs by these


def pytest_collection_modifyitems(items):
    """Mark what waits for the checkpoints of every family, whose export takes minutes."""
    for item in items:
        if "families" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.families)
            item.add_marker(pytest.mark.timeout(1800))  # on a busy machine, too


KEPT = ROOT / ".pytest_cache/d/exports"
"""Exports of tests, kept for later runs until the code, the weights or a package changes; --cache-clear empties it."""


@functools.cache
def made_of():
    """Return a hash of all that decides what an export is."""
    found = hashlib.sha256(sys.version.encode())
    folders = (ROOT / name for name in ("contract", "export", "model", "tests/samples"))
    # where Python keeps its bytecode, files come and go
    files = (
        file for folder in folders for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts
    )
    for file in sorted([*files, Path(__file__)]):
        found.update(f"{file.relative_to(ROOT)} {file.stat().st_size} ".encode() + file.read_bytes())
    # setuptools, once imported, adds packages of its own to sys.path
    installed = importlib.metadata.distributions(path=[sysconfig.get_path("purelib")])
    for package in sorted(f"{one.name} {one.version} " for one in installed):
        found.update(package.encode())
    return found.hexdigest()


def once(name, make):
    """Return a folder that `make` fills, in one of the processes that tests run in, for all of them and for later runs.

    Nothing may write to it afterwards.
    """
    source = Path(make.__code__.co_filename).read_bytes()
    key = hashlib.sha256(made_of().encode() + source).hexdigest()[:16]
    folder, made = KEPT / f"{name}-{key}", KEPT / f"{name}.made"
    KEPT.mkdir(parents=True, exist_ok=True)
    with FileLock(KEPT / f"{name}.lock"):
        if not folder.exists():
            for old in (made, *KEPT.glob(f"{name}-{'?' * len(key)}")):
                shutil.rmtree(old, ignore_errors=True)
            made.mkdir()
            make(made)
            made.rename(folder)
    return folder


def export(*names):
    """Return what makes artifacts by the command that users type."""

    def make(folder):
        done = subprocess.run(
            [sys.executable, "-m", "export", *names, "--to", folder], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "[W:onnxruntime" not in done.stderr

    return make


EXPORTED = {
    "dino": ["digits-dino"],
    "minilm": ["minilm"],
    "languages": ["dates-clm", "dates-mlm"],
    "captions-soft": ["captions-soft"],
    "scenes-detr": ["scenes-detr"],
}
"""Bundled models that the repository holds no artifacts of, by the folder of their artifacts."""


def exported(name):
    """Return a folder of EXPORTED, with artifacts that are made once."""
    return once(name, export(*EXPORTED[name]))


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory):
    """A folder with the artifacts of both bundled models, as the repository holds them."""
    return shutil.copytree(ROOT / "model/artifacts", tmp_path_factory.mktemp("bundled") / "artifacts")


@pytest.fixture
def copied(artifacts, tmp_path):
    """A copy of the artifacts of both bundled models, for a test to change."""
    return shutil.copytree(artifacts, tmp_path / "artifacts")


@pytest.fixture(scope="session")
def client(artifacts):
    """A client of a service with both bundled models and the settings nobody changed."""
    with served(artifacts) as client:
        yield client


@pytest.fixture(scope="session")
def anyio_backend():
    """The event loop that tests with `async def` run on."""
    return "asyncio"


@pytest.fixture(scope="module")
def running_redis():
    """A Redis server of the tests' own."""
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed: apt-get install redis-server")
    pytest.importorskip("redis")
    with tempfile.TemporaryDirectory() as folder:  # pytest's are too long for the path of a socket
        server = RedisServer(folder)
        yield server
        server.kill()


@pytest.fixture
def redis_server(running_redis):
    """A Redis server that holds nothing."""
    running_redis.ask("FLUSHALL")
    return running_redis


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 48 MiB: room for copies of the bundled models and what workers share."""
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = SmallDisk(folder, "48m")
    try:
        if not disk.mounted:
            pytest.skip("mounting a small disk needs root")
        yield disk
    finally:
        disk.close()


@pytest.fixture(scope="session")
def dino():
    """A folder with the artifact of the embeddings of digits."""
    return exported("dino")


@pytest.fixture(scope="session")
def minilm():
    """A folder with the artifact of minilm."""
    return exported("minilm")


@pytest.fixture(scope="session")
def classifier():
    """A folder with the checkpoint and the artifact of a small BERT that classifies texts and pairs of them."""

    def make(folder):
        command = [sys.executable, "-m", "tests.samples.checkpoints", folder, "bert"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return once("classifier", make)


@pytest.fixture(scope="session")
def language_models():
    """A folder with the artifacts of the language models of dates, masked and causal."""
    return exported("languages")


@pytest.fixture(scope="session")
def captions():
    """A folder with the artifact of the captions with soft attention."""
    return exported("captions-soft")


@pytest.fixture(scope="session")
def scenes():
    """A folder with the artifact of the detector of digits."""
    return exported("scenes-detr")


@pytest.fixture(scope="session")
def detectors():
    """A folder with the artifacts of small detectors of each form."""
    from tests.samples.detectors import write  # imports the exporter

    return once("detectors", write)


@pytest.fixture(scope="session")
def families():
    """A folder with a small checkpoint of every family, and with the artifacts that the command makes of them."""
    from tests.samples.checkpoints import CASES  # needs the reference libraries, which take seconds to import

    def make(folder):
        names = sorted(
            CASES, key=lambda name: ("generation" in CASES[name].task, name)
        )  # the longest last, dealt out evenly
        working = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.samples.checkpoints", str(folder), *names[start::2]],
                cwd=ROOT,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for start in range(2)
        ]
        for process in working:
            said, _ = process.communicate()
            assert process.returncode == 0, said

    return once("families", make)


START_SECONDS = 180
"""A service of all families of checkpoints took 18 seconds beside other tests, and a busy machine takes longer."""


@contextmanager
def served(artifacts, **settings):
    """Run `python -m service` on a free port until the block ends; gives a client whose base is its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115 # closed below, once the process has written its last line
    process = start(artifacts, log, port=port, **settings)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
    try:
        for _ in range(START_SECONDS * 10):
            try:
                if client.get("/health/ready").status_code == 200:
                    break
            except httpx.TransportError:
                assert process.poll() is None, lines(log)
            time.sleep(0.1)
        else:
            raise TimeoutError(f"the service is not ready after {START_SECONDS} seconds")
        client.process = process
        client.lines = lambda: lines(log)
        yield client
    finally:
        client.close()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        said = lines(log)
        log.close()
        assert all(line.startswith("{") for line in said), "\n".join(said)  # what is no JSON, such as a traceback
        client.log = [json.loads(line) for line in said]


def lines(log):
    """Return what was logged. The service writes where the file's position is, which `pread` does not move."""
    return os.pread(log.fileno(), os.fstat(log.fileno()).st_size, 0).decode().splitlines()


def start(artifacts, log=subprocess.PIPE, program=("-m", "service"), **settings):
    """Start `python -m service`, or another program, with settings from keyword arguments and no others."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")}
    settings = {"drain_seconds": 0, **settings}  # nothing routes to it that would have to be told
    environment |= {f"REGARD_{name}".upper(): str(value) for name, value in settings.items()}
    return subprocess.Popen(
        [sys.executable, *program],
        cwd=ROOT,
        env=environment | {"REGARD_ARTIFACTS": str(artifacts)},
        stdout=log,
        stderr=subprocess.STDOUT,
        text=True,
    )
