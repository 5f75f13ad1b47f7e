"""The names of bundled models, and the name that may have been meant."""

import re
import subprocess

import pytest

from contract.names import BUNDLED, MAX_CHARACTERS, MOST_LISTED, UNSERVED, listed, nearest, suggestion
from export.bundled import SOURCES
from tests.conftest import ROOT


def test_the_bundled_names_are_those_that_the_exporter_knows():
    assert tuple(SOURCES) == BUNDLED


@pytest.mark.parametrize("name", BUNDLED)
def test_make_has_a_rule_for_the_artifact_of_every_bundled_model(name):
    """That its error names, if it is not served."""
    target = f"artifacts/{name}/1/manifest.json"
    command = ["make", "--dry-run", "--always-make", "--file", ROOT / "Makefile", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_make_models_exports_every_bundled_model_and_none_that_attends_to_nothing():
    command = ["make", "--dry-run", "--always-make", "--file", ROOT / "Makefile", "models"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    exported = set(re.findall(r"export (\S+) --to artifacts", done.stdout))
    assert set(BUNDLED) - {"digits", "dates"} <= exported
    assert not exported & {*UNSERVED}


def test_a_long_list_of_names_is_cut_and_the_rest_counted():
    names = [f"model-{number}" for number in range(MOST_LISTED + 12)]
    assert listed(names).endswith(f"{names[MOST_LISTED - 1]} and 12 more")
    assert listed(names[:MOST_LISTED]) == ", ".join(names[:MOST_LISTED])
    assert listed(["dates"]) == "dates"


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("digts", "digits"),
        ("Digits", "digits"),
        ("digit", "digits"),
        ("caption-soft", "captions-soft"),
        ("digits-hrd", "digits-hard"),
        ("minilm-l6", "minilm"),
        ("secret-words", None),
        ("gpt2", None),
        ("", None),
        ("digits" * MAX_CHARACTERS, None),
    ],
)
def test_the_nearest_name_is_found_and_nothing_where_none_is_near(given, near):
    assert nearest(given, BUNDLED) == near


def test_what_may_have_been_meant_is_suggested():
    assert suggestion("topk", {"top_k", "method"}) == "; did you mean top_k?"
    assert suggestion("colour", {"top_k", "method"}) == ""
