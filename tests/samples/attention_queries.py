"""Attention queries of small models, and what is read of a graph's output for them."""

from contract.manifest import Kind, Port
from service.explanations.query import resolve
from service.options import AttentionOptions, parse
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


def asked(manifest=None, **options):
    """Return the query that a request with these options makes of a model: of `vit()` unless another is given."""
    return resolve(parse(AttentionOptions, options, strings=False), manifest or vit())


def part(ask, kind="encoder", **lengths):
    """Return what a query asks of the graph, and what of one kind, for an input of these lengths."""
    reading = ask.reading(lengths or {"image": TOKENS})
    return reading, next(one for one in reading.parts if one.kind.kind == kind)


def read(stack, ask, **lengths):
    """Return what is read of a stack (heads, layers, rows, keys) that the graph returned for a model of one kind."""
    lengths = lengths or {"image": TOKENS}
    return ask.read(ask.reading(lengths), lengths, {"encoder": stack})
