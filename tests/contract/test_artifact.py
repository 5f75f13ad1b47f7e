import errno
import hashlib
import json
import os
from types import SimpleNamespace

import pytest

from contract.artifact import (
    MANIFEST,
    MOST_MANIFEST_BYTES,
    ArtifactError,
    NoRoomError,
    describe,
    find_artifacts,
    read_artifact,
    read_copy,
    sha256,
    this_python,
)
from contract.manifest import File, Manifest
from tests.samples.manifest_documents import GRAPH_BYTES, IMAGE, MISSING, OTHER_BYTES, changed

CONTENTS = {f"{role}.onnx": content for role, content in GRAPH_BYTES.items()} | OTHER_BYTES


def write(folder, document):
    folder.joinpath(MANIFEST).write_text(json.dumps(document))


@pytest.fixture
def folder(tmp_path):
    """A sound artifact."""
    folder = tmp_path / "digits" / "1"
    folder.mkdir(parents=True)
    for name, content in CONTENTS.items():
        folder.joinpath(name).write_bytes(content)
    write(folder, IMAGE)
    return folder


def refused(folder, file, reason):
    """Reading is refused for this file and for this reason, in words that name both."""
    with pytest.raises(ArtifactError) as refusal:
        read_artifact(folder)
    assert refusal.value.file == folder / file
    assert reason in refusal.value.reason
    assert str(refusal.value) == f"{folder / file}: {refusal.value.reason}"


def test_a_sound_artifact_is_read(folder):
    artifact = read_artifact(folder)
    assert artifact.folder == folder
    assert artifact.manifest == Manifest.model_validate_json(json.dumps(IMAGE))
    for name, content in CONTENTS.items():
        assert artifact.path(name).read_bytes() == content


def test_a_file_is_described_by_its_name_its_hash_and_its_size(folder):
    for name, content in CONTENTS.items():
        digest = hashlib.sha256(content).hexdigest()
        assert sha256(folder / name) == digest
        assert describe(folder / name) == File(file=name, sha256=digest, bytes=len(content))


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("place", [0, -1])
def test_one_altered_byte_is_found(folder, name, place):
    content = bytearray(CONTENTS[name])
    content[place] ^= 1
    (folder / name).write_bytes(content)
    refused(folder, name, "its sha256 differs from the manifest's; make the artifact anew")


@pytest.mark.parametrize("name", CONTENTS)
def test_a_truncated_file_is_found(folder, name):
    size = len(CONTENTS[name])
    os.truncate(folder / name, size - 1)
    refused(folder, name, f"must have {size} bytes, given {size - 1}")


@pytest.mark.parametrize("name", CONTENTS)
def test_a_longer_file_is_found(folder, name):
    size = len(CONTENTS[name])
    os.truncate(folder / name, size + 1)
    refused(folder, name, f"must have {size} bytes, given {size + 1}")


@pytest.mark.parametrize("name", CONTENTS)
def test_a_missing_file_is_found(folder, name):
    (folder / name).unlink()
    refused(folder, name, "is missing")


@pytest.mark.parametrize("name", ["extra.bin", ".hidden", "predict.onnx.bak", "aaa"])
def test_a_file_too_many_is_found(folder, name):
    (folder / name).write_bytes(b"")
    refused(folder, name, "is not listed in manifest.json")


def test_a_folder_too_many_is_found(folder):
    (folder / "more").mkdir()
    refused(folder, "more", "is not listed in manifest.json")


@pytest.mark.parametrize("name", CONTENTS)
def test_a_link_to_the_very_same_bytes_is_found(folder, name, tmp_path):
    elsewhere = (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(elsewhere)
    refused(folder, name, "must be a regular file, not a link")


def test_a_dangling_link_is_found(folder):
    (folder / "weights.bin").unlink()
    (folder / "weights.bin").symlink_to("nowhere")
    refused(folder, "weights.bin", "is missing")


def test_a_folder_in_the_place_of_a_file_is_found(folder):
    (folder / "weights.bin").unlink()
    (folder / "weights.bin").mkdir()
    refused(folder, "weights.bin", "must be a regular file")


def test_a_missing_manifest_is_found(folder):
    (folder / MANIFEST).unlink()
    refused(folder, MANIFEST, "cannot be read: No such file or directory")


def test_a_missing_artifact_is_found(tmp_path):
    refused(tmp_path / "digits" / "7", MANIFEST, "cannot be read: No such file or directory")


def test_a_folder_in_the_place_of_the_manifest_is_found(folder):
    (folder / MANIFEST).unlink()
    (folder / MANIFEST).mkdir()
    refused(folder, MANIFEST, "cannot be read: Is a directory")


@pytest.mark.parametrize("content", [b"", b"{", b"no json", b"\xff\xfe{}", json.dumps(IMAGE).encode()[:-1]])
def test_a_manifest_that_is_no_json_is_found(folder, content):
    (folder / MANIFEST).write_bytes(content)
    refused(folder, MANIFEST, "is no manifest of this version: the document: Invalid JSON")


@pytest.mark.parametrize("content", [b"[]", b"1", b"null"])
def test_a_manifest_that_is_no_object_is_found(folder, content):
    (folder / MANIFEST).write_bytes(content)
    refused(folder, MANIFEST, "is no manifest of this version: the document: Input should be an object")


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (
            "schema_version",
            4,
            f"schema_version: Input should be 6; make the artifact anew: {this_python()} -m export digits --to ",
        ),
        ("surprise", True, "surprise: Extra inputs are not permitted"),
        ("family", MISSING, "family: Field required"),
        ("files.0.file", "../weights.bin", "files.0.file: String should match pattern"),
        ("image.height", "28", "inputs.0.image.height: Input should be a valid integer"),
        ("inputs", [], "the document: Value error, a model must have an input"),
    ],
)
def test_a_manifest_of_another_schema_is_found_and_its_first_fault_is_placed(folder, path, value, reason):
    write(folder, changed(IMAGE, path, value))
    refused(folder, MANIFEST, f"is no manifest of this version: {reason}")


@pytest.mark.parametrize("place", ["digits/2", "dates/1", "digits/01", "Digits/1"])
def test_a_renamed_folder_is_found(folder, tmp_path, place):
    moved = tmp_path / "moved" / place
    moved.parent.mkdir(parents=True)
    folder.rename(moved)
    refused(moved, MANIFEST, "says digits/1, but lies in another folder; if it was copied there on purpose, write ")


def versions(root, name, *numbers):
    for number in numbers:
        (root / name / number).mkdir(parents=True)
        (root / name / number / MANIFEST).write_text("{}")


@pytest.mark.parametrize(
    ("numbers", "highest"),
    [
        (["1"], "1"),
        (["2", "10", "9"], "10"),
        (["99", "100", "1"], "100"),
        (["10", "zebra", "2"], "10"),
        (["b", "a", "c"], "c"),
        (["2", "10-rc", "1.5"], "2"),
    ],
)
def test_the_highest_version_is_found_by_number(tmp_path, numbers, highest):
    versions(tmp_path, "digits", *numbers)
    assert find_artifacts(tmp_path) == [tmp_path / "digits" / highest]


def test_every_artifact_is_found_once_sorted_by_name(tmp_path):
    for name in ("dates", "zebra", "digits", "ant"):
        versions(tmp_path, name, "1", "2")
    assert find_artifacts(tmp_path) == [tmp_path / name / "2" for name in ("ant", "dates", "digits", "zebra")]


def test_a_version_without_a_manifest_is_found_so_that_reading_it_is_refused(folder):
    """A model must not vanish because its manifest did."""
    (folder / MANIFEST).unlink()
    assert find_artifacts(folder.parent.parent) == [folder]
    refused(folder, MANIFEST, "cannot be read: No such file or directory")


def test_what_an_export_left_behind_is_no_version(folder):
    folder.with_name(".xyz.partial").mkdir()
    assert find_artifacts(folder.parent.parent) == [folder]


def test_what_a_file_system_keeps_beside_artifacts_is_none(folder, tmp_path):
    for name in (".snapshot/hourly.0", ".git/refs", "lost+found/#12"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lost+found").chmod(0)
    assert find_artifacts(tmp_path) == [folder]


def test_what_is_found_can_be_read(folder, tmp_path):
    assert [read_artifact(found).folder for found in find_artifacts(tmp_path)] == [folder]


@pytest.mark.parametrize("make", [lambda root: root.mkdir(), lambda root: (root / "digits").mkdir(parents=True)])
def test_an_empty_folder_is_refused_with_the_command_that_fills_it(tmp_path, make):
    root = tmp_path / "artifacts"
    make(root)
    with pytest.raises(ArtifactError) as refusal:
        find_artifacts(root)
    assert str(refusal.value) == f"{root}: holds no artifact; {make_them(root)}"


def make_them(root):
    return f"make them with: {this_python()} -m export digits dates --to {root}"


def test_a_folder_inside_or_of_a_checkpoint_is_told_from_an_empty_one(artifacts, tmp_path):
    with pytest.raises(ArtifactError, match="is one version of an artifact; name the folder of all: ") as refusal:
        find_artifacts(artifacts / "digits/1")
    assert str(refusal.value).endswith(str(artifacts.absolute()))
    (checkpoint := tmp_path / "my pets").mkdir()
    (checkpoint / "config.json").write_text("{}")
    with pytest.raises(ArtifactError, match="holds a checkpoint; export it, then name the folder ") as refusal:
        find_artifacts(checkpoint)
    assert str(refusal.value).endswith(f"-m export '{checkpoint}' --to {tmp_path}/artifacts")


@pytest.mark.parametrize("make", [lambda root: None, lambda root: root.write_text("")], ids=["nothing", "a file"])
def test_what_is_no_folder_is_refused_with_the_command_that_makes_it(tmp_path, make):
    root = tmp_path / "artifacts"
    make(root)
    with pytest.raises(ArtifactError) as refusal:
        find_artifacts(root)
    assert str(refusal.value) == f"{root}: is no folder of artifacts; {make_them(root)}"


def test_where_there_is_no_exporter_the_command_comes_with_the_image_that_has_one(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ArtifactError) as refusal:
        find_artifacts(tmp_path)
    assert "not in this image" in refusal.value.reason
    assert "target with-models" in refusal.value.reason


def test_the_folder_of_one_artifact_is_refused_with_the_folder_above_it(folder):
    with pytest.raises(ArtifactError) as refusal:
        find_artifacts(folder.parent)
    assert refusal.value.reason.endswith(f"name the folder above it: {folder.parent.parent}")


def unreadable(monkeypatch, function, path):
    """As root reads everything, stand in for the system's refusal."""
    original = getattr(type(path), function)

    def refusing(self, *arguments, **options):
        if self == path:
            raise PermissionError(13, "Permission denied")
        return original(self, *arguments, **options)

    monkeypatch.setattr(type(path), function, refusing)


def test_a_file_that_may_not_be_read_is_named(folder, monkeypatch):
    unreadable(monkeypatch, "open", folder / "weights.bin")
    refused(folder, "weights.bin", f"cannot be read: Permission denied; the service runs as user {os.getuid()}: let it")


@pytest.mark.parametrize("kind", ["pipe", "endless", "long"])
def test_a_manifest_is_a_file_of_bounded_size(folder, kind):
    manifest = folder / "manifest.json"
    manifest.unlink()
    if kind == "pipe":
        os.mkfifo(manifest)
    elif kind == "endless":
        manifest.symlink_to("/dev/zero")
    else:
        manifest.touch()
        os.truncate(manifest, MOST_MANIFEST_BYTES + 1)
    refused(folder, "manifest.json", "must have at most 16777216 bytes" if kind == "long" else "must be a regular file")


def test_a_folder_that_may_not_be_entered_is_named(folder, monkeypatch):
    """It can be listed, but nothing in it can be looked at."""
    words = f"cannot be read: Permission denied; the service runs as user {os.getuid()}: let it read"
    unreadable(monkeypatch, "is_symlink", folder / "weights.bin")
    refused(folder, "weights.bin", words)
    unreadable(monkeypatch, "is_dir", folder)
    with pytest.raises(ArtifactError, match=words):
        find_artifacts(folder.parent.parent)


def test_a_folder_that_may_not_be_listed_is_named(folder, monkeypatch):
    unreadable(monkeypatch, "iterdir", folder.parent)
    with pytest.raises(ArtifactError, match="cannot be listed: Permission denied") as refusal:
        find_artifacts(folder.parent.parent)
    assert refusal.value.file == folder.parent


def test_a_relative_path_is_read_like_an_absolute_one(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert read_artifact(type(folder)("1")).folder == folder


@pytest.fixture
def copy(tmp_path):
    """An empty folder for a copy."""
    copy = tmp_path / "private"
    copy.mkdir()
    return copy


def test_a_copy_holds_what_was_checked_whatever_happens_to_the_files_later(folder, copy):
    artifact = read_artifact(folder, copy)
    for name in CONTENTS:
        (folder / name).write_bytes(b"other")
    (folder / MANIFEST).unlink()
    assert read_copy(folder, copy) == artifact
    for name, content in CONTENTS.items():
        assert artifact.to_load(name) == copy / name
        assert artifact.path(name) == folder / name
        assert (copy / name).read_bytes() == content


def test_processes_share_the_bytes_of_copies(folder, tmp_path):
    shared, first, second = (tmp_path / name for name in ("shared", "first", "second"))
    for opened in (shared, first, second):
        opened.mkdir()
    read_artifact(folder, first, shared)
    read_artifact(folder, second, shared)
    for name in CONTENTS:
        assert (first / name).samefile(second / name)
    assert {path.name for path in shared.iterdir()} == {sha256(folder / name) for name in CONTENTS}


def test_a_file_with_other_bytes_is_found_also_where_its_bytes_are_shared(folder, copy, tmp_path):
    shared, again = tmp_path / "shared", tmp_path / "again"
    shared.mkdir()
    again.mkdir()
    read_artifact(folder, copy, shared)
    (folder / "weights.bin").write_bytes(bytes(len(CONTENTS["weights.bin"])))
    with pytest.raises(ArtifactError, match="its sha256 differs"):
        read_artifact(folder, again, shared)


def test_a_copy_without_room_is_refused_with_the_bytes_needed_and_free(folder, copy, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=7))
    needed = sum(map(len, CONTENTS.values()))
    with pytest.raises(NoRoomError, match=f"must have room for {needed} bytes, 7 are free; set TMPDIR") as refusal:
        read_artifact(folder, copy)
    assert refusal.value.file == copy


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, NoRoomError), (errno.EIO, ArtifactError)])
def test_a_copy_that_cannot_be_written_is_refused(folder, copy, monkeypatch, number, kind):
    original = type(copy).open

    def failing(self, mode="r", *arguments):
        if mode == "xb":
            raise OSError(number, os.strerror(number))
        return original(self, mode, *arguments)

    monkeypatch.setattr(type(copy), "open", failing)
    with pytest.raises(ArtifactError) as refusal:
        read_artifact(folder, copy)
    assert type(refusal.value) is kind
