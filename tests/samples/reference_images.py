"""What the reference library makes of an image, for each case of a family."""

import json
import warnings

import numpy as np
import pytest
import transformers
from PIL import Image

from tests.samples.checkpoints import checkpoint_of


def photograph():
    """Return a photograph of 90 x 60 pixels."""
    skimage = pytest.importorskip("skimage")
    return Image.fromarray(skimage.data.astronaut()).resize((90, 60))


def processed(name, image):
    """Return the pixels (1, channel, height, width) that the reference library makes of an image."""
    config = json.loads((checkpoint_of(name) / "preprocessor_config.json").read_text())
    kind = config["image_processor_type"].replace("FeatureExtractor", "ImageProcessor") + "Pil"
    if name == "vit-larger":
        config["size"] = {"height": 16, "width": 16}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        process = getattr(transformers, kind)(**{key: one for key, one in config.items() if not key.endswith("type")})
        return np.stack(process(image)["pixel_values"])
