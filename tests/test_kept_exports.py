"""Exports that tests share are kept for later runs, and made anew once anything that they are made of has changed."""

import pytest

from tests.conftest import made_of, once


@pytest.fixture
def made(tmp_path, monkeypatch):
    """What was made so far."""
    monkeypatch.setattr("tests.conftest.KEPT", tmp_path / "kept")
    return []


def test_an_export_is_made_again_when_the_code_changes_and_the_old_one_goes(made, monkeypatch):
    def make(folder):
        made.append(folder)
        (folder / "graph").write_text(f"{len(made)}")

    first = once("small", make)
    assert once("small", make) == first
    assert (first / "graph").read_text() == "1"
    other = once("small-too", make)
    monkeypatch.setattr("tests.conftest.made_of", lambda: "other code")
    assert (once("small", make) / "graph").read_text() == "3"
    assert (first.exists(), other.exists()) == (False, True)


def test_an_export_that_was_interrupted_is_made_anew(made):
    def make(folder):
        made.append(folder)
        (folder / f"{len(made)}").touch()
        if len(made) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        once("small", make)
    assert [file.name for file in once("small", make).iterdir()] == ["2"]


def test_what_a_process_adds_to_the_path_of_its_imports_changes_no_key(tmp_path, monkeypatch):
    before = made_of.__wrapped__()
    added = tmp_path / "carried_along-1.0.dist-info"
    added.mkdir()
    (added / "METADATA").write_text("Metadata-Version: 2.1\nName: carried-along\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert made_of.__wrapped__() == before
