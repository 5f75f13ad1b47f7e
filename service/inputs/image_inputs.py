"""Images as the inputs of a model."""

from collections.abc import Mapping

import numpy as np

from contract.manifest import ImageRule, Kind
from service.inputs.model_input import ModelInput, Picture, Pixels


class ImageInputs:
    """The inputs of a model that takes images: patches, as many for every image."""

    axis = "image"
    padded = False
    """True if the inputs of a batch may be padded to one length."""

    def __init__(self, rule: ImageRule, kind: Kind) -> None:
        self.rule = rule
        self.lengths = {self.axis: kind.length}
        """Lengths of the axes that are the same for every input."""
        self.longest: Mapping[str, int] = {}
        """The most tokens along each axis that varies."""
        self._special = {self.axis: np.arange(kind.length) < kind.prefix}

    def image_input(self, picture: Picture, pixels: Pixels | None = None) -> ModelInput:
        """Return a picture as an input, with other pixels of the same size if they are given."""
        pixels = picture.pixels if pixels is None else pixels
        return ModelInput({"pixels": pixels}, self.lengths, self._special, picture=picture)

    def description(self) -> dict[str, object]:
        """Return what `GET /v1/models/{model}` says of the inputs."""
        return {"height": self.rule.height, "width": self.rule.width, "channels": self.rule.channels}
