"""Changes of a checkpoint's folder."""

import json


def edit(folder, file, change):
    content = json.loads((folder / file).read_text())
    change(content)
    (folder / file).write_text(json.dumps(content))


def put(file, key, value):
    return lambda folder: edit(folder, file, lambda content: content.__setitem__(key, value))


def without(file):
    return lambda folder: (folder / file).unlink()
