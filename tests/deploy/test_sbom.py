"""The list of what an image holds: Python's packages and Debian's."""

import json
import subprocess

import pytest

from deploy import sbom

DEBIAN = "libc6 2.41-12+deb13u1 amd64\npython3 3.13.5-1 amd64\nca-certificates 20250419 all\nperl-base 5:1 amd64\n"


@pytest.fixture
def listed(monkeypatch, tmp_path):
    """Stands for podman and cyclonedx-py; the folder of lists, in place of build/sbom/."""

    def run(command, **options):
        words = list(map(str, command))
        if words[0] == "podman":
            assert "--network=none" in words
            assert words[5] == "regard:mine"
            return subprocess.CompletedProcess(words, 0, DEBIAN if "dpkg-query" in words[4] else "numpy==2.5.5\n")
        file, to = words[2], words[-1]
        lines = [line for line in (tmp_path / file).read_text().splitlines() if "==" in line]
        components = [{"type": "library", "name": line.split("==")[0]} for line in lines]
        (tmp_path / to).write_text(json.dumps({"bomFormat": "CycloneDX", "components": components}))
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(sbom, "ROOT", tmp_path)
    monkeypatch.setattr(sbom.subprocess, "run", run)
    (tmp_path / "requirements").mkdir()
    for lock in ("cpu.lock", "gpu.lock", "export.lock"):
        (tmp_path / "requirements" / lock).write_text("onnx==1.23.2 \\\n")
    (tmp_path / "requirements/torch.txt").write_text("torch==2.13.0\n")
    return tmp_path / "build/sbom"


def test_an_image_is_listed_with_what_debian_installed(listed, capsys):
    assert sbom.main(["regard:mine"]) == 0
    components = json.loads((listed / "image.cdx.json").read_text())["components"]
    assert [one["name"] for one in components] == ["numpy", "libc6", "python3", "ca-certificates", "perl-base"]
    libc, perl = components[1], components[-1]
    assert libc["version"] == "2.41-12+deb13u1"
    assert libc["purl"] == "pkg:deb/debian/libc6@2.41-12%2Bdeb13u1?arch=amd64"
    assert perl["purl"] == "pkg:deb/debian/perl-base@5%3A1?arch=amd64", "its epoch"
    assert len({one["bom-ref"] for one in components[1:]}) == 4
    assert capsys.readouterr().out == "regard:mine: 5 packages, 4 of them Debian's\n"


def test_the_locks_are_listed_without_an_image(listed):
    assert sbom.main([]) == 0
    names = {lock: [one["name"] for one in json.loads((listed / f"{lock}.cdx.json").read_text())["components"]]
             for lock in sbom.LOCKS}  # fmt: skip
    assert names == {"cpu": ["onnx"], "gpu": ["onnx"], "export": ["onnx", "torch"]}
    assert not (listed / "image.cdx.json").exists()


def test_an_image_that_podman_does_not_know_is_said_in_words(listed, monkeypatch, capsys):
    def run(command, **_):
        if command[0] == "podman":
            raise subprocess.CalledProcessError(125, command, stderr="Error: no such image\n")

    monkeypatch.setattr(sbom.subprocess, "run", run)
    assert sbom.main(["regard:none"]) == 1
    assert capsys.readouterr().err == "regard:none: cannot be listed: Error: no such image\n"
