"""Graphs share one file of weights, and an artifact that is there is replaced or stays."""

from pathlib import Path

import pytest

from export.pack import pair_of, replace_folders


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
    """Of two artifacts that belong together, both."""
    moves = []
    for name in ("picture", "text"):
        there, made = tmp_path / name, tmp_path / f".{name}" / "made"
        for folder in (there, made):
            folder.mkdir(parents=True)
            (folder / "manifest.json").write_text(folder.name)
        moves.append((there, made))
    move = Path.rename

    def said():
        return [(there / "manifest.json").read_text() for there, _ in moves]

    for _, fails in moves:

        def interrupted(path, target, fails=fails):
            if path == fails:
                raise KeyboardInterrupt
            return move(path, target)

        monkeypatch.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            replace_folders(moves)
        monkeypatch.undo()
        assert said() == ["picture", "text"]
    assert replace_folders(moves) == [True, True]
    assert said() == ["made", "made"]
    assert replace_folders([(tmp_path / "2", tmp_path / "text")]) == [False]


def test_what_two_artifacts_have_in_common_is_that_of_all_their_files(tmp_path):
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        (folder / "weights.bin").write_bytes(b"1")
    known = {pair_of(folders)}
    for folder in folders:
        (folder / "weights.bin").write_bytes(b"2")
        known.add(pair_of(folders))
    assert len(known) == 3
