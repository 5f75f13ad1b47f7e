"""What says that a fresh machine cannot run containers, and what to install there."""

import re
import subprocess

import pytest

from tests.conftest import ROOT
from tests.containers import needs

INSTALL = "apt-get install --yes --no-install-recommends"


@pytest.fixture
def machine(monkeypatch):
    """A machine of root's that has some programs; what it runs by podman fails as is said."""

    def having(*programs, user=0, failing=None):
        def run(*command, **_):
            if command[:2] == ("podman", "run") and failing:
                raise needs.PodmanError(failing)
            return ""

        monkeypatch.setattr(needs, "found", lambda program: f"/usr/bin/{program}" if program in programs else None)
        monkeypatch.setattr(needs, "run", run)
        monkeypatch.setattr(needs.os, "geteuid", lambda: user)
        monkeypatch.setattr(needs.tarfile.TarFile, "add", lambda *_: None)

    return having


ALL = (*needs.NEEDS, "podman-compose")


@pytest.mark.parametrize("program", needs.NEEDS)
def test_what_is_missing_is_named_with_the_command_that_installs_it(machine, capsys, program):
    machine(*(one for one in ALL if one != program))
    assert needs.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{program}: not installed; {INSTALL} {program}"
    assert [line.split()[1] for line in lines if line.startswith("MISSING")] == [program]
    assert sum(line.startswith("here") for line in lines) == len(ALL) - 1


def test_on_a_fresh_machine_one_line_installs_all_and_podman_last(machine):
    machine("podman-compose")
    assert needs.lacking().endswith(f"{INSTALL} {' '.join(needs.NEEDS)}")
    assert list(needs.NEEDS).index("netavark") < list(needs.NEEDS).index("podman")


def test_compose_comes_with_make(machine):
    machine(*needs.NEEDS)
    assert needs.lacking() == ""
    assert needs.lacking("podman-compose") == "podman-compose: not installed; make lint"


def test_another_user_than_root_is_told_so(machine):
    machine(*ALL, user=1000)
    assert needs.lacking() == "debootstrap needs root"


def test_a_machine_where_no_container_starts_says_why_by_the_last_words_of_podman(machine, capsys):
    machine(*ALL, failing="podman run --rm: status 126\nError: crun: cgroups in hybrid mode not supported\n")
    assert needs.main() == 1
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == "no container can start here: Error: crun: cgroups in hybrid mode not supported"
    machine(*ALL)
    assert needs.main() == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("a container starts")


@pytest.mark.parametrize("document", ["docs/operations.md", "docs/demo-cluster.md"])
def test_the_documents_name_what_is_installed_in_this_order(document):
    text = re.sub(r"\s*\\?\n\s*", " ", (ROOT / document).read_text())
    assert f"--no-install-recommends {' '.join(package for package, _ in needs.NEEDS.values())}" in text
    assert "make container-check" in text


def test_what_ci_installs_is_all_of_it_and_in_this_order():
    script = (ROOT / ".ci/run").read_text()
    (programs,) = re.findall(r"^containers=\((.*)\)$", script, re.MULTILINE)
    assert programs.split() == list(needs.NEEDS)


@pytest.mark.parametrize(
    ("check", "quick", "said", "failed"),
    [
        ("echo rows; echo 'runc: not installed'; return 1", "echo ran", "containers: SKIPPED: runc: not installed", 0),
        ("echo a container starts", "echo ran", "ran", 0),
        ("echo a container starts", "echo ran; return 3", "ran", 3),
    ],
    ids=["where none starts", "where one does", "where the tests fail"],
)
def test_ci_runs_a_part_where_containers_start_and_says_why_where_they_do_not(check, quick, said, failed):
    (step,) = re.findall(r"^if checked=.*$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    stand_in = f'make() {{ if [ "$1" = container-check ]; then {check}; else {quick}; fi; }}'
    script = f"set -euo pipefail\nfailed=0\n{stand_in}\n{step}\nexit $failed"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (f"{said}\n", failed)
