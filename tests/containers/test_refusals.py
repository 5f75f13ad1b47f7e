"""What a person gets wrong when they deploy, tried in a container: each says in words what to do."""

import shutil

import pytest

from tests.conftest import ROOT
from tests.containers.conftest import ask, classify
from tests.containers.podman import Container

MODELS = ROOT / "model/artifacts"
NO_NETWORK = "--network=none"


@pytest.fixture
def folder(tmp_path):
    """A folder that every user may enter."""
    tmp_path.chmod(0o755)
    return tmp_path


def refused(image, *options, settings=None, tmp="512m"):
    """Start it, see it end; return its exit status and what it said."""
    with Container(image, settings=settings, options=[NO_NETWORK, *options], tmp=tmp) as container:
        return container.wait(), container.log()


def test_a_folder_that_its_user_may_not_read(cpu, folder):
    shutil.copytree(MODELS, folder / "models")
    (folder / "models").chmod(0o700)
    status, said = refused(cpu, f"--volume={folder}/models:/artifacts:ro")
    assert status == 3
    assert "/artifacts" in said
    assert "cannot be read: Permission denied; the service runs as user 10001: let it read with chmod -R a+rX" in said


def test_a_file_that_its_user_may_not_read(cpu, folder):
    shutil.copytree(MODELS, folder / "models")
    (folder / "models/digits/1/weights.bin").chmod(0o600)
    status, said = refused(cpu, f"--volume={folder}/models:/artifacts:ro")
    assert status == 3
    assert "/artifacts/digits/1/weights.bin" in said
    assert "cannot be read: Permission denied; the service runs as user 10001" in said


def test_a_folder_without_artifacts(cpu, folder):
    status, said = refused(cpu, f"--volume={folder}:/artifacts:ro")
    assert status == 3
    assert "holds no artifact; make them with: python -m export digits dates (not in this image" in said
    assert "target with-models" in said


def test_the_folder_of_one_artifact(cpu):
    status, said = refused(cpu, f"--volume={MODELS}/digits:/artifacts/digits-alone:ro",
                           settings={"artifacts": "/artifacts/digits-alone"})  # fmt: skip
    assert status == 3
    assert "holds the versions of one artifact; name the folder above it" in said


def test_the_address_of_a_store_that_is_none(cpu):
    status, said = refused(cpu, settings={"redis_url": "store:6379"})
    assert status == 2
    assert "REGARD_REDIS_URL: must be redis://, rediss:// or unix:// with known options, such as redis://store" in said


def test_a_store_that_does_not_answer(cpu):
    with Container(cpu, settings={"redis_url": "redis://127.0.0.1:1"}, options=[NO_NETWORK]) as container:
        container.wait_for("ready")
        _, headers = classify(container)
        failed = container.wait_for("redis failed")
        assert "REGARD_REDIS_URL names a server that runs" in failed["do"]
        status, _, document = ask(container, "GET", f"/v1/attention/{headers['x-request-id']}")
        assert (status, document["detail"]) == (
            503, "id: what it stands for is kept on a server that cannot be reached"
        )  # fmt: skip


def test_a_file_of_keys_that_is_not_there(cpu):
    status, said = refused(cpu, settings={"api_keys": "/run/secrets/keys"})
    assert status == 2
    assert "REGARD_API_KEYS: /run/secrets/keys cannot be read: No such file or directory; in a container, mount" in said


def test_too_little_memory_for_the_models(cpu):
    status, said = refused(cpu, "--memory=140m", "--memory-swap=140m")
    assert status in (3, 137)
    assert "memory may be too little" in said
    assert status == 137 or "SIGKILL, which the system sends where memory is short" in said


def test_too_little_memory_for_anything(cpu):
    status, said = refused(cpu, "--memory=64m", "--memory-swap=64m")
    assert status == 137
    assert "memory may be too little" in said


def test_a_small_folder_for_temporary_files(cpu):
    status, said = refused(cpu, tmp="2m")
    assert status == 2
    assert "set TMPDIR to a larger folder, or give this one more room (in a container: the size of /tmp)" in said


def test_no_folder_for_temporary_files(cpu):
    status, said = refused(cpu, tmp="")
    assert status == 2
    assert "in a container whose root is read-only, mount one at /tmp" in said
