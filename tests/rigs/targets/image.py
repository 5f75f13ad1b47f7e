"""`read_size` and `decode_image`: the bytes of any image are decoded or refused, within a second."""

import sys
import time
from pathlib import Path

from tests.rigs.targets import check, instrumented, run

with instrumented("service.inputs", "PIL"):
    from contract.input_rules import ImageRule
    from service.errors import Refusal
    from service.inputs.image_header import read_size
    from service.inputs.image_preprocessing import decode_image
    from tests.samples.images import images

INK = ImageRule(height=28, width=28, channels=1, locate="ink", ink_box=20, mean=(0.15,), std=(0.3,))
MIDDLE = ImageRule(height=32, width=32, channels=3, locate="middle", resize=32, mean=(0.5,) * 3, std=(0.5,) * 3)
FIT = MIDDLE.model_copy(update={"locate": "fit", "resize": None})
PIXELS = 1_000_000
SECONDS = 1.0
SEED_BYTES = 20_000


def target(data: bytes) -> None:
    """Read the size, and decode by every rule."""
    read_size(data)
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
    corpus = Path(next(one for one in sys.argv[1:] if not one.startswith("-")))
    for name, image in images().items():  # of every format: what it mutates
        if len(image) < SEED_BYTES:
            (corpus / name.replace(" ", "-")).write_bytes(image)
    run(target)
