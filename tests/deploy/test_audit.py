"""The audit of what the images install."""

import json
import subprocess

import pytest

from deploy import audit

CLEAN = {"name": "numpy", "version": "2.1.0", "vulns": []}
UNKNOWN = {"name": "torch", "skip_reason": "not found"}
VULNERABLE = {"name": "pillow", "version": "9.0.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["9.0.1", "9.1"]}]}


NOT_AUDITED = "NOT AUDITED: build.lock, cpu.lock, export.lock, gpu.lock, torch.txt"


@pytest.mark.parametrize(
    ("answer", "error", "status", "said"),
    [
        ([CLEAN, UNKNOWN], "", 0, "1 packages, 1 skipped, 0 known vulnerabilities"),
        ([CLEAN, VULNERABLE], "", 1, "pillow 9.0.0: PYSEC-1, mended in 9.0.1, 9.1"),
        ([UNKNOWN], "", 0, "not audited: the database knows none of 1 packages"),
        (
            None,
            "a\nrequests.exceptions.ProxyError: HTTPSConnectionPool",
            0,
            "not audited: the database cannot be reached",
        ),
        (
            None,
            "ERROR:pip_audit._cli:Could not connect to PyPI's feed",
            0,
            "not audited: the database cannot be reached",
        ),
        (None, "no module named pip_audit", 2, "pip-audit failed\n  no module named pip_audit"),
        (None, "line\n" * 9 + "ERROR: hashes do not match", 2, "line\n  line\n  line\n  line\n  ERROR: hashes do not"),
        (None, "", 2, "pip-audit failed"),
    ],
)
def test_what_is_vulnerable_and_what_fails_has_its_status(monkeypatch, capsys, answer, error, status, said):
    def run(command, **_):
        assert command[1:3] == ["-m", "pip_audit"]
        output = json.dumps({"dependencies": answer}) if answer else "Traceback"
        return subprocess.CompletedProcess(command, 1, output, error)

    monkeypatch.setattr(audit.subprocess, "run", run)
    assert audit.main([]) == status
    printed = capsys.readouterr().out
    assert printed.count(said) == 5, "one for each lock file, and one for torch"
    nothing_known = "not audited" in said
    assert (printed.splitlines()[-1] == NOT_AUDITED) == nothing_known
    assert audit.main(["--strict"]) == (2 if nothing_known else status)
