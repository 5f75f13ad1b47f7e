"""Words that an engineer would search for: the worst of those that mislead are not used."""

import re
import subprocess

import pytest

from tests.conftest import ROOT

MISLEADING = {
    r"^\s*(async )?for one in .*:$": "name what a loop goes through",
    r"\bso many\b": "name the number: `count` bytes",
    r"\bmanner\b": "of errors: their form",
    r"\babreast\b": "parallel",
}
MEANT = {
    r"\babreast\b": "contract/manifest.py service/api/openapi/models.py service/api/responses.py export/tasks/image.py "
    "tests/contract/test_manifest.py tests/end_to_end/test_variants.py tests/samples/manifest_documents.py "
    "docs/attention.md ARCHITECTURE.md",
}
"""Files in which a word is the API's own."""


@pytest.mark.parametrize("pattern", MISLEADING)
def test_words_that_mislead_are_not_used(pattern):
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.js", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    meant = {"tests/test_words.py", "client/regard/static/inline.js", *MEANT.get(pattern, "").split()}
    found = [
        f"{name}:{number}: {line.strip()}"
        for name in listed.stdout.splitlines()
        if name not in meant and (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_text().splitlines(), start=1)
        if re.search(pattern, line)
    ]
    assert not found, f"{MISLEADING[pattern]}: {found[:10]}"
