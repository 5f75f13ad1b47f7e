"""The plans of encoder-decoders of which only the decoder attends, and only to its source: a text, or an image."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from contract.generation import Generation
from contract.input_rules import ImageRule, TextRule
from contract.manifest import Kind, Method, Port
from export.plan import Plan, Sizes, Source, UpperBounds
from export.tasks.generation import TARGET_TOKENIZER, cache_ports, decode_plan, with_states
from export.tasks.ports import (
    MAX_VERIFIED_TOKENS,
    base_plan,
    derived_plans,
    float_port,
    token_port,
    visible_port,
)
from export.traced.generation import ImageAlignDecode, ImageSource, TextAlignDecode, TextSource, TracedAlign
from export.traced.images import Normalize
from model.architectures.convolutional import Convolutional
from model.architectures.recurrent import Recurrent


@dataclass(frozen=True)
class AlignedDecoder:
    """What a decoder that attends only to its source reads and returns."""

    kind: Kind
    """Its attention, as `cross_kind` returns it."""
    vocabulary: int
    memory: Mapping[str, int]
    """What every step reads of the source: name -> width. Names that end with .key or .value have an axis of tokens."""
    states: Mapping[str, int]
    """What every step leaves for the next: name -> width."""
    unrolled: int | None = None
    """The most tokens of a target, if the decoder is recurrent: its steps are traced one by one."""


def cross_kind(maps: tuple[str, ...], key: str, *, joined: bool, grid: tuple[int, int] | None = None) -> Kind:
    """Return the one kind of a model that only attends to its source, with one head; `joined` by a projection."""
    methods: tuple[Method, ...] = ("raw", "norm") if joined else ("raw",)
    return Kind(
        name="cross",
        kind="cross",
        maps=maps,
        heads=1,
        query="target",
        key=key,
        normalized=True,
        methods=methods,
        grid=grid,
    )


def aligned_text(
    name: str,
    model: Recurrent | Convolutional,
    decoder: AlignedDecoder,
    *,
    family: str,
    text: TextRule,
    tokenizer: str,
    rules: Generation,
    made_by: dict[str, Any],
) -> Source:
    """Plan the graphs of a model that reads a text; the tokenizer is that of sources and of targets."""
    source = (token_port("source"), visible_port("source"))
    words = len(json.loads(tokenizer)["model"]["vocab"])
    step = TextAlignDecode(model, len(decoder.states))
    traced, base, plans = _graphs(TextSource(model), source, step, decoder, {}, {"source": words})
    long, longest = min(text.max_tokens, MAX_VERIFIED_TOKENS), rules.max_new_tokens
    return Source(
        name=name,
        family=family,
        task="text2text-generation",
        inputs=(text,),
        tokenizer=tokenizer,
        traced=traced,
        base=base,
        plans=plans,
        attention=(decoder.kind,),
        generation=with_states(rules, tuple(decoder.states), memory=tuple(decoder.memory)),
        made_by=made_by,
        traced_at={"batch": 4, "target": 5, "capacity": 9, "source": 7},
        verified_at=(
            {"batch": 1, "target": 1, "capacity": 1, "source": 1},
            {"batch": 2, "target": min(7, longest), "capacity": 16, "source": min(13, long)},
            {"batch": 3, "target": longest, "capacity": longest, "source": long},
        ),
        verified_longest={"batch": 1, "source": text.max_tokens, "target": longest, "capacity": longest},
    )


def aligned_image(
    name: str,
    model: Recurrent,
    decoder: AlignedDecoder,
    *,
    family: str,
    image: ImageRule,
    tokenizer: str,
    rules: Generation,
    made_by: dict[str, Any],
) -> Source:
    """Plan the graphs of a model that describes an image; the tokenizer is that of targets."""
    pixels = Port(name="pixels", dtype="uint8", axes=("batch", image.height, image.width, image.channels))
    rows, columns = decoder.kind.grid or (0, 0)
    encoder = ImageSource(model, Normalize(image.mean, image.std))
    step = ImageAlignDecode(model, len(decoder.states))
    traced, base, plans = _graphs(encoder, (pixels,), step, decoder, {"image": rows * columns}, {})
    longest = rules.max_new_tokens
    return Source(
        name=name,
        family=family,
        task="image-to-text",
        inputs=(image,),
        target_tokenizer=tokenizer,
        traced=traced,
        base=base,
        plans=plans,
        attention=(decoder.kind,),
        generation=with_states(rules, tuple(decoder.states), memory=tuple(decoder.memory)).model_copy(
            update={"tokenizer": TARGET_TOKENIZER}
        ),
        made_by=made_by,
        traced_at={"batch": 4, "target": 5, "capacity": 9},
        verified_at=(
            {"batch": 1, "target": 1, "capacity": 1},
            {"batch": 2, "target": min(7, longest), "capacity": 16},
            {"batch": 3, "target": longest, "capacity": longest},
        ),
    )


def _graphs(
    encoder: TextSource | ImageSource,
    source: tuple[Port, ...],
    step: nn.Module,
    decoder: AlignedDecoder,
    sizes: Sizes,
    source_bounds: UpperBounds,
) -> tuple[TracedAlign, Plan, tuple[Plan, ...]]:
    """Return the traced model, the plan of its base graph, and the plans of its roles.

    `source` holds the inputs of the encoder, of which a step takes all but the first; `sizes` gives the lengths of the
    axes that never vary.
    """
    kind, vocabulary = decoder.kind, decoder.vocabulary
    keys = sizes.get(kind.key, kind.key)
    memory = tuple(
        float_port(name, *(("batch", 1, keys, width) if name.endswith((".key", ".value")) else ("batch", width)))
        for name, width in decoder.memory.items()
    )
    past, present = cache_ports(decoder.states, 1)
    upper_bounds: UpperBounds = {"target": vocabulary, "token": vocabulary, "position": "capacity", **source_bounds}
    width = next(width for name, width in decoder.memory.items() if name.endswith(".value"))
    traced = TracedAlign(encoder, (kind,), decoder.unrolled)
    logits = float_port("logits", "batch", "target", vocabulary)
    base = base_plan(traced, (*source, token_port("target")), (logits,), sizes, width, upper_bounds)
    base = replace(base, attentions=base.attentions * (decoder.unrolled or 1))
    plans = (
        *derived_plans(traced, base, sizes),
        Plan("encode", encoder, source, memory, 0, upper_bounds),
        decode_plan(step, (*source[1:], *past, *memory), present, vocabulary, len(kind.maps), upper_bounds),
    )
    return traced, base, plans
