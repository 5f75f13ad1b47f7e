"""Attention queries of small models, and what is read of a graph's output for them."""

from dataclasses import replace

import orjson

from contract.detection import Detection
from contract.generation import Generation
from contract.input_rules import TextRule
from contract.manifest import BASELINE, GRAPH_METHODS, INSIDE, File, Graph, Kind, Port
from service.explanations.query import resolve
from service.options.attention import AttentionOptions
from service.options.base import parse
from service.repository.models.graph_controls import controls_of, read_maps
from tests.samples.small_manifest import manifest_of

LAYERS, HEADS, TOKENS, WIDTH = 3, 2, 5, 3
GRADIENTS = ("relevance", "libra", "integrated")


def vit(*methods):
    """Return the manifest of a Vision Transformer of 2 x 2 patches and a class token, with these methods or all."""
    kind = Kind(
        name="encoder", kind="encoder", maps=("a.0", "a.1", "a.2"), heads=HEADS, query="image", key="image",
        normalized=True, methods=methods or (*GRAPH_METHODS, *GRADIENTS), prefix=1, grid=(2, 2),
    )  # fmt: skip
    manifest = manifest_of(attention=(kind,), labels=("cat", "cow", "3"))
    return manifest.model_copy(update={"graphs": graphs("logits", 3, "pixels", LAYERS, ["encoder"])})


def looked_into(manifest):
    """Return the manifest with a graph of what is inside, whose heads are `WIDTH` wide."""
    names = [kind.name for kind in manifest.attention]
    controls = [("query", "batch"), ("key", "batch"), *((f"{name}.layers", f"{name}.layers") for name in names)]
    last = {what: WIDTH if what in ("query", "key", "value", "sum") else None for what in INSIDE}
    graph = Graph(
        file="inside.onnx", sha256="0" * 64, bytes=1,
        inputs=tuple(Port(name=name, dtype="int64", axes=(axis,)) for name, axis in controls),
        outputs=tuple(
            Port(name=f"{kind.name}.{what}", dtype="float32",
                 axes=("batch", HEADS, f"{kind.name}.layers", width or kind.key))
            for kind in manifest.attention for what, width in last.items()
        ),
    )  # fmt: skip
    return manifest.model_copy(update={"graphs": {**manifest.graphs, "inside": graph}})


def finder():
    """Return the manifest of a detector of four objects in 2 x 3 cells, whose encoder and decoder have two layers."""
    axes = {"encoder": ("image", "image"), "decoder": ("object", "object"), "cross": ("object", "image")}
    own = {
        "encoder": GRAPH_METHODS, "decoder": (*GRAPH_METHODS, "relevance"), "cross": ("raw", "norm", *GRADIENTS),
    }  # fmt: skip
    kinds = tuple(
        Kind(name=kind, kind=kind, maps=("a.0", "a.1"), heads=HEADS, query=query, key=key, normalized=True,
             methods=own[kind], grid=(2, 3) if key == "image" else None)
        for kind, (query, key) in axes.items()
    )  # fmt: skip
    return manifest_of(
        task="object-detection",
        attention=kinds,
        labels=("cat", "cow", "3"),
        detection=Detection(objects=4),
        graphs=graphs("logits", 4, "pixels", 2, ["cross", "decoder"], "object"),
    )


def embedder(pooled="all", prefix=1):
    """Return the manifest of a model that embeds texts by the mean of all rows, or by the first one."""
    kind = (
        vit()
        .attention[0]
        .model_copy(update={"query": "source", "key": "source", "grid": None, "pooled": pooled, "prefix": prefix})
    )
    return manifest_of(
        task="feature-extraction",
        inputs=(TextRule(tokenizer="tokenizer.json", max_tokens=8, mask=1, padding=0),),
        files=(TOKENIZER,),
        attention=(kind,),
        graphs=graphs("embeddings", 4, "source", LAYERS, ["encoder"]),
    )


def continuer():
    """Return the manifest of a decoder alone, of three layers, with a vocabulary of ten tokens and one for padding."""
    kind = (
        vit()
        .attention[0]
        .model_copy(update={"name": "decoder", "kind": "decoder", "query": "target", "key": "target_input"})
        .model_copy(update={"grid": None, "prefix": 0})
    )
    made = graphs("logits", 10, "target", LAYERS, ["decoder"], "target")
    return manifest_of(
        task="text-generation",
        inputs=(TextRule(tokenizer="tokenizer.json", max_tokens=8, padding=9),),
        files=(TOKENIZER,),
        attention=(kind,),
        generation=Generation(start=None, end=2, max_new_tokens=6, caches=(), memory=()),
        graphs=made
        | {role: made["predict"].model_copy(update={"file": f"{role}.onnx"}) for role in ("encode", "decode")},
    )


TOKENIZER = File(file="tokenizer.json", sha256="0" * 64, bytes=1)


def graphs(answer, width, given, layers, kinds, *axes):
    """Return the graphs of every role that explains, with the outputs and inputs that queries look at."""
    port = Port(name=answer, dtype="float32", axes=("batch", *axes, width))
    biases = Port(name="biases", dtype="float32", axes=("batch", layers))
    score = Port(name="score", dtype="float32", axes=("batch",))
    found = tuple(Port(name=kind, dtype="float32", axes=("batch", "key")) for kind in kinds)
    blank = Port(name=f"{BASELINE}{given}", dtype="int64", axes=("batch", given))
    outputs = {
        "predict": (port,), "attention": (port,), "relevance": (port, *found),
        "libra": (port, *found, biases, score), "integrated": (*found, score),
    }  # fmt: skip
    return {
        role: Graph(file=f"{role}.onnx", sha256="0" * 64, bytes=1, inputs=(blank,), outputs=ports)
        for role, ports in outputs.items()
    }


def translator(**changes):
    """Return the manifest of an encoder and decoder of two layers, with a vocabulary of ten tokens."""
    axes = {"encoder": ("source", "source"), "decoder": ("target", "target_input"), "cross": ("target", "source")}
    own = {
        "encoder": ("raw", "rollout", "norm"),
        "decoder": ("raw", "rollout", "norm", *GRADIENTS),
        "cross": ("raw", "norm", *GRADIENTS),
    }
    return manifest_of(
        graphs=graphs("logits", 10, "source", 1, ["cross", "decoder"], "target"),
        task="text2text-generation",
        inputs=(TextRule(tokenizer="tokenizer.json", max_tokens=8),),
        files=(TOKENIZER,),
        attention=tuple(
            Kind(name=kind, kind=kind, maps=("a.0", "a.1"), heads=HEADS, query=query, key=key, normalized=True,
                 methods=own[kind])
            for kind, (query, key) in axes.items()
        ),
        **changes,
    )  # fmt: skip


def query_of(manifest=None, **options):
    """Return the query that a request with these options makes of a model: of `vit()` unless another is given."""
    query = resolve(parse(AttentionOptions, options, strings=False), manifest or vit())
    return replace(query, form=query.options.format or "json")


def controls(query, kind="encoder", **lengths):
    """Return the controls of the graph for a query, and those of one kind, for an input of these lengths."""
    all_controls = controls_of(query, lengths or {"image": TOKENS})
    return all_controls, next(one for one in all_controls.kinds if one.kind.kind == kind)


def dumped(document):
    """Return a document as an answer in JSON has it."""
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def read(stack, query, **lengths):
    """Return the maps read from a stack (heads, layers, rows, keys) that the graph returned for a model of one kind."""
    lengths = lengths or {"image": TOKENS}
    return read_maps(query, controls_of(query, lengths), lengths, {"encoder": stack})
