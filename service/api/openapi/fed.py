"""What is said of the input that a model was fed."""

from pydantic import Field

from service.api.openapi.attention import Box, Token
from service.api.openapi.components import Part


class FedToken(Token):
    """A token as the graph takes it."""

    id: int = Field(description="in the vocabulary")
    type: int = Field(description="the token type id: which text of a pair")


class Size(Part):
    """Of the image as it was sent, upright."""

    width: int
    height: int


class Tensor(Part):
    """Numbers of the pixels as the graph normalises them, one a channel."""

    mean: list[float]
    std: list[float]
    least: list[float]
    most: list[float]


class Pixels(Part):
    """The pixels that the graph takes."""

    shape: tuple[int, int, int] = Field(description="height, width, channels")
    mean: list[float] = Field(description="that the graph takes off each channel, of pixels in [0, 1]")
    std: list[float] = Field(description="that it divides by")
    box: Box | None = Field(None, description="where in the image they come from")
    image: Size | None = None
    tensor: Tensor
    png: str = Field(description="base64")


class Samples(Part):
    """The samples that the graph takes, of which some are of the sound."""

    count: int
    heard: int
    rate: int = Field(description="a second")
    least: float
    most: float
    loudness: float = Field(description="root of their mean square")


class Fed(Part):
    """What a model was fed: pixels of an image, tokens of a text, samples of a sound, or nodes of a graph."""

    pixels: Pixels | None = None
    tokens: list[FedToken] | None = None
    samples: Samples | None = None
