"""Exports that tests share are kept for later runs, and made anew once anything that they are made of has changed."""

import pytest
import torch

from export.graphs.tracing.torch_export import trace
from tests.samples.export_models import classifier
from tests.samples.exports import contents, once, packages
from tests.samples.traces import traced_once


@pytest.fixture
def made(tmp_path, monkeypatch):
    """What was made so far."""
    monkeypatch.setattr("tests.samples.exports.KEPT", tmp_path / "kept")
    return []


def test_an_export_is_made_again_when_the_code_changes_and_the_old_one_goes(made, monkeypatch):
    def make(folder):
        made.append(folder)
        (folder / "graph").write_text(f"{len(made)}")

    first = once("small", make)
    assert once("small", make) == first
    assert (first / "graph").read_text() == "1"
    other = once("small-too", make)
    monkeypatch.setattr("tests.samples.exports.contents", lambda *names: "other code")
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
    before = packages.__wrapped__()
    added = tmp_path / "carried_along-1.0.dist-info"
    added.mkdir()
    (added / "METADATA").write_text("Metadata-Version: 2.1\nName: carried-along\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert packages.__wrapped__() == before


def test_files_that_an_export_reads_are_told_apart_by_name_and_content(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.samples.exports.ROOT", tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "code/one.py").write_text("1")
    (tmp_path / "beside.py").write_text("1")
    found = {contents.__wrapped__("code")}
    (tmp_path / "beside.py").write_text("2")
    assert {contents.__wrapped__("code")} == found
    (tmp_path / "code/one.py").write_text("2")
    found.add(contents.__wrapped__("code"))
    (tmp_path / "code/one.py").rename(tmp_path / "code/two.py")
    found.add(contents.__wrapped__("code"))
    assert len(found) == 3


def test_a_definition_is_traced_once_and_anew_with_other_weights_or_sizes(tmp_path, monkeypatch):
    traced = []
    monkeypatch.setattr("tests.samples.traces.KEPT", tmp_path)
    monkeypatch.setattr("tests.samples.traces.trace", lambda *given: traced.append(given) or trace(*given))
    source = classifier()
    for _ in range(2):
        graph = traced_once(source.base, source.traced_at)
        assert [node.op_type for node in graph.graph.node]
    assert len(traced) == 1
    traced_once(source.base, {"batch": 5})
    with torch.no_grad():
        next(source.traced.parameters()).add_(1)
    traced_once(source.base, source.traced_at)
    assert len(traced) == 3
