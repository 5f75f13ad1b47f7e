"""The plans of models that generate: a decoder alone that continues a text, and an encoder-decoder."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from contract.generation import COUNT, LIKELIEST, TOKENS, Cache, Generation
from contract.input_rules import TextRule
from contract.manifest import ANSWERED, GRADIENT_METHODS, Port
from export.errors import CheckpointError
from export.plan import Plan, Sizes, Source, UpperBounds
from export.tasks.ports import (
    MAX_VERIFIED_TOKENS,
    attention_kind,
    base_plan,
    derived_plans,
    float_port,
    index_port,
    token_port,
    visible_port,
)
from export.traced.generation import (
    DecodeStep,
    GPTDecode,
    GPTEncode,
    TracedGPT,
    TracedTransformer,
    TransformerEncode,
)
from model.architectures.gpt import GPT, GPTConfig
from model.architectures.transformer import Transformer, TransformerConfig

TARGET_TOKENIZER = "target_tokenizer.json"
VERIFIED_ANSWERS = 8
"""The tokens of a long target at which its answers are verified: drawn at random, and the last."""
LEAST_TOKENS = 8
"""Graphs are traced with up to 7 tokens."""


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
    """Plan the graphs of a decoder alone: `encode` and `decode` continue a text, the others show its attention."""
    layers, key_heads, head = config.layers, config.key_heads or config.heads, config.head_width
    path = "decoder.blocks.{}.attention"
    kind = attention_kind("decoder", path, layers, config.heads, "target", "target_input", *GRADIENT_METHODS)
    source, target = token_port("source"), token_port("target")
    states = keys_and_values(path, layers)
    past, present = cache_ports(dict.fromkeys(states, head), key_heads)
    prompt = tuple(float_port(f"past.{state}", "batch", key_heads, "source", head) for state in states)
    logits = float_port("logits", "batch", ANSWERED, config.vocabulary)
    upper_bounds: UpperBounds = {
        **dict.fromkeys(("source", "target", "token"), config.vocabulary),
        "position": "capacity",
    }
    traced = TracedGPT(model, (kind,))
    base = base_plan(traced, (target, token_port(ANSWERED)), (logits,), {}, config.width, upper_bounds, head=head)
    step = decode_plan(GPTDecode(model), past, present, config.vocabulary, layers, upper_bounds)
    long = min(config.length, MAX_VERIFIED_TOKENS)
    return Source(
        name=name,
        family=family,
        task="text-generation",
        inputs=(text,),
        tokenizer=tokenizer,
        traced=traced,
        base=base,
        plans=(
            *derived_plans(traced, base, {}),
            Plan("encode", GPTEncode(model), (source,), prompt, layers - 1, upper_bounds),  # the last need not attend
            step,
        ),
        attention=(kind,),
        generation=with_states(rules, states, memory=()),
        made_by=made_by,
        traced_at=traced_at(config.length),
        verified_at=(
            {"batch": 1, "source": 1, "target": 1, ANSWERED: 1, "capacity": 1},
            {"batch": 2, "source": min(13, long), "target": min(8, long), ANSWERED: 3, "capacity": 16},
            {"batch": 3, "source": long, "target": min(long, 24), ANSWERED: VERIFIED_ANSWERS, "capacity": long},
        ),
        verified_longest=longest_sizes(config.length, source=config.length),
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
    """Plan the graphs of an encoder-decoder: `encode` and `decode` generate, the others show its attention."""
    targets = config.target_vocabulary or config.vocabulary
    upper_bounds: UpperBounds = {
        "source": config.vocabulary,
        "target": targets,
        "token": targets,
        "position": "capacity",
    }
    traced, base = transformer_base(model, config, targets, upper_bounds)
    states = keys_and_values("decoder.blocks.{}.attention", config.decoder.layers)
    crossed = keys_and_values("decoder.blocks.{}.cross", config.decoder.layers)
    long, longest = min(config.length, MAX_VERIFIED_TOKENS), min(config.length, rules.max_new_tokens)
    return Source(
        name=name,
        family=family,
        task="text2text-generation",
        inputs=(text,),
        tokenizer=tokenizer,
        target_tokenizer=target_tokenizer,
        traced=traced,
        base=base,
        plans=(
            *derived_plans(traced, base, {}),
            *_transformer_generation_plans(model, config, targets, states, crossed, upper_bounds),
        ),
        attention=traced.kinds,
        generation=with_states(rules, states, memory=crossed).model_copy(
            update={"tokenizer": TARGET_TOKENIZER if target_tokenizer else None}
        ),
        made_by=made_by,
        traced_at=traced_at(config.length),
        verified_at=(
            {"batch": 1, "source": 1, "target": 1, ANSWERED: 1, "capacity": 1},
            {"batch": 2, "source": min(13, long), "target": min(8, longest), ANSWERED: 3, "capacity": 16},
            {
                "batch": 3,
                "source": long,
                "target": min(longest, 24),
                ANSWERED: VERIFIED_ANSWERS,
                "capacity": min(longest, MAX_VERIFIED_TOKENS),
            },
        ),
        verified_longest=longest_sizes(longest, source=config.length),
    )


def transformer_base(
    model: Transformer, config: TransformerConfig, answers: int, upper_bounds: UpperBounds
) -> tuple[TracedTransformer, Plan]:
    """Return the traced encoder-decoder, and the plan of its base graph: `answers` logits of target tokens."""
    encoder, decoder = config.encoder, config.decoder
    own, cross = "decoder.blocks.{}.attention", "decoder.blocks.{}.cross"
    kinds = (
        attention_kind("encoder", "encoder.blocks.{}.attention", encoder.layers, encoder.heads, "source", "source"),
        attention_kind("decoder", own, decoder.layers, decoder.heads, "target", "target_input", *GRADIENT_METHODS),
        attention_kind("cross", cross, decoder.layers, decoder.heads, "target", "source", *GRADIENT_METHODS),
    )
    traced = TracedTransformer(model, kinds)
    inputs = token_port("source"), visible_port("source"), token_port("target"), token_port(ANSWERED)
    logits = float_port("logits", "batch", ANSWERED, answers)
    return traced, base_plan(traced, inputs, (logits,), {}, config.width, upper_bounds, head=config.own_head_width)


def _transformer_generation_plans(
    model: Transformer,
    config: TransformerConfig,
    targets: int,
    states: tuple[str, ...],
    crossed: tuple[str, ...],
    upper_bounds: UpperBounds,
) -> tuple[Plan, Plan]:
    """Plan `encode`, which returns the `crossed` keys and values, and a step, which reads them and adds `states`."""
    heads, head = config.decoder.heads, config.head_width
    source = token_port("source")
    visible = visible_port("source")
    memory = tuple(float_port(name, "batch", heads, "source", head) for name in crossed)
    past, present = cache_ports(dict.fromkeys(states, head), heads)
    encode = Plan("encode", TransformerEncode(model), (source, visible), memory, config.encoder.layers, upper_bounds)
    given, attentions = (visible, *past, *memory), 2 * config.decoder.layers
    return encode, decode_plan(DecodeStep(model), given, present, targets, attentions, upper_bounds)


def cache_ports(states: Mapping[str, int], heads: int) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Return the `past.` and `present.` ports (batch, heads, capacity, width) of states, given with their widths."""
    past, present = (
        tuple(float_port(f"{when}.{state}", "batch", heads, "capacity", width) for state, width in states.items())
        for when in ("past", "present")
    )
    return past, present


def decode_plan(
    module: nn.Module,
    given: tuple[Port, ...],
    present: tuple[Port, ...],
    vocabulary: int,
    attentions: int,
    upper_bounds: UpperBounds,
) -> Plan:
    """Plan a decode step: token, position, `given` and a count -> logits, `present` and the most probable tokens."""
    count = Port(name=COUNT, dtype="int64", axes=(1,))
    inputs = (index_port("token"), index_port("position"), *given, count)
    likeliest = (float_port(LIKELIEST, "batch", COUNT), Port(name=TOKENS, dtype="int64", axes=("batch", COUNT)))
    outputs = (float_port("logits", "batch", vocabulary), *present, *likeliest)
    return Plan("decode", module, inputs, outputs, attentions, upper_bounds)


def with_states(rules: Generation, states: tuple[str, ...], memory: tuple[str, ...]) -> Generation:
    """Return the rules with the names of caches, one per state, and of the memory that every step reads."""
    caches = tuple(Cache(past=f"past.{state}", present=f"present.{state}") for state in states)
    return rules.model_copy(update={"caches": caches, "memory": memory})


def traced_at(length: int) -> Sizes:
    """Return the sizes that the graphs of a model are traced at, by the most tokens of its texts.

    Raises CheckpointError for few.
    """
    if length < LEAST_TOKENS:
        raise CheckpointError(f"model: must take at least {LEAST_TOKENS} tokens to generate texts, given {length}")
    return {"batch": 4, "source": 7, "target": 5, ANSWERED: 3, "capacity": 9}


def longest_sizes(target: int, **others: int) -> Sizes:
    """Return the sizes of the longest target, and of what else has a length."""
    return {"batch": 1, "target": target, ANSWERED: VERIFIED_ANSWERS, "capacity": target, **others}


def keys_and_values(path: str, layers: int) -> tuple[str, ...]:
    """Return the names of what is remembered of each layer."""
    return tuple(f"{path.format(layer)}.{part}" for layer in range(layers) for part in ("key", "value"))
