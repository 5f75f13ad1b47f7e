"""The plan of models that write of pictures: an encoder of patches, and a decoder of texts."""

from typing import Any

from contract.generation import Generation
from contract.input_rules import ImageRule
from contract.manifest import ANSWERED, GRADIENT_METHODS, Port
from export.plan import Plan, Source, UpperBounds
from export.tasks.generation import (
    TARGET_TOKENIZER,
    VERIFIED_ANSWERS,
    cache_ports,
    decode_plan,
    keys_and_values,
    with_states,
)
from export.tasks.ports import (
    MAX_VERIFIED_TOKENS,
    attention_kind,
    base_plan,
    derived_plans,
    float_port,
    in_colour,
    saliency_plans,
    token_port,
)
from export.traced.generation import DecodeStep
from export.traced.images import Normalize
from export.traced.vision import TracedVisionEncoderDecoder, VisionEncode
from model.architectures.vision_encoder_decoder import VisionEncoderDecoder, VisionEncoderDecoderConfig


def image_to_text(
    name: str,
    model: VisionEncoderDecoder,
    config: VisionEncoderDecoderConfig,
    *,
    family: str,
    rule: ImageRule,
    tokenizer: str,
    rules: Generation,
    made_by: dict[str, Any],
) -> Source:
    """Plan the graphs: `encode` and `decode` write, the others show attention. The tokenizer is that of targets."""
    image, decoder = config.image, config.decoder
    over = {"grid": image.grid, "prefix": image.prefix}
    own, cross = "decoder.blocks.{}.attention", "decoder.blocks.{}.cross"
    seen = attention_kind(
        "encoder", "vision.encoder.blocks.{}.attention", image.layers, image.heads, "image", "image"
    ).model_copy(update=over)
    kinds = (
        seen,
        attention_kind("decoder", own, decoder.layers, decoder.heads, "target", "target_input", *GRADIENT_METHODS),
        in_colour(
            attention_kind(
                "cross", cross, decoder.layers, decoder.heads, "target", "image", *GRADIENT_METHODS
            ).model_copy(update=over),
            rule,
        ),
    )
    sizes, heads, head = {"image": seen.length}, decoder.heads, decoder.head_width
    pixels = Port(name="pixels", dtype="uint8", axes=("batch", rule.height, rule.width, rule.channels))
    logits = float_port("logits", "batch", ANSWERED, config.vocabulary)
    bounds: UpperBounds = {**dict.fromkeys(("target", "token"), config.vocabulary), "position": "capacity"}
    normalize = Normalize(rule.mean, rule.std)
    traced = TracedVisionEncoderDecoder(model, kinds, normalize)
    inputs = pixels, token_port("target"), token_port(ANSWERED)
    base = base_plan(traced, inputs, (logits,), sizes, (image.width, decoder.width, decoder.width), bounds)
    states, crossed = (keys_and_values(path, decoder.layers) for path in (own, cross))
    memory = tuple(float_port(state, "batch", heads, seen.length, head) for state in crossed)
    past, present = cache_ports(dict.fromkeys(states, head), heads)
    longest = min(config.length, rules.max_new_tokens)
    long = min(longest, MAX_VERIFIED_TOKENS)
    return Source(
        name=name,
        family=family,
        task="image-to-text",
        inputs=(rule,),
        target_tokenizer=tokenizer,
        traced=traced,
        base=base,
        plans=(
            *derived_plans(traced, base, sizes),
            *saliency_plans(traced, base, rule),
            Plan("encode", VisionEncode(model, normalize), (pixels,), memory, image.layers, bounds),
            decode_plan(DecodeStep(model), (*past, *memory), present, config.vocabulary, 2 * decoder.layers, bounds),
        ),
        attention=kinds,
        generation=with_states(rules, states, memory=crossed).model_copy(update={"tokenizer": TARGET_TOKENIZER}),
        made_by=made_by,
        traced_at={"batch": 4, "target": 5, ANSWERED: 2, "capacity": 9},
        verified_at=(
            {"batch": 1, "target": 1, ANSWERED: 1, "capacity": 1},
            {"batch": 2, "target": min(7, longest), ANSWERED: 3, "capacity": 16},
            {"batch": 3, "target": min(long, 24), ANSWERED: VERIFIED_ANSWERS, "capacity": long},
        ),
        verified_longest={"batch": 1, "target": longest, ANSWERED: VERIFIED_ANSWERS},
    )
