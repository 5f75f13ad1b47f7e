"""`images.decode_image`: any bytes are an image or are refused, within a second."""

import time

from tests.rigs.targets import check, instrumented, run

with instrumented("service.inputs.image_preprocessing", "service.inputs.ink", "PIL"):
    from contract.input_rules import ImageRule
    from service.errors import Refusal
    from service.inputs.image_preprocessing import decode_image

INK = ImageRule(height=28, width=28, channels=1, locate="ink", ink_box=20, mean=(0.15,), std=(0.3,))
MIDDLE = ImageRule(height=32, width=32, channels=3, locate="middle", resize=32, mean=(0.5,) * 3, std=(0.5,) * 3)
FIT = MIDDLE.model_copy(update={"locate": "fit", "resize": None})
PIXELS = 1_000_000
SECONDS = 1.0


def target(data: bytes) -> None:
    """Decode by every rule."""
    for rule in (INK, MIDDLE, FIT):
        begun = time.monotonic()
        try:
            picture = decode_image(data, rule, PIXELS)
        except Refusal as refusal:
            check(refusal)
        else:
            assert picture.pixels.shape == (rule.height, rule.width, rule.channels)
            assert rule is not FIT or picture.visible_cells((4, 4))[0]
        assert time.monotonic() - begun < SECONDS, "took too long"


if __name__ == "__main__":
    run(target)
