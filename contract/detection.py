"""How the answers of a detector are read."""

from typing import Annotated

from pydantic import Field

from contract.part import Part, Size


class Detection(Part):
    """How the answers of a detector are read: `logits` (batch, object, class) and `boxes` (batch, object, 4).

    Where `scores` are softmax, the logit behind those of the labels says that there is no object. A box is its middle
    (x, y), its width and its height, as shares of the sides of the model's input, or of the image that was fitted in.
    """

    objects: Size = Field(description="how many are looked for in every image")
    threshold: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5, description="probability from which an object counts as found, where a request does not say"
    )
