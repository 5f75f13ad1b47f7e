"""Images as the inputs of a model: patches, with the prefix tokens before them."""

import functools
import io
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from PIL import Image

from contract.artifact import Artifact
from contract.input_rules import ImageRule
from contract.manifest import IMAGE_VISIBLE, OBJECTS, POOL, SHOWN, Kind
from service.arrays import Array
from service.inputs.decoding import Decoded
from service.inputs.image_preprocessing import decode_image
from service.inputs.model_input import ModelInput, Picture, Pixels


class ImageInputs:
    """The inputs of a model that takes images. Every image has the same number of patches."""

    modality = "image"
    plural = "images"
    axis = "image"
    confined = True
    """True if inputs are decoded in confined processes."""
    padded = False
    """True if the inputs of a batch may be padded to one length."""
    tokenizer = None
    shortest: Mapping[str, int] = MappingProxyType({})
    """The smallest number along an axis, where that is not 1."""

    def __init__(self, rule: ImageRule, kinds: Sequence[Kind], objects: int = 0, fed: Container[str] = ()) -> None:
        """`fed`: the inputs of the graphs, such as which cells begin in an image that was fitted in."""
        self.rule = rule
        self.lengths = {kind.key: kind.length for kind in kinds if kind.grid} | ({OBJECTS: objects} if objects else {})
        self.lengths |= {kind.query: 1 for kind in kinds if kind.query == POOL}
        """Lengths of the axes that are the same for every input; `objects` are those that a detector looks for."""
        self.longest: Mapping[str, int] = {}
        """The largest number of tokens along each axis whose length varies."""
        self._special = {kind.key: _special(kind) for kind in kinds if kind.grid}
        self._special[OBJECTS] = np.zeros(objects, np.bool_)
        grid = next((kind.grid for kind in kinds if kind.grid), (1, 1))
        told: dict[str, Callable[[Picture], Array]] = {
            IMAGE_VISIBLE: lambda picture: picture.visible_cells(grid),
            SHOWN: lambda picture: np.array(picture.shown),
        }
        self._told = {name: tell for name, tell in told.items() if name in fed}

    @classmethod
    def of(cls, artifact: Artifact, rule: ImageRule) -> "ImageInputs":
        """Return the inputs of an artifact."""
        manifest = artifact.manifest
        fed = {port.name for port in manifest.graphs["attention"].inputs}
        objects = manifest.detection.objects if manifest.detection else 0
        return cls(rule, manifest.attention, objects, fed)

    def lengths_of(self, announced: int) -> Mapping[str, int]:
        """Return the lengths of an image that announces some pixels: they are the same for all."""
        return self.lengths

    def input_of(self, decoded: Decoded) -> ModelInput:
        """Return what was decoded as an input."""
        assert isinstance(decoded, Picture)  # noqa: S101 # as the rule says
        return self.image_input(decoded)

    def image_input(self, picture: Picture, pixels: Pixels | None = None) -> ModelInput:
        """Return a picture as an input. `pixels`, if given, replace its own and have the same shape."""
        pixels = picture.pixels if pixels is None else pixels
        arrays = {"pixels": pixels, **{name: tell(picture) for name, tell in self._told.items()}}
        return ModelInput(arrays, self.lengths, self._special, picture=picture)

    def samples(self, form: object) -> Iterator[tuple[str, Callable[[], ModelInput]]]:
        """Yield an image on which a model is tried: no text, and what makes the input."""
        page = Image.new("RGB", (64, 64), "white")
        page.paste("black", (24, 16, 40, 48))
        file = io.BytesIO()
        page.save(file, "PNG")
        picture = decode_image(file.getvalue(), self.rule, page.width * page.height)
        yield "", functools.partial(self.image_input, picture)

    def description(self) -> dict[str, object]:
        """Return the description of the inputs in `GET /v1/models/{model}`."""
        return {"height": self.rule.height, "width": self.rule.width, "channels": self.rule.channels}


def _special(kind: Kind) -> Array:
    """Return which tokens of an image are no patches, (token)."""
    special = np.ones(kind.length, np.bool_)
    special[kind.patches] = False
    return special
