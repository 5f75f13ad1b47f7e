"""Manifests as they are written, one of each kind, to be read and spoilt."""

import copy
import hashlib

GRAPH_BYTES = {"predict": b"a graph of one kind", "attention": b"a graph of another kind"}
OTHER_BYTES = {"weights.bin": bytes(range(256)) * 8, "example-0.png": b"a picture"}


def entry(name, content):
    return {"file": name, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def graph(role, content):
    pixels = {"name": "pixels", "dtype": "uint8", "axes": ["batch", 28, 28, 1]}
    logits = {"name": "logits", "dtype": "float32", "axes": ["batch", 10]}
    return entry(f"{role}.onnx", content) | {"inputs": [pixels], "outputs": [logits]}


IMAGE = {
    "schema_version": 6,
    "name": "digits",
    "version": "1",
    "family": "vit",
    "task": "image-classification",
    "about": "Reads a digit.",
    "order": 3,
    "examples": [{"text": None, "text_pair": None, "image": "example-0.png", "sound": None, "labels": None}],
    "precision": "fp32",
    "scales": None,
    "graphs": {role: graph(role, content) for role, content in GRAPH_BYTES.items()},
    "files": [entry(name, content) for name, content in OTHER_BYTES.items()],
    "inputs": [
        {
            "modality": "image",
            "name": "image",
            "height": 28,
            "width": 28,
            "channels": 1,
            "locate": "ink",
            "ink_box": 20,
            "resize": [28, 28],
            "resample": "bicubic",
            "longest": 40,
            "multiple": 2,
            "fast_jpeg": True,
            "mean": [0.15],
            "std": [0.3],
        }
    ],
    "labels": ["zero", "one"],
    "scores": "softmax",
    "attention": [
        {
            "name": "encoder",
            "kind": "encoder",
            "methods": ["raw", "rollout", "norm"],
            "maps": ["encoder.blocks.0.attention", "encoder.blocks.1.attention"],
            "heads": 4,
            "query": "token",
            "key": "token",
            "normalized": True,
            "abreast": 1,
            "prefix": 1,
            "suffix": 0,
            "grid": [7, 7],
            "windows": [],
            "carried": None,
            "pooled": "first",
        }
    ],
    "width": 96,
    "generation": None,
    "detection": None,
    "contrast": None,
    "explained": "fp32",
    "best": {
        "method": "rollout",
        "measure": "deletion area, lower is better",
        "values": {"raw": 0.25, "rollout": 0.125},
    },
    "made_by": {"definition": "model.vit", "width": 96, "epsilon": 1e-6, "tied": False, "image": [28, 28]},
    "verified": {"logits": 1.5e-6, "shapes": "batch 1; batch 5", "sizes": [[1, 28], [5, 28]]},
}

TEXT = {
    "schema_version": 6,
    "name": "dates",
    "version": "12",
    "family": "transformer",
    "task": "text2text-generation",
    "about": None,
    "order": 100,
    "examples": [{"text": "3 may 2021", "text_pair": None, "image": None, "sound": None, "labels": None}],
    "precision": "fp32",
    "scales": None,
    "graphs": {role: graph(role, role.encode()) for role in ("attention", "encode", "decode")},
    "files": [entry("tokenizer.json", b"{}")],
    "inputs": [
        {
            "modality": "text",
            "name": "text",
            "tokenizer": "tokenizer.json",
            "max_tokens": 96,
            "mask": 7,
            "padding": 0,
            "filled": False,
            "prompts": {"query": "query: "},
            "default_prompt": None,
            "decoder_start": 2,
        }
    ],
    "labels": [],
    "scores": "sigmoid",
    "attention": [
        {
            "name": kind,
            "kind": kind,
            "methods": ["raw", "norm"],
            "maps": [f"{path}.blocks.0.{part}"],
            "heads": 4,
            "query": query,
            "key": key,
            "normalized": True,
            "abreast": 1,
            "prefix": 0,
            "suffix": 0,
            "grid": None,
            "windows": [],
            "carried": None,
            "pooled": "all",
        }
        for kind, path, part, query, key in (
            ("encoder", "encoder", "attention", "source", "source"),
            ("decoder", "decoder", "attention", "target", "target"),
            ("cross", "decoder", "cross", "target", "source"),
        )
    ],
    "width": None,
    "generation": {
        "start": 1,
        "end": 2,
        "max_new_tokens": 12,
        "default_new_tokens": 9,
        "default_length": 10,
        "num_beams": 3,
        "length_penalty": 0.5,
        "early_stopping": "never",
        "sampling": {
            "temperature": 0.7,
            "top_k": 5,
            "top_p": 0.9,
            "min_p": 0.1,
            "top_h": 0.6,
            "typical_p": 0.8,
            "epsilon_cutoff": 0.01,
            "eta_cutoff": 0.02,
            "by_default": True,
        },
        "min_length": 3,
        "min_new_tokens": 2,
        "forced_first": 4,
        "languages": {"tokens": {"de": 4, "en": 6}, "source": "en", "target": "de", "begins": "first"},
        "speech": {
            "languages": {"en": 6},
            "tasks": {"transcribe": 3},
            "without_times": 5,
            "most_first": 50,
            "previous": 4,
            "silence": 3,
        },
        "forced_last": 2,
        "suppressed": [5, 6],
        "suppressed_first": [7],
        "no_repeat_ngram": 3,
        "source_no_repeat_ngram": 4,
        "bad_words": [[8, 9]],
        "biases": [{"tokens": [3], "bias": -1.5}],
        "repetition_penalty": 1.2,
        "source_penalty": 1.1,
        "length_decay": [5, 1.5],
        "renormalized": True,
        "num_return_sequences": 2,
        "tokenizer": "tokenizer.json",
        "padding": 0,
        "caches": [{"past": "past.0.key", "present": "present.0.key"}],
        "memory": ["memory.0.key"],
    },
    "detection": None,
    "contrast": None,
    "explained": None,
    "best": None,
    "made_by": {},
    "verified": {},
}

SOUND = {
    **IMAGE,
    "name": "letters",
    "family": "wav2vec2",
    "task": "automatic-speech-recognition",
    "examples": [],
    "inputs": [
        {
            "modality": "sound",
            "name": "sound",
            "rate": 16_000,
            "samples": 16_000,
            "side": 8,
            "hop": 320,
            "frames": 49,
            "bands": 0,
            "apart": 320,
            "varies": False,
            "least": 400,
        }
    ],
    "labels": ["", " ", "e"],
}

MISSING = object()


def steps(path):
    """Return the keys and indices of a dotted path; `image.`, `text.` or `sound.` lead to the one input."""
    kind, _, name = path.partition(".")
    path = f"inputs.0.{name}" if kind in ("image", "text", "sound") else path
    return [int(step) if step.isdecimal() else step for step in path.split(".")]


def changed(document, path, value):
    """Return a copy in which what lies at a dotted path has another value, or none at all."""
    document = copy.deepcopy(document)
    *way, last = steps(path)
    place = document
    for step in way:
        place = place[step]
    if value is MISSING:
        del place[last]
    else:
        place[last] = value
    return document
