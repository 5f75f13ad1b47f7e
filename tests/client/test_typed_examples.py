"""The examples of the guide and of both README pass the type checker that they promise to pass."""

import os
import subprocess
import sys

from tests.clients.typed_examples import write_examples
from tests.conftest import ROOT

WRONG = 'import regard\n\nseen = regard.connect()["digits"].classify("a.png", topk=3)\nprint(seen.label)\n'
TYPED = 'import regard\n\nprint(regard.connect().model("digits", regard.Classification)("a.png").text)\n'


def checked(*files):
    """Return what mypy says of files, as a user of the client runs it."""
    command = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", ROOT / ".pytest_cache/mypy", *files]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "client")}
    return subprocess.run(command, capture_output=True, text=True, cwd=files[0].parent, env=environment).stdout


def test_the_examples_pass(tmp_path):
    files = write_examples(tmp_path)
    assert all("regard" in file.read_text() for file in files)
    assert checked(*files) == f"Success: no issues found in {len(files)} source files\n"


def test_a_wrong_option_and_a_wrong_field_are_found(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "typed.py").write_text(TYPED)
    said = checked(tmp_path / "wrong.py", tmp_path / "typed.py")
    assert 'Unexpected keyword argument "topk" for "classify" of "Model"; did you mean "top_k"?' in said
    assert '"Classification" has no attribute "label"; maybe "labels"?' in said
    assert '"Classification" has no attribute "text"' in said
