"""What the Dockerfile may put into which image."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
SERVING = ["cpu", "gpu"]


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile as (instruction, rest) pairs, comments dropped and continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", "\n".join(line for line in TEXT.splitlines() if not line.startswith("#")))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())]


def stages() -> dict[str, list[tuple[str, str]]]:
    """Each stage's instructions, its FROM first."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = "before the first stage"
    for word, rest in instructions():
        if word == "FROM":
            name = rest.split(" AS ")[1]
        found.setdefault(name, []).append((word, rest))
    return found


def reached(target: str) -> list[tuple[str, str]]:
    """All instructions a target is made of: its own, its parents' and those of the stages it copies from."""
    every, seen, waiting = stages(), [], [target]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in every:
            continue
        seen.append(name)
        for word, rest in every[name]:
            if word == "FROM":
                waiting.append(rest.split(" ")[0])
            waiting.extend(re.findall(r"--from=(\S+)", rest) if word == "COPY" else [])
    return [pair for name in seen for pair in every[name]]


def copied_from_the_checkout(target: str) -> set[str]:
    return {
        source.rstrip("/")
        for word, rest in reached(target)
        if word == "COPY" and "--from=" not in rest
        for source in rest.split()[:-1]
    }


def last(target: str, wanted: str) -> str:
    """An instruction as a target sees it: its own, or its parent's."""
    name = target
    while name in stages():
        own = [rest for word, rest in stages()[name] if word == wanted]
        if own:
            return own[-1]
        name = stages()[name][0][1].split(" ")[0]
    raise AssertionError(f"{target} has no {wanted}")


def test_the_base_image_is_named_by_its_digest():
    bases = [rest for word, rest in instructions() if word == "ARG" and rest.startswith("BASE_IMAGE=")]
    assert len(bases) == 1
    assert re.fullmatch(r"BASE_IMAGE=python:3\.12-slim@sha256:[0-9a-f]{64}", bases[0])


def test_hadolint_has_nothing_to_say():
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert hadolint, "hadolint comes with the dev extra"
    done = subprocess.run([hadolint, "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target", SERVING)
def test_a_serving_image_is_made_of_its_lock_the_contract_and_the_service(target):
    assert copied_from_the_checkout(target) == {f"requirements/{target}.lock", "contract", "service"}


def test_the_export_image_is_made_of_its_lock_and_all_but_the_service():
    assert copied_from_the_checkout("export") == {"requirements/export.lock", "contract", "model", "export"}


@pytest.mark.parametrize("target", [*SERVING, "export"])
def test_everything_installed_comes_from_the_lock_and_is_checked_against_its_hashes(target):
    installs = [rest for word, rest in reached(target) if word == "RUN" and " install " in rest and "pip" in rest]
    assert len(installs) == 1
    assert "--require-hashes" in installs[0]
    assert f"-r {target}.lock" in installs[0]


@pytest.mark.parametrize("target", [*SERVING, "export"])
def test_an_image_runs_as_a_numbered_user_and_stops_on_sigterm(target):
    assert last(target, "USER") == "10001:10001"
    assert last(target, "STOPSIGNAL") == "SIGTERM"


@pytest.mark.parametrize(("target", "package"), [("cpu", "service"), ("gpu", "service"), ("export", "export")])
def test_an_image_starts_its_package_without_a_shell(target, package):
    assert last(target, "ENTRYPOINT") == f'["python", "-m", "{package}"]'


@pytest.mark.parametrize("target", SERVING)
def test_a_serving_image_asks_itself_whether_it_is_alive_without_a_shell(target):
    check = last(target, "HEALTHCHECK")
    assert "/health/live" in check
    assert 'CMD ["python", ' in check


def test_what_the_images_copy_gets_past_the_dockerignore():
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in rules
    allowed = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    for target in [*SERVING, "export"]:
        for source in copied_from_the_checkout(target):
            assert any(Path(source).match(rule) for rule in allowed), source
