"""Attention queries of small models, and what is read of a graph's output for them."""

from dataclasses import replace

from contract.manifest import Kind, Port
from service.explanations.query import resolve
from service.options import AttentionOptions, parse
from service.repository.graph_controls import controls_of, read_maps
from tests.samples.small_manifest import manifest_of

LAYERS, HEADS, TOKENS = 3, 2, 5


def vit(*methods):
    """Return the manifest of a Vision Transformer of 2 x 2 patches and a class token, with these methods or all."""
    kind = Kind(
        kind="encoder", maps=("a.0", "a.1", "a.2"), heads=HEADS, query="image", key="image", normalized=True,
        methods=methods or ("raw", "rollout", "norm", "relevance"), prefix=1, grid=(2, 2),
    )  # fmt: skip
    manifest = manifest_of(attention=(kind,))
    logits = Port(name="logits", dtype="float32", axes=("batch", 3))
    graph = manifest.graphs["attention"].model_copy(update={"outputs": (logits,)})
    return manifest.model_copy(update={"graphs": {**manifest.graphs, "attention": graph}})


def translator():
    """Return the manifest of an encoder and decoder of two layers."""
    axes = {"encoder": ("source", "source"), "decoder": ("target", "target_input"), "cross": ("target", "source")}
    return manifest_of(
        task="text2text-generation",
        attention=tuple(
            Kind(kind=kind, maps=("a.0", "a.1"), heads=HEADS, query=query, key=key, normalized=True,
                 methods=("raw", "norm") if kind == "cross" else ("raw", "rollout", "norm"))
            for kind, (query, key) in axes.items()
        ),
    )  # fmt: skip


def query_of(manifest=None, **options):
    """Return the query that a request with these options makes of a model: of `vit()` unless another is given."""
    query = resolve(parse(AttentionOptions, options, strings=False), manifest or vit())
    return replace(query, form=query.options.format or "json")


def controls(query, kind="encoder", **lengths):
    """Return the controls of the graph for a query, and those of one kind, for an input of these lengths."""
    all_controls = controls_of(query, lengths or {"image": TOKENS})
    return all_controls, next(one for one in all_controls.kinds if one.kind.kind == kind)


def read(stack, query, **lengths):
    """Return the maps read from a stack (heads, layers, rows, keys) that the graph returned for a model of one kind."""
    lengths = lengths or {"image": TOKENS}
    return read_maps(query, controls_of(query, lengths), lengths, {"encoder": stack})
