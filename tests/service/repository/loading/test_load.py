"""Which version of an artifact is loaded. What happens over HTTP is in test_reload_over_http.py."""

import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from contract.artifact import ArtifactError, NoRoomError
from service.repository.loading import load as loading
from service.repository.loading.load import load
from service.runtime.runtime_errors import PrecisionError
from service.settings import Settings
from tests.samples.changed_artifacts import newer


@pytest.fixture
def digits(light, tmp_path):
    """A folder of `digits` alone, with the versions 1 to 3, of which the last is broken."""
    shutil.copytree(light / "digits", tmp_path / "digits")
    newer(tmp_path, "digits", 2)
    (newer(tmp_path, "digits", 3) / "predict.onnx").write_bytes(b"")
    return tmp_path


def test_the_newest_version_that_can_be_served_is(digits):
    (served,) = load(Settings(artifacts=digits)).values()
    assert served.manifest.version == "2"
    assert served.refused.keys() == {digits / "digits/3"}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NoRoomError(Path("room"), 10**12), "TMPDIR: must have room for 1000000000000 bytes"),
        (
            PrecisionError("digits/predict: cuda runs artifacts in fp32, given int8"),
            "its graphs cannot be loaded or run",
        ),
    ],
    ids=["there is no room for a newer one", "the GPU does not run the precision of a newer one"],
)
def test_an_older_version_is_served_where_a_newer_one_cannot_be(digits, monkeypatch, error, said):
    open_one = loading.load_one

    def failing(folder, device, *given):
        if folder.name != "1":
            raise error
        assert device == "cuda"
        return open_one(folder, "cpu", *given)

    monkeypatch.setattr(loading, "load_one", failing)
    monkeypatch.setattr(loading, "choose_device", lambda wanted: "cuda")
    (served,) = load(Settings(artifacts=digits)).values()
    assert served.manifest.version == "1"
    assert [folder.name for folder in served.refused] == ["3", "2"]
    assert all(reason.startswith(said) for reason in served.refused.values())


def test_without_any_the_newest_says_why(digits):
    for version in ("1", "2"):
        (digits / "digits" / version / "predict.onnx").unlink()
    with pytest.raises(ExceptionGroup) as failed:
        load(Settings(artifacts=digits))
    (error,) = failed.value.exceptions
    assert isinstance(error, ArtifactError)
    assert error.file == digits / "digits/3/predict.onnx"


def test_a_long_start_logs_how_far_it_is(light, monkeypatch):
    def said():
        with capture_logs() as logs:
            load(Settings(artifacts=light))
        return [(line["loaded"], line["of"]) for line in logs if line["event"] == "loading models"]

    assert said() == []
    monkeypatch.setattr(loading, "PROGRESS_SECONDS", 0)
    assert said() == [(0, 2), (1, 2)]
