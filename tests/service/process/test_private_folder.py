"""The folder for the temporary files of a service: private, removed at the end or by the next service."""

import json
import subprocess
import sys
import tempfile

import pytest

from service.process.private_folder import private_folder
from tests.conftest import ROOT, served

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks of folders are tried on Linux")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files of this process and of those that it starts."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def test_it_is_private_and_removed_at_the_end(temporary):
    with private_folder() as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").write_text("")
    assert list(temporary.iterdir()) == []


def test_what_a_killed_service_left_is_removed_and_what_a_living_one_has_is_not(temporary):
    code = (
        "import os, signal; from service.process.private_folder import private_folder\n"
        "with private_folder() as folder: (folder / 'large').write_text(''); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with private_folder() as living:
        assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == -9
        (killed,) = {*temporary.iterdir()} - {living}
        assert (killed / "large").exists()
        with private_folder() as third:
            assert {*temporary.iterdir()} == {living, third}


def test_a_service_leaves_nothing_in_it_and_keeps_nothing_of_its_models_there(temporary, light):
    with served(light, decode="confined") as client:
        assert client.get("/health/ready").status_code == 200
        assert [path for path in temporary.rglob("*") if path.is_file()] == []
    assert list(temporary.iterdir()) == []


def test_a_service_without_a_folder_for_temporary_files_says_so(light, monkeypatch):
    code = (
        "import sys, tempfile\n"
        "def none(*given, **options): raise FileNotFoundError(2, 'No usable temporary directory found')\n"
        "tempfile.gettempdir = none\n"
        "from service.__main__ import main\n"
        "sys.exit(main())"
    )
    monkeypatch.setenv("REGARD_ARTIFACTS", str(light))
    monkeypatch.setenv("REGARD_PORT", "0")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    said = json.loads(done.stdout.splitlines()[-1])
    assert "TMPDIR" in said["event"]
    assert "mount one at /tmp" in said["do"]


def test_a_service_whose_folder_has_no_room_for_the_models_names_the_bytes(light, monkeypatch):
    """The limit of a file's size stands in for a folder that is full."""
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "from service.__main__ import main\n"
        "sys.exit(main())"
    )
    monkeypatch.setenv("REGARD_ARTIFACTS", str(light))
    monkeypatch.setenv("REGARD_PORT", "0")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["event"] == "no room for a copy of the models"
    assert "must have room for " in said["reason"]
    assert "set TMPDIR to a larger folder, or give this one more room" in said["reason"]
