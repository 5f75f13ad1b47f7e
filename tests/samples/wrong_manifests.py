"""Manifests that do not fit their graphs: changes to those of bundled models, and the reasons of their refusal."""


def put(path, value):
    """Return a change that puts a value, or what a function makes of the old one, at a path such as attention.0."""

    def change(manifest):
        *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
        for step in steps:
            manifest = manifest[step]
        manifest[last] = value(manifest[last]) if callable(value) else value

    return change


def all_of(*changes):
    """Return a change that makes all these changes."""

    def change(manifest):
        for change in changes:
            change(manifest)

    return change


THREE_CHANNELS = all_of(put("inputs.0.channels", 3), put("inputs.0.mean", [0.1] * 3), put("inputs.0.std", [0.1] * 3))
NOT_THE_SAME = "cannot answer: ValueError: maps of encoder must have (4, 4, 50) layers, heads and rows"
CACHES = "must have the caches that the graph of decode returns, given others"

DIGITS = {
    "too few labels": (put("labels", ["0", "1"]), "must have a label for each of 10 classes, given 2"),
    "too many labels": (put("labels", [*"0123456789x"]), "must have a label for each of 10 classes, given 11"),
    "channels": (THREE_CHANNELS, "must have images of 28 x 28 x 1, as the graph takes, given 28 x 28 x 3"),
    "height": (put("inputs.0.height", 30), "must have images of 28 x 28 x 1, as the graph takes, given 30 x 28 x 1"),
    "too many heads": (put("attention.0.heads", 8), NOT_THE_SAME),
    "too few heads": (put("attention.0.heads", 2), NOT_THE_SAME),
    "too few layers": (put("attention.0.maps", lambda maps: maps[:2]), NOT_THE_SAME),
    "too many layers": (put("attention.0.maps", lambda maps: [*maps, "more"]), "cannot answer: SessionError"),
    "grid": (put("attention.0.grid", [7, 8]), "must have prefix and grid of 50 tokens together, given 57"),
    "grid of the same size": (
        all_of(put("attention.0.grid", [5, 10]), put("attention.0.prefix", 0)),
        "must have a grid of patches of 28 x 28 pixels, given 5 x 10",
    ),
    "prefix": (put("attention.0.prefix", 2), "must have prefix and grid of 50 tokens together, given 51"),
    "negative prefix": (put("attention.0.prefix", -1), "must have a prefix of 0 or more, given -1"),
    "states that no method compares": (
        put("attention.0.methods", ["raw", "rollout", "norm"]),
        "must compare states of encoder exactly if the graph returns them",
    ),
    "a graph without its method": (
        put("attention.0.methods", ["raw", "rollout", "norm", "relevance", "integrated", "similar", "parts"]),
        "must have a graph of libra exactly if some kind has the method",
    ),
    "task of a score": (
        all_of(put("task", "feature-extraction"), put("labels", [])),
        "must have a task whose scores the graph of relevance explains, given feature-extraction",
    ),
    "port": (put("graphs.predict.inputs.0.axes", ["batch", 28, 28, 3]), "has a port pixels of predict that is not"),
    "type of a port": (put("graphs.predict.outputs.0.dtype", "int64"), "has a port logits of predict that is not"),
}
DATES = {
    "start token": (put("generation.start", 75), "must have tokens from 0 to 74, given 75 for start"),
    "end token": (put("generation.end", 99), "must have tokens from 0 to 74, given 99 for end"),
    "one of several end tokens": (put("generation.end", [2, 99]), "must have tokens from 0 to 74, given 99 for end"),
    "bad word": (put("generation.bad_words", [[3, 4], [5, 75]]), "must have tokens from 0 to 74, given 75 for bad_w"),
    "type of a token": (put("generation.end", "2"), "is no manifest of this version: generation.end"),
    "forced token": (put("generation.forced_last", 75), "must have tokens from 0 to 74, given 75 for forced_last"),
    "suppressed token": (put("generation.suppressed", [3, 75]), "must have tokens from 0 to 74, given 75 for supp"),
    "padding": (put("inputs.0.padding", 75), "must have tokens from 0 to 74, given 75 for padding"),
    "padding of targets": (put("generation.padding", 80), "must have tokens from 0 to 74, given 80 for padding"),
    "token of a language": (
        put("generation.languages", {"tokens": {"en": 75}, "source": None, "target": None, "begins": "first"}),
        "must have tokens from 0 to 74, given 75 for languages",
    ),
    "language that is not among them": (
        put("generation.languages", {"tokens": {"en": 7}, "source": "de", "target": None, "begins": "first"}),
        "is no manifest of this version: generation.languages: Value error, source and target must be among",
    ),
    "mask": (put("inputs.0.mask", 75), "must have tokens from 0 to 74, given 75 for mask"),
    "kind of a method": (
        put("attention.2.methods", ["raw", "norm", "relevance", "integrated"]),
        "must have libra of the kinds that its graph returns, given others",
    ),
    "length of targets": (put("generation.max_new_tokens", 2000), "cannot answer: SessionError"),
    "length of sources": (put("inputs.0.max_tokens", 5000), "cannot answer: SessionError"),
    "caches": (put("generation.caches", lambda caches: caches[:1]), CACHES),
    "no start token": (put("generation.start", None), "must have the memory that the graph of encode returns, or no"),
    "method": (put("attention.2.methods", ["raw", "rollout"]), "must have rollout of cross exactly if the graph"),
    "query": (put("attention.2.query", "source"), "cannot answer: ValueError: maps of cross must have (3, 4, "),
}
