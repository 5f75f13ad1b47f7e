"""The docs are true: the README's commands give the answers it shows, the settings table is the settings."""

import doctest
import importlib
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import regard
from regard.command import main as regard_command
from regard.service import KEY_VARIABLE, URL_VARIABLE

from docs import limits, settings
from model.catalogue import BUNDLED, build
from service.settings import PREFIX, Settings
from tests.conftest import ROOT, served
from tests.samples.changed_artifacts import edit
from tests.samples.checkpoints import artifact_of
from tests.samples.exports import exported
from tests.samples.in_process import in_process
from tests.samples.wrong_manifests import put

README = (ROOT / "README.md").read_text()
CURLS = [
    block.strip().replace("\\\n", "")
    for paper in (README, (ROOT / "docs/api.md").read_text(), (ROOT / "docs/attention.md").read_text())
    for block in re.findall(r"```sh\n(.*?)```", paper, re.DOTALL)
    if block.startswith("curl")
]


PYTHON = (ROOT / "docs/python.md").read_text()
SHOWN = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
"""What a line of a paper prints, by the paper."""


@pytest.fixture(scope="module")
def client(artifacts, minilm, captions, scenes, language_models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("all")
    for models in (artifacts, minilm, captions, scenes, language_models, exported("graphs")):
        for path in models.iterdir():
            (folder / path.name).symlink_to(path)
    with served(folder) as client:
        yield client


@pytest.fixture
def checkout(client, artifacts, tmp_path, monkeypatch):
    """A folder like a checkout, in which a reader of the docs stands, who has a service."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "artifacts").symlink_to(artifacts)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_URL", str(client.base_url).rstrip("/"))
    return tmp_path


def send(client, command):
    """Do what a curl command says."""
    words = iter(shlex.split(command)[1:])
    headers, files, body, url = {}, [], None, None
    for word in words:
        if word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word in ("-d", "--data-binary"):
            given = next(words)
            body = (ROOT / given[1:]).read_bytes() if given.startswith("@") else given.encode()
        elif word == "-F":
            name, _, value = next(words).partition("=")
            files.append((name, (ROOT / value[1:]).open("rb") if value.startswith("@") else (None, value)))
        elif word == "-o":
            next(words)
        elif word != "-N":
            url = word.replace("http://127.0.0.1:8000", str(client.base_url))
    method = "POST" if files or body is not None else "GET"
    answer = client.request(method, url, headers=headers, content=body, files=files or None)
    for _, file in files:
        if not isinstance(file, tuple):
            file.close()
    return answer


def test_the_papers_have_commands():
    assert len(CURLS) >= 14


OF_PHOTOS = [command for command in CURLS if "/photos/" in command]
"""These need a larger model."""


@pytest.mark.slow
def test_the_commands_about_photographs_are_answered(photos):
    with in_process(photos) as client:
        first, *others = OF_PHOTOS
        id_of_other = send(client, first).json()["id"]
        for command in others:
            answer = send(client, command.replace("ID%22", f"{id_of_other}%22"))
            assert answer.headers["content-type"] == "image/png", answer.text
    assert len(OF_PHOTOS) == 4


@pytest.mark.parametrize("command", [command for command in CURLS if command not in OF_PHOTOS])
def test_a_command_of_the_papers_is_answered(client, command):
    earlier = send(client, CURLS[0]).json()["id"]
    answer = send(client, command.replace("/ID", f"/{earlier}"))
    assert answer.status_code == 200, answer.text
    assert (answer.headers["content-type"] == "image/png") == ("format=png" in command)


def test_an_npz_is_read_as_the_paper_says(client, tmp_path, monkeypatch):
    (command,) = (one for one in CURLS if "method=raw" in one)
    (reading,) = re.findall(r"```python\n([^`]*npz[^`]*)```", (ROOT / "docs/attention.md").read_text())
    monkeypatch.chdir(tmp_path)
    Path("a.npz").write_bytes(send(client, command.replace("format=png", "format=npz")).content)
    names = {"np": np, "json": json}
    exec(reading, names)
    (shown,) = send(client, command.replace("format=png", "format=json")).json()["results"][0]["attention"]["maps"]
    assert names["values"] == pytest.approx(np.array(shown["values"]), abs=1e-5)


def test_the_guide_to_the_client_does_what_it_says(client, checkout, capsys):
    names = {}
    for program in re.findall(r"```python\n(.*?)```", PYTHON, re.DOTALL):
        exec(program.replace("http://127.0.0.1:8000", str(client.base_url).rstrip("/")), names)
        said = capsys.readouterr().out.splitlines()
        shown = SHOWN.findall(program)
        assert [line for line in said if line in shown] == shown
    names["service"].close()
    assert "<!doctype html>" in (checkout / "seven.html").read_text()


def test_the_commands_of_the_guide_to_the_client_run(checkout, capsys):
    (block,) = re.findall(r"```sh\n(regard .*?)```", PYTHON, re.DOTALL)
    for line in block.splitlines():
        assert regard_command(shlex.split(line)[1:]) == 0, line
    assert "digits: 7" in capsys.readouterr().out
    assert all((checkout / name).stat().st_size for name in ("seven.png", "scene.png", "date.html", "look.html"))


def test_the_readmes_answer_is_the_beginning_of_the_answer(client):
    shown = re.search(r"```text\n(\{.*?)```", README, re.DOTALL)[1]
    (answer,) = send(client, CURLS[0]).json()["results"]
    (label,), (shown_label,) = answer["labels"], json.loads(re.search(r'"labels": (\[.*?\])', shown)[1])
    assert label.pop("probability") == pytest.approx(shown_label.pop("probability"), abs=1e-4)
    assert label == shown_label
    (one,) = answer["attention"]["maps"]
    assert f'"method": "{answer["attention"]["method"]}"' in shown
    assert one["shape"] == json.loads(re.search(r'"shape": (\[.*?\])', shown)[1])
    values = [float(value) for value in re.search(r'"values": \[\[\[([\d., ]+), \.\.\.', shown)[1].split(",")]
    # a last digit may fall either way on another processor
    assert one["values"][0][0][: len(values)] == pytest.approx(values, abs=0.011)
    assert answer["attention"]["tokens"] == json.loads(re.search(r'"tokens": (\{.*?\}.*?\})', shown)[1])


def test_a_model_of_your_own_is_seen_as_the_readme_says(tmp_path, monkeypatch):
    (lines,) = re.findall(r"```python\n(import regard\n.*?)```", README, re.DOTALL)
    checkpoint = re.search(r'"(distilbert-[^"]+)"', lines)[1]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "client")]))
    export, start, started, names = inspect.signature(regard.export), regard.start, [], {}

    def exported(*given, **options):
        """Put the family's artifact where the export would: that a checkpoint is exported, tests/client holds."""
        asked = export.bind(*given, **options).arguments
        assert asked["model"] == checkpoint
        folder = shutil.copytree(artifact_of("bert"), Path(asked["to"]) / asked["name"])
        edit(folder / "1", put("name", asked["name"]))

    monkeypatch.setattr(regard, "export", exported)
    monkeypatch.setattr(regard, "start", lambda folder: started.append(start(folder)) or started[-1])
    try:
        exec(lines, names)
    finally:
        for process in started:
            process.stop()
    assert names["answer"].labels
    assert "libra" in (tmp_path / "film.html").read_text()


def test_the_sentences_that_the_readme_sends_become_the_date(client):
    for command in CURLS:
        if "dates/generate" in command and "stream" not in command:
            assert send(client, command).json()["results"][0]["text"] == "2021-03-23"


def test_the_digits_that_the_readme_sends_become_their_words(client):
    (command,) = (one for one in CURLS if "captions-soft/generate" in one)
    assert send(client, command).json()["results"][0]["text"] == "zero three five eight six"


def test_the_object_that_the_guide_shows_is_the_one_that_is_found(client):
    (command,) = (one for one in CURLS if "scenes-detr/detect" in one)
    shown = json.loads(
        re.search(r"```text\n(\{.*?scenes-detr.*?)```", (ROOT / "docs/api.md").read_text(), re.DOTALL)[1]
    )
    found, (wanted,) = send(client, command).json()["results"][0]["objects"], shown["results"][0]["objects"]
    (one,) = found
    assert one.pop("probability") == pytest.approx(wanted.pop("probability"), abs=1e-5)
    assert one.pop("box") == pytest.approx(wanted.pop("box"), abs=0.02)
    assert one == wanted


WORKED = [file.relative_to(ROOT) for file in (ROOT / "model").rglob("*.py") if ">>> " in file.read_text()]
"""Definitions whose docstrings have examples."""


@pytest.mark.parametrize("file", WORKED, ids=str)
def test_the_examples_in_docstrings_print_what_they_say(file):
    module = importlib.import_module(".".join(file.with_suffix("").parts))
    assert not doctest.testmod(module).failed


def test_there_are_worked_examples_of_attention_and_of_positions():
    assert {Path("model/parts/attention.py"), Path("model/parts/positions.py")} <= set(WORKED)


def test_the_settings_table_is_that_of_the_settings():
    assert (ROOT / "docs/settings.md").read_text() == settings.table(), "run: python docs/settings.py"


def test_the_limits_table_is_that_of_the_settings_and_names_every_one_that_bounds_a_client():
    assert (ROOT / "docs/limits.md").read_text() == limits.table(), "run: python -m docs.limits"
    named = {limit for row in limits.ROWS for limit in row[2:] if limit in Settings.model_fields}
    bounding = {name for name in Settings.model_fields if name.startswith("max_") or name.endswith("_seconds")}
    theirs = {"keep_seconds", "shutdown_grace_seconds", "drain_seconds"}  # the service's own
    assert bounding - theirs <= named


def test_every_setting_that_is_named_exists():
    folders = (ROOT / name for name in ("docs", "k8s", "deploy"))
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file() and file.suffix != ".png"]
    files += [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "docker-compose.yml", "Dockerfile", "Makefile")]
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | {KEY_VARIABLE, URL_VARIABLE}
    found = {
        (setting, file.name)
        for file in files
        for setting in re.findall(rf"{PREFIX}[A-Z0-9_]*[A-Z0-9]", file.read_text(errors="ignore"))
    }
    assert len(found) > len(known)
    assert not {(setting, name) for setting, name in found if setting not in known}


@pytest.mark.parametrize("paper", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_class_and_constant_that_is_named_exists(paper):
    named = set(re.findall(r"`([A-Z][A-Za-z0-9_]{3,})`", (ROOT / paper).read_text()))
    listing = ["git", "ls-files", "*.py", "*.js", "Makefile"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    written = "\n".join((ROOT / name).read_text() for name in listed if (ROOT / name).is_file())
    assert named
    assert named <= set(re.findall(r"\w+", written))


@pytest.mark.parametrize("name", sorted(file.parent.name for file in BUNDLED.glob("*/model.safetensors")))
def test_a_card_says_how_many_parameters_there_are(name):
    count = sum(parameter.numel() for parameter in build(name).parameters())
    assert f"{count:,} parameters".replace(",", " ") in (BUNDLED / name / "README.md").read_text()


def test_every_exit_status_is_explained():
    starting = "".join(
        (ROOT / "service" / name).read_text()
        for name in (
            "__main__.py",
            "process/start.py",
            "process/serving.py",
            "process/private_folder.py",
            "process/sockets.py",
        )
    )
    statuses = set(re.findall(r"^ +return (\d)(?:$|,)", starting, re.MULTILINE))
    table = (ROOT / "docs/operations.md").read_text().partition("## Exit statuses")[2]
    assert statuses == set(re.findall(r"^\| (\d) \|", table, re.MULTILINE))


def test_links_between_the_papers_lead_somewhere():
    for paper in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", paper.read_text()):
            assert (paper.parent / target).exists(), f"{paper.name}: {target}"


def test_every_verb_that_the_papers_name_is_on_the_menu():
    menu = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True).stdout
    for paper in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]:
        for verb in re.findall(r"`make ([a-z-]+)", paper.read_text()):
            assert f"make {verb} " in menu, f"{paper.name}: make {verb}"
