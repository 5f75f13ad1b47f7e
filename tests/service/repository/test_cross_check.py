"""Manifests that do not fit their graphs are refused at start, each with its reason."""

import json
import shutil

from tests.conftest import start
from tests.samples.changed_artifacts import edit
from tests.samples.wrong_manifests import DATES, DIGITS, all_of, put


def test_a_service_does_not_start_with_a_manifest_that_does_not_fit_its_graphs(artifacts, tmp_path):
    reasons = {}
    for model, cases in (("digits", DIGITS), ("dates", DATES)):
        for index, (change, reason) in enumerate(cases.values()):
            name = f"wrong-{model}-{index}"
            folder = shutil.copytree(artifacts / model / "1", tmp_path / name / "1")
            edit(folder, all_of(put("name", name), change))
            reasons[str(folder / "manifest.json")] = reason
    process = start(tmp_path, port=0)
    said, _ = process.communicate(timeout=120)
    lines = [json.loads(line) for line in said.splitlines()]
    refused = {line["file"]: line["reason"] for line in lines if line["event"] == "artifact cannot be used"}
    assert process.returncode == 3, said
    assert refused.keys() == reasons.keys()
    for file, reason in reasons.items():
        assert refused[file].startswith(reason)
