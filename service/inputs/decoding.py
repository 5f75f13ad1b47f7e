"""What decoders make of a file: a picture of an image, or the samples of a sound, by the rule that they are given."""

from typing import NamedTuple, TypeAlias

from contract.input_rules import ImageRule, SoundRule
from service.inputs.image_preprocessing import decode_image
from service.inputs.model_input import Picture, Sound
from service.inputs.sound_decoding import decode_sound

Rule: TypeAlias = ImageRule | SoundRule
Decoded: TypeAlias = Picture | Sound


class Request(NamedTuple):
    """What to decode of a file: what a rule makes of it, or without a rule the whole image, upright."""

    rule: Rule | None
    most: int
    """The limit of an image in pixels, or of a sound in samples at the rate of the rule."""
    announced: int
    """What the service read in the header, and admitted: at most `most`."""


def decode(data: bytes, request: Request) -> Decoded:
    """Decode a file. Raises a Refusal of it."""
    if isinstance(request.rule, SoundRule):
        return decode_sound(data, request.rule, request.most, request.announced)
    return decode_image(data, request.rule, request.most, request.announced)
