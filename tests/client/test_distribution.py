"""The client as others install it: one package, with all that it shows answers by, and nothing of the service."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser

import pytest
import regard

from tests.clients.environments import CLIENTS, FLOORS
from tests.conftest import ROOT

FIVE_LINES = """
import json, sys, regard
seen = regard.connect(sys.argv[1])["digits"].classify(sys.argv[2])
shown = seen._repr_mimebundle_()
print(json.dumps([regard.__file__, seen.labels[0].label, seen.heat("relevance").shape, sorted(shown)]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the client, built from a copy of its folder."""
    folder = tmp_path_factory.mktemp("wheel")
    source = shutil.copytree(
        ROOT / "client", folder / "client", ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__")
    )
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", source]
    done = subprocess.run([*command, "--wheel-dir", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_it_holds_one_package_with_its_static_files(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"regard", "regard_client"}
    wanted = {
        str(file.relative_to(ROOT / "client"))
        for file in (ROOT / "client/regard").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert wanted <= names
    assert "regard/py.typed" in names
    assert any(name.startswith("regard/static/inline.js") for name in names)


def test_it_needs_what_it_says_and_nothing_of_the_service(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = (one for one in archive.namelist() if one.endswith("dist-info/METADATA"))
    metadata = Parser().parsestr(archive.read(name).decode())
    needed = {re.sub("[^a-z].*", "", one) for one in metadata.get_all("Requires-Dist") if "extra" not in one}
    assert needed == {"httpx", "anyio", "numpy", "pillow", "typing"}
    assert metadata["Name"] == "regard-client"
    assert metadata["Version"] == regard.__version__


def test_the_floors_are_those_that_ran():
    project = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]
    floors = {re.match(r"[a-z_]+", one)[0]: one.partition(">=")[2].split(".") for one in project["dependencies"]}
    ran = {name: version.split(".") for name, _, version in (one.partition("==") for one in FLOORS)}
    assert floors.keys() == ran.keys()
    for name, floor in floors.items():
        assert floor + ["0"] * (len(ran[name]) - len(floor)) == ran[name], f"{name}: make conformance runs the floor"
    assert project["requires-python"] == f">={CLIENTS['regard-lowest'].python}"


def test_five_lines_answer_from_it(wheel, address, tmp_path):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "here", wheel]
    subprocess.run(command, check=True)
    picture = shutil.copy(ROOT / "tests/data/digits/seven.png", tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FIVE_LINES, address, picture],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "here")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    place, label, shape, shown = json.loads(done.stdout)
    assert place.startswith(str(tmp_path)), "it is the installed one that answers"
    assert (label, shape) == ("7", [220, 300])
    assert shown == ["image/png", "text/html", "text/plain"]
