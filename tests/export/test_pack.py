"""Graphs share one file of weights, and an artifact that is there is replaced or stays."""

from pathlib import Path

import pytest

from export.pack import replace_folder


def test_equal_weights_lie_once_in_the_file_that_the_roles_share(source, graphs, folder):
    held = sum(parameter.numel() * 4 for parameter in source.plan("predict").module.parameters())
    assert (folder / "weights.bin").stat().st_size < 1.5 * held + 4096 * 100  # pages between tensors
    for graph in graphs.values():
        assert all(len(tensor.raw_data) < 1024 for tensor in graph.graph.initializer)
        assert {
            entry.value
            for tensor in graph.graph.initializer
            for entry in tensor.external_data
            if entry.key == "location"
        } == {"weights.bin"}


def test_what_is_there_stays_if_it_cannot_be_replaced_whole(tmp_path, monkeypatch):
    there, made, old = tmp_path / "1", tmp_path / "made", tmp_path / "old"
    for folder in (there, made):
        folder.mkdir()
        (folder / "manifest.json").write_text(folder.name)
    move = Path.rename

    def interrupted(path, target):
        if path == made:
            raise KeyboardInterrupt
        return move(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_folder(there, made, old)
    assert (there / "manifest.json").read_text() == "1"
    monkeypatch.undo()
    assert replace_folder(there, made, old)
    assert (there / "manifest.json").read_text() == "made"
    assert not replace_folder(tmp_path / "2", there, tmp_path / "old2")
