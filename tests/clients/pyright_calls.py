"""What pyright, and so Pylance, says of examples that use our own client."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from typed_examples import write_examples


def examples(service):
    """Check the examples of the guide and of both README."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_examples(folder)
        command = [Path(sys.prefix) / "bin/pyright", "--pythonpath", sys.executable, "--outputjson", *files]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        found = json.loads(done.stdout)
    faults = [f"{Path(one['file']).name}: {one['message']}" for one in found["generalDiagnostics"]]
    assert not faults, faults
    assert found["summary"]["filesAnalyzed"] == len(files)
