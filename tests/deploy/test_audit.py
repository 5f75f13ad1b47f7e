"""The audit of what the images install."""

import json
import subprocess

import pytest

from deploy import audit

CLEAN = {"name": "numpy", "version": "2.1.0", "vulns": []}
UNKNOWN = {"name": "torch", "skip_reason": "not found"}
VULNERABLE = {"name": "pillow", "version": "9.0.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["9.0.1", "9.1"]}]}


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ([CLEAN, UNKNOWN], 0, "1 packages, 0 known vulnerabilities"),
        ([CLEAN, VULNERABLE], 1, "pillow 9.0.0: PYSEC-1, mended in 9.0.1, 9.1"),
        ([UNKNOWN], 0, "no database can be reached"),
        (None, 0, "no database can be reached"),
    ],
)
def test_a_known_vulnerability_fails_and_an_unreachable_database_is_named(monkeypatch, capsys, answer, status, said):
    def run(command, **_):
        assert command[1:3] == ["-m", "pip_audit"]
        return subprocess.CompletedProcess(command, 1, json.dumps({"dependencies": answer}) if answer else "Traceback")

    monkeypatch.setattr(audit.subprocess, "run", run)
    assert audit.main() == status
    printed = capsys.readouterr().out
    assert printed.count(said) == 3, "one for each lock file"
