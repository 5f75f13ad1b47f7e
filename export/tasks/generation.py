"""TODO: what export/tasks/generation.py is."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from contract.manifest import (
    COUNT,
    LIKELIEST,
    TOKENS,
    Cache,
    Generation,
    ImageRule,
    Kind,
    Method,
    Port,
    TextRule,
)
from export.plan import Below, Plan, Source
from export.tasks.ports import LONG, _base, _float, _kind, _looks, _one, _tokens, _visible
from export.tasks.traced import (
    AlignDecode,
    AlignEncode,
    Aligning,
    AlignLook,
    ContinueDecode,
    ContinueEncode,
    ContinueLook,
    Decode,
    Encode,
    Normalize,
    SequenceLook,
)
from model.convolutional import Convolutional
from model.gpt import GPT, GPTConfig
from model.recurrent import Recurrent
from model.transformer import Transformer, TransformerConfig

TARGET_TOKENIZER = "target_tokenizer.json"


def text_continuer(
    name: str,
    model: GPT,
    config: GPTConfig,
    *,
    family: str,
    text: TextRule,
    tokenizer: str,
    rules: Generation,
    made_by: dict[str, Any],
) -> Source:
    """Plan the roles of a decoder alone: `encode` and `decode` to continue, the others to look."""
    layers, heads, head = config.layers, config.heads, config.width // config.heads
    kind = _kind("decoder", "decoder.blocks.{}.attention", layers, heads, "target", "target_input", "relevance")
    source, target = _tokens("source"), _tokens("target")
    token, position = _one("token"), _one("position")
    own = _parts("decoder.blocks.{}.attention", layers)
    past, present = (
        tuple(_float(f"{when}.{name}", "batch", heads, "capacity", head) for name in own)
        for when in ("past", "present")
    )
    known = tuple(_float(f"past.{name}", "batch", heads, "source", head) for name in own)
    logits = _float("logits", "batch", "target", config.vocabulary)
    following = _float("logits", "batch", config.vocabulary)
    below: Below = {**dict.fromkeys(("source", "target", "token"), config.vocabulary), "position": "capacity"}
    base = _base(ContinueLook(model, (kind,)), (target,), logits, {}, config.width, below)
    long = min(config.length, LONG)
    return Source(
        name=name,
        family=family,
        task="text-generation",
        text=text,
        tokenizer=tokenizer,
        base=base,
        plans=(
            *_looks(base, {}),
            Plan("encode", ContinueEncode(model), (source,), known, layers - 1, below),  # the last need not attend
            _step(ContinueDecode(model), (token, position, *past), (following, *present), layers, below),
        ),
        attention=(kind,),
        generation=_driven(rules, own, memory=()),
        made_by=made_by,
        traced={"batch": 2, "source": 7, "target": 5, "capacity": 9},
        tried=(
            {"batch": 1, "source": 1, "target": 1, "capacity": 1},
            {"batch": 3, "source": min(13, long), "target": min(8, long), "capacity": 16},
            {"batch": 5, "source": long, "target": min(long, 24), "capacity": long},
        ),
        longest={"batch": 1, "target": config.length},
    )


def text_to_text(
    name: str,
    model: Transformer,
    config: TransformerConfig,
    *,
    family: str,
    text: TextRule,
    tokenizer: str,
    rules: Generation,
    made_by: dict[str, Any],
    target_tokenizer: str | None = None,
) -> Source:
    """Plan the roles of an encoder-decoder: `encode` and `decode` to generate, the others to look."""
    encoder, decoder = config.encoder, config.decoder
    heads, head = decoder.heads, config.width // decoder.heads
    targets = config.target_vocabulary or config.vocabulary
    kinds = (
        _kind("encoder", "encoder.blocks.{}.attention", encoder.layers, encoder.heads, "source", "source"),
        _kind("decoder", "decoder.blocks.{}.attention", decoder.layers, heads, "target", "target_input", "relevance"),
        _kind("cross", "decoder.blocks.{}.cross", decoder.layers, heads, "target", "source", "relevance"),
    )
    source, visible, target = _tokens("source"), _visible("source"), _tokens("target")
    token, position = _one("token"), _one("position")
    logits = _float("logits", "batch", "target", targets)
    own = _parts("decoder.blocks.{}.attention", decoder.layers)
    crossed = _parts("decoder.blocks.{}.cross", decoder.layers)
    memory = tuple(_float(name, "batch", heads, "source", head) for name in crossed)
    past, present = (
        tuple(_float(f"{when}.{name}", "batch", heads, "capacity", head) for name in own)
        for when in ("past", "present")
    )
    stepped = (token, position, visible, *past, *memory)
    following = _float("logits", "batch", targets)
    below: Below = {"source": config.vocabulary, "target": targets, "token": targets, "position": "capacity"}
    base = _base(SequenceLook(model, kinds), (source, visible, target), logits, {}, config.width, below)
    long, longest = min(config.length, LONG), min(config.length, rules.max_new_tokens)
    return Source(
        name=name,
        family=family,
        task="text2text-generation",
        text=text,
        tokenizer=tokenizer,
        target_tokenizer=target_tokenizer,
        base=base,
        plans=(
            *_looks(base, {}),
            Plan("encode", Encode(model), (source, visible), memory, encoder.layers, below),
            _step(Decode(model), stepped, (following, *present), 2 * decoder.layers, below),
        ),
        attention=kinds,
        generation=_driven(rules, own, memory=crossed).model_copy(
            update={"tokenizer": TARGET_TOKENIZER if target_tokenizer else None}
        ),
        made_by=made_by,
        traced={"batch": 2, "source": 7, "target": 5, "capacity": 9},
        tried=(
            {"batch": 1, "source": 1, "target": 1, "capacity": 1},
            {"batch": 3, "source": min(13, long), "target": min(8, longest), "capacity": 16},
            {"batch": 5, "source": long, "target": min(longest, 24), "capacity": min(longest, LONG)},
        ),
        longest={"batch": 1, "source": config.length, "target": longest},
    )


def aligned(
    name: str,
    model: Recurrent | Convolutional,
    kind: Kind,
    *,
    family: str,
    vocabulary: int,
    memory: Mapping[str, int],
    states: Mapping[str, int],
    unrolled: int | None,
    rules: Generation,
    made_by: dict[str, Any],
    tokenizer: str,
    text: TextRule | None = None,
    image: ImageRule | None = None,
) -> Source:
    """Plan the roles of an encoder-decoder of which the decoder alone attends, to its source: a text, or an image.

    The `tokenizer` is that of targets, and of sources that are texts. The key, the value and whatever else is in
    `memory`, and the `states` that a step leaves, are given with their widths. A model that recurs is `unrolled` to the
    most tokens of its targets.
    """
    normalize = Normalize(image.mean, image.std) if image else None
    source: tuple[Port, ...] = (_tokens("source"), _visible("source"))
    sizes: dict[str, int] = {}
    below: Below = {**dict.fromkeys(("target", "token"), vocabulary), "position": "capacity"}
    long = length = 0
    if image:
        source = (Port(name="pixels", dtype="uint8", axes=("batch", image.height, image.width, image.channels)),)
        rows, columns = kind.grid or (0, 0)
        sizes["image"] = rows * columns
    if text:
        below["source"] = len(json.loads(tokenizer)["model"]["vocab"])
        long, length = min(text.max_tokens, LONG), text.max_tokens
    keys = sizes.get(kind.key, kind.key)
    remembered = tuple(
        _float(name, *(("batch", 1, keys, width) if name.endswith((".key", ".value")) else ("batch", width)))
        for name, width in memory.items()
    )
    past, present = (
        tuple(_float(f"{when}.{state}", "batch", 1, "capacity", width) for state, width in states.items())
        for when in ("past", "present")
    )
    target, token, position = _tokens("target"), _one("token"), _one("position")
    logits, following = _float("logits", "batch", "target", vocabulary), _float("logits", "batch", vocabulary)
    look = AlignLook(Aligning(model, normalize), (kind,), unrolled)
    width = next(width for name, width in memory.items() if name.endswith(".value"))
    base = _base(look, (*source, target), logits, sizes, width, below)
    base = replace(base, attentions=base.attentions * (unrolled or 1))
    longest = rules.max_new_tokens
    texts = [{"source": one} for one in (7, 1, min(13, long), long)] if text else [{}] * 4
    return Source(
        name=name,
        family=family,
        task="image-to-text" if image else "text2text-generation",
        text=text,
        image=image,
        tokenizer=tokenizer if text else None,
        target_tokenizer=tokenizer if image else None,
        base=base,
        plans=(
            *_looks(base, sizes),
            Plan("encode", AlignEncode(model, normalize), source, remembered, 0, below),
            _step(
                AlignDecode(model, normalize, len(past)),
                (token, position, *source[1:], *past, *remembered),
                (following, *present),
                len(kind.maps),
                below,
            ),
        ),
        attention=(kind,),
        generation=_driven(rules, tuple(states), memory=tuple(memory)).model_copy(
            update={"tokenizer": TARGET_TOKENIZER if image else None}
        ),
        made_by=made_by,
        traced={"batch": 2, "target": 5, "capacity": 9, **texts[0]},
        tried=(
            {"batch": 1, "target": 1, "capacity": 1, **texts[1]},
            {"batch": 3, "target": min(7, longest), "capacity": 16, **texts[2]},
            {"batch": 5, "target": longest, "capacity": longest, **texts[3]},
        ),
        longest={"batch": 1, "source": length, "target": longest} if text else None,
    )


def crossing(maps: tuple[str, ...], key: str, *, joined: bool, grid: tuple[int, int] | None = None) -> Kind:
    """Return the one kind of a model that only attends to its source, with one head; `joined` by a projection."""
    methods: tuple[Method, ...] = ("raw", "norm") if joined else ("raw",)
    return Kind(kind="cross", maps=maps, heads=1, query="target", key=key, normalized=True, methods=methods, grid=grid)


def _step(
    module: nn.Module, inputs: tuple[Port, ...], outputs: tuple[Port, ...], attentions: int, below: Below
) -> Plan:
    """Plan a decode step, with the likeliest tokens beside the logits."""
    count = Port(name=COUNT, dtype="int64", axes=(1,))
    likeliest = (_float(LIKELIEST, "batch", COUNT), Port(name=TOKENS, dtype="int64", axes=("batch", COUNT)))
    return Plan("decode", module, (*inputs, count), (*outputs, *likeliest), attentions, below)


def _driven(rules: Generation, own: tuple[str, ...], memory: tuple[str, ...]) -> Generation:
    caches = tuple(Cache(past=f"past.{name}", present=f"present.{name}") for name in own)
    return rules.model_copy(update={"caches": caches, "memory": memory})


def _parts(path: str, layers: int) -> tuple[str, ...]:
    return tuple(f"{path.format(layer)}.{part}" for layer in range(layers) for part in ("key", "value"))
