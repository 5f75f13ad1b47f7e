"""What the reference library makes of an image, for each case of a family."""

import json
import warnings

import numpy as np
import pytest
import transformers
from PIL import Image

from export.command import _parser
from tests.samples.checkpoints import CASES, checkpoint_of


def photograph():
    """Return a photograph of 90 x 60 pixels."""
    skimage = pytest.importorskip("skimage")
    return Image.fromarray(skimage.data.astronaut()).resize((90, 60))


def processed(name, image):
    """Return the pixels (1, channel, height, width) that the reference library makes of an image."""
    config = json.loads((checkpoint_of(name) / "preprocessor_config.json").read_text())
    kind = config["image_processor_type"].replace("FeatureExtractor", "ImageProcessor")
    if sides := _parser().parse_args([name, *CASES[name].options]).image_size:
        config["size"] = dict(zip(("height", "width"), sides, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        process = getattr(transformers, f"{kind}Pil")(
            **{key: one for key, one in config.items() if not key.endswith("type")}
        )
        return np.stack(process(image)["pixel_values"])
