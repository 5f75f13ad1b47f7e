"""Checkpoints are opened from folders with one or several files of weights, and never from pickles."""

import json
import struct
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from export.checkpoints.reading.checkpoint import MOST_TENSORS, MOST_VALUES, open_checkpoint
from export.errors import CheckpointError
from tests.samples.export_folders import edit


def sharded(folder):
    """Split the weights over two files with an index."""
    held = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    where = {}
    for part in range(2):
        file = f"model-0000{part + 1}-of-00002.safetensors"
        some = {name: tensor for place, (name, tensor) in enumerate(held.items()) if place % 2 == part}
        save_file(some, folder / file)
        where |= dict.fromkeys(some, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return where


def test_weights_may_lie_in_several_files(checkpoint, checkpoints):
    folder = checkpoint("bert")
    whole = dict(open_checkpoint(str(checkpoints("bert")), None).load())
    sharded(folder)
    parts = dict(open_checkpoint(str(folder), None).load())
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda index: index["weight_map"].popitem(), "lists other tensors than the files hold"),
        (
            lambda index: index["weight_map"].__setitem__("more", "model-00001-of-00002.safetensors"),
            "lists other tensors",
        ),
        (lambda index: index["weight_map"].__setitem__("more", "../secret.safetensors"), "files must lie beside it"),
        (lambda index: index["weight_map"].__setitem__("more", "gone.safetensors"), "gone.safetensors: cannot be read"),
        (lambda index: index.pop("weight_map"), "must map tensors to files"),
    ],
)
def test_an_index_must_be_true(checkpoint, change, words):
    folder = checkpoint("bert")
    sharded(folder)
    edit(folder, "model.safetensors.index.json", change)
    with pytest.raises(CheckpointError, match=words):
        open_checkpoint(str(folder), None)


def test_a_pickle_is_refused_with_the_command_that_converts_it_and_the_command_does(checkpoint):
    folder = checkpoint("gpt2")
    folder = folder.rename(folder.with_name('it\'s "mine"'))
    held = load_file(folder / "model.safetensors")
    tied = held["transformer.wte.weight"]
    torch.save({**held, "lm_head.weight": tied}, folder / "pytorch_model.bin")  # which shares its memory
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        CheckpointError, match=r"pytorch_model.bin: is not read, since reading a pickle can run code"
    ) as found:
        open_checkpoint(str(folder), None)
    convert = str(found.value).partition("make model.safetensors of it: ")[2]
    done = subprocess.run(convert.replace("python", sys.executable, 1), shell=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    opened = dict(open_checkpoint(str(folder), None).load())
    assert torch.equal(opened["lm_head.weight"], tied)


def test_a_document_of_millions_of_values_is_refused_before_they_are_made(checkpoint):
    folder = checkpoint("bert")
    (folder / "config.json").write_text("[" + "[]," * (MOST_VALUES // 2) + "[]]")
    with pytest.raises(CheckpointError, match=f"config.json: at most {MOST_VALUES} values, given 40000"):
        open_checkpoint(str(folder), None)


def test_a_file_of_far_more_tensors_than_a_model_has_is_refused(tmp_path):
    nothing = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({f"{place}": nothing for place in range(MOST_TENSORS + 1)}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=f"at most {MOST_TENSORS} tensors, given {MOST_TENSORS + 1}"):
        open_checkpoint(str(tmp_path), None)


def test_the_numbers_of_the_weights_are_counted_by_their_headers(checkpoint):
    opened = open_checkpoint(str(checkpoint("bert")), None)
    assert opened.numbers == sum(tensor.numel() for _, tensor in opened.load())


@pytest.mark.parametrize("name", ["../no/where", "a/b/c", "/nowhere", "a b"])
def test_what_cannot_be_a_name_is_refused(name):
    with pytest.raises(CheckpointError, match="is no bundled model and no folder, and cannot be a name on the hub"):
        open_checkpoint(name, None)
