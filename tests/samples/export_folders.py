"""Changes of a checkpoint's folder."""

import json

from safetensors.torch import load_file, save_file


def edit(folder, file, change):
    content = json.loads((folder / file).read_text())
    change(content)
    (folder / file).write_text(json.dumps(content))


def put(file, key, value):
    return lambda folder: edit(folder, file, lambda content: content.__setitem__(key, value))


def without(file):
    return lambda folder: (folder / file).unlink()


def configured(**keys):
    return lambda folder: edit(folder, "config.json", lambda it: it.update(keys))


def renamed(change):
    """Write every tensor under the names that `change` makes of its own."""

    def rename(folder):
        held = load_file(folder / "model.safetensors")
        save_file(
            {new: tensor.clone() for name, tensor in held.items() for new in change(name)}, folder / "model.safetensors"
        )

    return rename
