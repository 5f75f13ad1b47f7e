"""From a definition to a source: which roles a task has, and what goes into and out of their graphs."""

from typing import Any

from contract.manifest import Cache, Generation, ImageRule, Kind, KindName, Port, TextRule
from export.graphs import (
    Decode,
    Encode,
    ImageAttention,
    ImagePredict,
    Normalize,
    SequenceAttention,
    SequencePredict,
)
from export.plan import Plan, Source
from model.transformer import Transformer, TransformerConfig
from model.vit import ViT, ViTConfig


def image_classifier(
    name: str, model: ViT, config: ViTConfig, rule: ImageRule, labels: tuple[str, ...], made_by: dict[str, Any]
) -> Source:
    """Plan the roles `predict` and `attention` of a ViT."""
    names = tuple(f"encoder.blocks.{layer}.attention" for layer in range(config.layers))
    tokens = 1 + config.grid[0] * config.grid[1]
    normalize = Normalize(rule.mean, rule.std)
    pixels = Port(name="pixels", dtype="uint8", axes=("batch", rule.height, rule.width, rule.channels))
    logits = _float("logits", "batch", config.classes)
    maps = _float("encoder", "batch", config.layers, config.heads, tokens, tokens)
    return Source(
        name=name,
        family="vit",
        task="image-classification",
        labels=labels,
        image=rule,
        plans=(
            Plan("predict", ImagePredict(normalize, model), (pixels,), (logits,), config.layers),
            Plan("attention", ImageAttention(normalize, model, names), (pixels,), (logits, maps), config.layers),
        ),
        attention=(
            Kind(
                kind="encoder", maps=names, heads=config.heads, query="image", key="image", normalized=True,
                prefix=1, grid=config.grid,
            ),
        ),
        made_by=made_by,
        traced={"batch": 2},
        tried=({"batch": 1}, {"batch": 3}, {"batch": 8}),
    )  # fmt: skip


def text_to_text(
    name: str,
    model: Transformer,
    config: TransformerConfig,
    *,
    tokenizer: str,
    text: TextRule,
    start: int,
    end: int,
    max_new_tokens: int,
    made_by: dict[str, Any],
) -> Source:
    """Plan the roles of an encoder-decoder: `encode` and `decode` to generate, `predict` and `attention` to look."""
    layers, heads, head = range(config.layers), config.heads, config.width // config.heads

    def kind(name: KindName, path: str, query: str, key: str) -> Kind:
        names = tuple(path.format(layer) for layer in layers)
        return Kind(kind=name, maps=names, heads=heads, query=query, key=key, normalized=True)

    kinds = (
        kind("encoder", "encoder.blocks.{}.attention", "source", "source"),
        kind("decoder", "decoder.blocks.{}.attention", "target", "target_input"),
        kind("cross", "decoder.blocks.{}.cross", "target", "source"),
    )
    source = Port(name="source", dtype="int64", axes=("batch", "source"))
    visible = Port(name="source_visible", dtype="bool", axes=("batch", "source"))
    target = Port(name="target", dtype="int64", axes=("batch", "target"))
    token = Port(name="token", dtype="int64", axes=("batch",))
    position = Port(name="position", dtype="int64", axes=("batch",))
    logits = _float("logits", "batch", "target", config.vocabulary)
    maps = tuple(
        _float(kind.kind, "batch", config.layers, heads, kind.query, kind.key.removesuffix("_input")) for kind in kinds
    )
    own = [f"decoder.blocks.{layer}.attention.{part}" for layer in layers for part in ("key", "value")]
    crossed = [f"decoder.blocks.{layer}.cross.{part}" for layer in layers for part in ("key", "value")]
    memory = tuple(_float(name, "batch", heads, "source", head) for name in crossed)
    past = tuple(_float(f"past.{name}", "batch", heads, "capacity", head) for name in own)
    present = tuple(_float(f"present.{name}", "batch", heads, "capacity", head) for name in own)
    given = (source, visible, target)
    looking = SequenceAttention(model, tuple(kind.maps for kind in kinds))
    stepped = (token, position, visible, *past, *memory)
    following = _float("logits", "batch", config.vocabulary)
    vocabulary: dict[str, int | str] = dict.fromkeys(("source", "target", "token"), config.vocabulary)
    vocabulary["position"] = "capacity"
    return Source(
        name=name,
        family="transformer",
        task="text2text-generation",
        text=text,
        tokenizer=tokenizer,
        plans=(
            Plan("predict", SequencePredict(model), given, (logits,), 3 * config.layers, vocabulary),
            Plan("attention", looking, given, (logits, *maps), 3 * config.layers, vocabulary),
            Plan("encode", Encode(model), (source, visible), memory, config.layers, vocabulary),
            Plan("decode", Decode(model), stepped, (following, *present), 2 * config.layers, vocabulary),
        ),
        attention=kinds,
        generation=Generation(
            start=start,
            end=end,
            max_new_tokens=max_new_tokens,
            caches=tuple(Cache(past=f"past.{name}", present=f"present.{name}") for name in own),
            memory=tuple(crossed),
        ),
        made_by=made_by,
        traced={"batch": 2, "source": 7, "target": 5, "capacity": 9},
        tried=(
            {"batch": 1, "source": 1, "target": 1, "capacity": 1},
            {"batch": 3, "source": 13, "target": 8, "capacity": 16},
            {"batch": 8, "source": config.length, "target": max_new_tokens, "capacity": max_new_tokens},
        ),
    )  # fmt: skip


def _float(name: str, *axes: int | str) -> Port:
    return Port(name=name, dtype="float32", axes=axes)
