"""What several folders of tests share: artifacts, and the service as a process."""

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import get_args

import httpx
import hypothesis
import pytest

from contract.manifest import GradientMethod
from tests.samples.changed_artifacts import edit
from tests.samples.exports import ROOT, exported, once
from tests.samples.ports import free_port
from tests.samples.redis_server import RedisServer
from tests.samples.small_disk import SmallDisk
from tests.samples.warm_start import WarmPopen

pytest_plugins = ["tests.cost"]

hypothesis.settings.register_profile("untimed", deadline=None)  # the machine may be busy
hypothesis.settings.load_profile("untimed")

for name in [name for name in os.environ if name.startswith("REGARD_")]:
    del os.environ[name]  # every test chooses its own settings; programs of tests that are started get theirs by these


def pytest_collection_modifyitems(items):
    """Mark what is about the families of checkpoints; of a choice of cases, only what is about these is run."""
    for item in items:
        if "checkpoints" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.families)
    if os.environ.get("CASES"):
        from tests.samples.checkpoints import CHOSEN

        items[:] = [item for item in items if not CHOSEN.keys().isdisjoint(map(str, parameters(item)))]


def pytest_collection_finish():
    """Have the garbage collector pass over what was imported: a tenth of the time went into looking at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def parameters(item):
    """Return the values of an item's parameters."""
    return item.callspec.params.values() if hasattr(item, "callspec") else ()


@pytest.fixture(scope="session")
def artifacts(complete):
    """A folder with the artifacts of both bundled models: those of `complete`, or where a test says so of `light`."""
    return complete


@pytest.fixture(scope="session")
def complete(tmp_path_factory):
    """The artifacts of both bundled models, as the repository holds them."""
    return shutil.copytree(ROOT / "model/artifacts", tmp_path_factory.mktemp("bundled") / "artifacts")


@pytest.fixture(scope="session")
def light(tmp_path_factory):
    """The same without the graphs that explain, which are most of what a start loads and tries."""
    folder = shutil.copytree(ROOT / "model/artifacts", tmp_path_factory.mktemp("light") / "artifacts")
    for file in folder.rglob("manifest.json"):
        edit(file.parent, without_gradients)
        for role in (*get_args(GradientMethod), "inside"):
            (file.parent / f"{role}.onnx").unlink()
    return folder


def without_gradients(manifest):
    """Take the methods that explain a score out of a manifest, and the graph of what is inside."""
    for role in (*get_args(GradientMethod), "inside"):
        del manifest["graphs"][role]
    for kind in manifest["attention"]:
        kind["methods"] = [method for method in kind["methods"] if method not in get_args(GradientMethod)]
    manifest["best"] = None


@pytest.fixture
def copied(artifacts, tmp_path):
    """A copy of the artifacts of both bundled models, for a test to change."""
    return shutil.copytree(artifacts, tmp_path / "artifacts")


@pytest.fixture
def light_copy(light, tmp_path):
    """The same of `light`."""
    return shutil.copytree(light, tmp_path / "artifacts")


@pytest.fixture(scope="session")
def client(complete):
    """A client of a service with both bundled models and the settings nobody changed."""
    with served(complete, decode="confined") as client:
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
def photos():
    """A folder with the artifact of photos, whose export takes minutes."""
    return exported("photos")


@pytest.fixture(scope="session")
def classifier():
    """The folder of the artifact of a small BERT that classifies texts and pairs of them."""
    from tests.samples.checkpoints import artifact_of  # needs the reference libraries, which take seconds to import

    return artifact_of("bert")


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
def towers():
    """A folder with the artifacts of the two towers of coloured digits and their labels."""
    return exported("scenes-clip")


@pytest.fixture(scope="session")
def detectors():
    """A folder with the artifacts of small detectors of each form."""
    from tests.samples.detectors import write  # imports the exporter

    return once("detectors", write)


@pytest.fixture(scope="session")
def checkpoints():
    """What returns the folder of a small checkpoint of a family, by the name of its case."""
    from tests.samples.checkpoints import checkpoint_of  # as above

    return checkpoint_of


@pytest.fixture(scope="session")
def families(checkpoints):
    """What returns the folder of the artifact of a small checkpoint, by the name of its case."""
    from tests.samples.checkpoints import artifact_of

    return artifact_of


@pytest.fixture(scope="session")
def every_family(families, tmp_path_factory):
    """A folder with the artifacts of all cases that are exported."""
    from tests.samples.checkpoints import EXPORTED

    folder = tmp_path_factory.mktemp("families")
    names = sorted(EXPORTED, reverse=os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579")
    for name in names:  # two processes begin at either end, and each waits for what the other makes
        (folder / name).symlink_to(families(name))
    return folder


START_SECONDS = 180
"""A service of all families of checkpoints took 18 seconds beside other tests, and a busy machine takes longer."""


@contextmanager
def served(artifacts, **settings):
    """Run `python -m service` on a free port until the block ends; gives a client whose base is its address."""
    port = free_port()
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


COLD = "-m", "service"
"""The program that is the service with its imports to come."""


def start(artifacts, log=subprocess.PIPE, program=None, **settings):
    """Start `python -m service`, or another program, with settings from keyword arguments and no others.

    The service begins with its imports done (`warm_start.py`), where there is Linux.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")}
    # nothing routes to it that would have to be told; and where images do not matter, nothing more is started for them
    settings = {"port": 0, "drain_seconds": 0, "decode": "threads", **settings}
    environment |= {f"REGARD_{name}".upper(): str(value) for name, value in settings.items()}
    begin = WarmPopen if program is None and sys.platform == "linux" else subprocess.Popen
    return begin(
        [sys.executable, *(program or COLD)],
        cwd=ROOT,
        env=environment | {"REGARD_ARTIFACTS": str(artifacts)},
        stdout=log,
        stderr=subprocess.STDOUT,
        text=True,
    )
