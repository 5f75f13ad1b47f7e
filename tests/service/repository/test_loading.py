"""Which version of an artifact is loaded. What happens over HTTP is in test_reload_over_http.py."""

import shutil

import pytest
from structlog.testing import capture_logs

from contract.artifact import ArtifactError, NoRoomError
from service.repository import loading
from service.repository.loading import load
from service.runtime.runtime_errors import PrecisionError
from service.settings import Settings
from tests.samples.changed_artifacts import newer


@pytest.fixture(scope="session")
def artifacts(light):
    """Most tests here need no graph that explains a score."""
    return light


@pytest.fixture
def digits(artifacts, tmp_path):
    """A folder of `digits` alone, with the versions 1 to 3, of which the last is broken."""
    shutil.copytree(artifacts / "digits", tmp_path / "digits")
    newer(tmp_path, "digits", 2)
    (newer(tmp_path, "digits", 3) / "predict.onnx").write_bytes(b"")
    return tmp_path


def test_the_newest_version_that_can_be_served_is(digits):
    (served,) = load(Settings(artifacts=digits)).values()
    assert served.manifest.version == "2"
    assert served.refused.keys() == {digits / "digits/3"}


def test_an_older_version_may_have_room_where_a_newer_one_has_none(digits, monkeypatch):
    open_one = loading.load_one

    def without_room(folder, *given):
        if folder.name != "1":
            raise NoRoomError(folder, 10**12)
        return open_one(folder, *given)

    monkeypatch.setattr(loading, "load_one", without_room)
    (served,) = load(Settings(artifacts=digits)).values()
    assert served.manifest.version == "1"
    assert [folder.name for folder in served.refused] == ["3", "2"]
    assert all(
        reason.startswith("TMPDIR: must have room for 1000000000000 bytes") for reason in served.refused.values()
    )


def test_an_older_version_runs_on_a_gpu_that_does_not_run_the_precision_of_a_newer_one(digits, monkeypatch):
    open_one = loading.load_one

    def in_eight_bits(folder, device, *given):
        if folder.name != "1":
            raise PrecisionError("digits/predict: cuda runs artifacts in fp32, given int8")
        assert device == "cuda"
        return open_one(folder, "cpu", *given)

    monkeypatch.setattr(loading, "load_one", in_eight_bits)
    monkeypatch.setattr(loading, "choose_device", lambda wanted: "cuda")
    (served,) = load(Settings(artifacts=digits)).values()
    assert served.manifest.version == "1"
    assert [folder.name for folder in served.refused] == ["3", "2"]


def test_without_any_the_newest_says_why(digits):
    for version in ("1", "2"):
        (digits / "digits" / version / "predict.onnx").unlink()
    with pytest.raises(ExceptionGroup) as failed:
        load(Settings(artifacts=digits))
    (error,) = failed.value.exceptions
    assert isinstance(error, ArtifactError)
    assert error.file == digits / "digits/3/predict.onnx"


def test_a_long_start_logs_how_far_it_is(artifacts, monkeypatch):
    def said():
        with capture_logs() as logs:
            load(Settings(artifacts=artifacts))
        return [(line["loaded"], line["of"]) for line in logs if line["event"] == "loading models"]

    assert said() == []
    monkeypatch.setattr(loading, "PROGRESS_SECONDS", 0)
    assert said() == [(0, 2), (1, 2)]
