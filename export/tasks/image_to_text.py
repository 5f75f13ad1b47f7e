"""The plan of models that write of pictures: an encoder of patches, and a decoder of texts."""

from typing import Any

from contract.generation import Generation
from contract.input_rules import ImageRule
from contract.manifest import ANSWERED, GRADIENT_METHODS, Kind, Port
from export.plan import Plan, Source, UpperBounds
from export.tasks.generation import (
    TARGET_TOKENIZER,
    VERIFIED_ANSWERS,
    cache_ports,
    decode_plan,
    keys_and_values,
    longest_sizes,
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
from export.traced.image_to_text import TracedVisionEncoderDecoder, VisionEncode
from export.traced.images import Normalize
from model.architectures.vision_encoder_decoder import VisionEncoderDecoder, VisionEncoderDecoderConfig

SEEN = "vision.encoder.blocks.{}.attention"
OWN, CROSS = "decoder.blocks.{}.attention", "decoder.blocks.{}.cross"
"""The paths of attentions, by layer."""


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
    kinds, normalize = _kinds(config, rule), Normalize(rule.mean, rule.std)
    traced = TracedVisionEncoderDecoder(model, kinds, normalize)
    pixels = Port(name="pixels", dtype="uint8", axes=("batch", rule.height, rule.width, rule.channels))
    inputs = pixels, token_port("target"), token_port(ANSWERED)
    logits, sizes = float_port("logits", "batch", ANSWERED, config.vocabulary), {"image": kinds[0].length}
    bounds: UpperBounds = {**dict.fromkeys(("target", "token"), config.vocabulary), "position": "capacity"}
    widths = config.image.width, config.decoder.width, config.decoder.width
    base = base_plan(traced, inputs, (logits,), sizes, widths, bounds)
    own, crossed = (keys_and_values(path, config.decoder.layers) for path in (OWN, CROSS))
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
            *_writing_plans(model, config, normalize, pixels, kinds[0].length, bounds),
        ),
        attention=kinds,
        generation=with_states(rules, own, memory=crossed).model_copy(update={"tokenizer": TARGET_TOKENIZER}),
        made_by=made_by,
        traced_at={"batch": 4, "target": 5, ANSWERED: 2, "capacity": 9},
        verified_at=(
            {"batch": 1, "target": 1, ANSWERED: 1, "capacity": 1},
            {"batch": 2, "target": min(7, longest), ANSWERED: 3, "capacity": 16},
            {"batch": 3, "target": min(long, 24), ANSWERED: VERIFIED_ANSWERS, "capacity": long},
        ),
        verified_longest=longest_sizes(longest),
    )


def _kinds(config: VisionEncoderDecoderConfig, rule: ImageRule) -> tuple[Kind, Kind, Kind]:
    image, decoder = config.image, config.decoder
    seen = attention_kind("encoder", SEEN, image.layers, image.heads, "image", "image")
    own = attention_kind("decoder", OWN, decoder.layers, decoder.heads, "target", "target_input", *GRADIENT_METHODS)
    cross = attention_kind("cross", CROSS, decoder.layers, decoder.heads, "target", "image", *GRADIENT_METHODS)
    over = {"grid": image.grid, "prefix": image.prefix}
    return seen.model_copy(update=over), own, in_colour(cross.model_copy(update=over), rule)


def _writing_plans(
    model: VisionEncoderDecoder,
    config: VisionEncoderDecoderConfig,
    normalize: Normalize,
    pixels: Port,
    seen: int,
    bounds: UpperBounds,
) -> tuple[Plan, Plan]:
    """Plan `encode`, which returns keys and values of the tokens of a picture, and a step, which reads them."""
    layers, heads, head = config.decoder.layers, config.decoder.heads, config.decoder.head_width
    own, crossed = (keys_and_values(path, layers) for path in (OWN, CROSS))
    memory = tuple(float_port(state, "batch", heads, seen, head) for state in crossed)
    past, present = cache_ports(dict.fromkeys(own, head), heads)
    return (
        Plan("encode", VisionEncode(model, normalize), (pixels,), memory, config.image.layers, bounds),
        decode_plan(DecodeStep(model), (*past, *memory), present, config.vocabulary, 2 * layers, bounds),
    )
