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
WITH_MODELS = {"with-models": "cpu", "with-models-gpu": "gpu"}
"""Targets that serve what an export made, and whose place they take."""
EXPORTED = [*WITH_MODELS, "artifacts", "artifacts-init"]


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
    given = dict(rest.split("=", 1) for word, rest in instructions() if word == "ARG" and "_IMAGE=" in rest)
    assert re.fullmatch(r"python:3\.12-slim@sha256:[0-9a-f]{64}", given["BASE_IMAGE"])
    assert given["BUILD_IMAGE"] == "${BASE_IMAGE}"


def test_only_what_is_named_by_the_two_arguments_or_is_empty_is_a_base():
    bases = {rest.split(" ")[0] for word, rest in instructions() if word == "FROM"} - set(stages())
    assert bases == {"${BASE_IMAGE}", "${BUILD_IMAGE}", "scratch"}


def ancestors(target: str) -> list[str]:
    """The stages that a target is made from by FROM, itself first."""
    names = [target]
    while (parent := stages()[names[-1]][0][1].split(" ")[0]) in stages():
        names.append(parent)
    return names


@pytest.mark.parametrize("target", [*SERVING, "export", *EXPORTED])
def test_what_runs_is_made_from_the_base_that_installs_nothing(target):
    root = stages()[ancestors(target)[-1]][0][1].split(" ")[0]
    assert root == ("scratch" if target == "artifacts" else "${BASE_IMAGE}")


@pytest.mark.parametrize("target", [*SERVING, "export"])
def test_an_image_that_runs_python_has_no_pip(target):
    (removed,) = [rest for word, rest in stages()["runtime"] if word == "RUN"]
    assert "runtime" in ancestors(target)
    assert "pip uninstall --yes" in removed
    assert "/ensurepip" in removed


def test_hadolint_has_nothing_to_say():
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert hadolint, "hadolint comes with the dev extra"
    done = subprocess.run([hadolint, "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target", SERVING)
def test_a_serving_image_is_made_of_its_lock_the_contract_and_the_service(target):
    expected = {f"requirements/{target}.lock", "contract", "service", "model/artifacts", "LICENSE"}
    assert copied_from_the_checkout(target) == expected


@pytest.mark.parametrize(("target", "serving"), WITH_MODELS.items())
def test_an_image_with_models_is_the_service_with_what_was_exported_in_place_of_the_bundled_models(target, serving):
    assert ancestors(target)[1] == f"serving-{serving}"
    assert ("COPY", "--from=exported /artifacts /artifacts") in stages()[target]
    copied = {rest for one in ancestors(target) for word, rest in stages()[one] if word == "COPY"}
    assert not [rest for rest in copied if "--from=bundled" in rest]


@pytest.mark.parametrize("target", EXPORTED)
def test_models_come_from_an_export_of_the_names_that_the_build_is_given(target):
    assert ("ARG", 'MODELS="digits dates"') in reached(target)
    (ran,) = [rest for word, rest in stages()["exported"] if word == "RUN"]
    assert "from=checkpoint,target=/checkpoint" in ran
    assert "python -m export ${MODELS} --to /artifacts" in ran


def test_the_export_image_is_made_of_its_lock_and_all_but_the_service():
    assert copied_from_the_checkout("export") == {
        "requirements/export.lock", "requirements/build.lock", "requirements/torch.txt", "contract", "model", "export",
        "LICENSE",
    }  # fmt: skip


def installs(target: str) -> list[str]:
    """Each command that installs Python packages."""
    ran = [rest for word, rest in reached(target) if word == "RUN"]
    commands = [one.strip() for rest in ran for one in re.split(r"&&|;|\bthen\b|\belse\b", rest)]
    return [one for one in commands if "pip" in one and " install " in one]


@pytest.mark.parametrize("target", SERVING)
def test_everything_installed_comes_from_the_lock_and_is_checked_against_its_hashes(target):
    (install,) = installs(target)
    assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(install.split())
    assert install.endswith(f"-r {target}.lock")


def test_of_the_exporter_only_torch_is_not_in_a_lock():
    hashed = [one for one in installs("export") if "--require-hashes" in one]
    others = [one for one in installs("export") if one not in hashed]
    assert [one.split(" -r ")[1] for one in hashed] == ["export.lock", "build.lock"]
    assert all("--no-deps" in one and one.endswith("-r torch.txt") for one in others)
    assert sorted("--no-index" in one for one in others) == [False, True]
    assert "--torch-backend cpu" in next(one for one in others if "--no-index" not in one)


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
    for target in [*SERVING, "export", *EXPORTED]:
        for source in copied_from_the_checkout(target):
            path = Path(source)
            assert any(one.match(rule) for one in (path, *path.parents) for rule in allowed), source


def test_the_labels_are_those_of_the_image_specification():
    labels = " ".join(rest for word, rest in stages()["runtime"] if word == "LABEL")
    named = set(re.findall(r"org\.opencontainers\.image\.([a-z.]+)=", labels))
    assert named == {"title", "description", "licenses", "base.name", "version", "revision"}
