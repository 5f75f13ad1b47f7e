"""How the vectors of two models are compared, one of pictures and one of texts."""

from typing import Literal

from pydantic import Field

from contract.part import NAME, Part


class Comparison(Part):
    """How the cosine of a picture's vector and a text's becomes a score: scale·cos + bias.

    The scores of a picture with some texts become probabilities by softmax (Radford et al. 2021, figure 3), or each for
    itself by sigmoid (Zhai et al. 2023, section 3).
    """

    scale: float = Field(gt=0)
    bias: float = 0.0
    scores: Literal["softmax", "sigmoid"] = "softmax"


class Contrast(Comparison):
    """The other of two models that were trained together: the one takes pictures, the other texts.

    Both are exported, loaded and replaced together: `pair` is the same in both, and in no other model.
    """

    partner: str = Field(pattern=NAME, description="name of the other model")
    pair: str = Field(pattern=r"^[0-9a-f]{64}$", description="sha256 of the hashes of both models' files")
