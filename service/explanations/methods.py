"""The methods that explain an answer, a row each: what is particular to a method is said here and asked of its row.

`raw` picks weights; `rollout` follows attention through the layers (Abnar & Zuidema 2020, arXiv 2005.00928); `norm`
weighs it by the vectors that it multiplies (Kobayashi et al. 2020, arXiv 2004.10102); `relevance` weighs it by the
gradient of one class or token (Chefer et al. 2021, arXiv 2103.15679). `libra` and `integrated` give each token a
signed share of a score, by a balanced gradient (Mehri et al., CVPR 2025), or by one that is integrated along a path
from a baseline (Sundararajan et al. 2017, arXiv 1703.01365). `similar` and `parts` explain no answer: they compare the
states of tokens (`service/explanations/states.py`). `saliency` is of the picture alone (Itti, Koch & Niebur 1998).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from contract.manifest import Method
from service.explanations.states import COLOURS
from service.options.readers import Indices


@dataclass(frozen=True)
class MethodRules:
    """What is particular to a method."""

    default_layers: Indices | Fraction
    """The layers where none are named; a fraction is how deep the only one is."""
    by_layer: bool
    """True if it has a map for each layer, False if one map goes through all of them."""
    heads: Literal["any", "fused", "mean", "sum", "none"] = "sum"
    """Which heads may be asked for, or how the method fuses them."""
    by_gradient: bool = False
    """True if it explains a score, by a graph of its own."""
    by_states: bool = False
    """True if it compares the states of tokens, of one input or of two, and explains no answer."""
    by_picture: bool = False
    """True if it says what stands out in a picture, whatever the model makes of it, by a graph of its own."""
    numbers: int = 1
    """How many numbers a map has of each row and column."""
    signed: bool = False
    """True if values are signed shares of a score."""
    weights: bool = False
    """True if values are the weights of attention; the rows of a stream are."""
    follows: bool = False
    """True if it follows attention from layer to layer, of which some may be discarded or come first."""
    identity: bool = False
    """True if each row of a map begins at its own token, and a request may name the rows."""
    of_states: bool = False
    """True if its layers are those whose states it explains."""
    path: bool = False
    """True if it integrates along a path from a baseline, in steps."""
    above_one: bool = False
    """True if values of weights from 0 to 1 may be larger than 1."""
    why_not_heads: str = "is of the sum over all heads"
    """Why no heads may be named."""
    why_not_layers: str | None = None
    """Why no layers may be named, of whichever model."""
    why_not_layers_of_several: str = "is of the input"
    """Why no layers may be named where a model has several kinds of attention."""
    why_not_served: str = "is not served"
    """Why a model may not serve it."""

    @property
    def of_weights(self) -> bool:
        """True if the attention graph makes the maps, of weights."""
        return not self.by_gradient and not self.by_states and not self.by_picture

    @property
    def rowless(self) -> bool:
        """True if a map has one row, which is of the whole picture, of no token."""
        return self.numbers > 1 or self.by_picture


DEPTH = Fraction(2, 3)
"""The states of a DINOv2 say best where a part is after two thirds of its layers; the last ones say rather what it is
(docs/quality.md)."""

NO_HEADS = "compares states, which have none"

METHODS: dict[Method, MethodRules] = {
    "raw": MethodRules((-1,), by_layer=True, heads="any", weights=True),
    "rollout": MethodRules(
        "all",
        by_layer=False,
        heads="fused",
        follows=True,
        why_not_served="needs maps of tokens onto themselves whose rows sum to one, as self-attention has",
    ),
    "norm": MethodRules(
        (-1,),
        by_layer=True,
        above_one=True,
        why_not_served="needs values that are joined by one projection and added, not fed to what recurs",
    ),
    "relevance": MethodRules(
        "all",
        by_layer=False,
        heads="mean",
        by_gradient=True,
        identity=True,
        above_one=True,
        why_not_layers_of_several="is through all of them",
        why_not_served="needs a gradient through attention, which hard choices have not, "
        "and layers that attend, none that recur or convolve",
    ),
    "libra": MethodRules(
        (0,),
        by_layer=True,
        by_gradient=True,
        signed=True,
        of_states=True,
        why_not_served="needs states that enter layers that attend, none that recur or convolve",
    ),
    "integrated": MethodRules(
        "all",
        by_layer=False,
        by_gradient=True,
        signed=True,
        path=True,
        why_not_layers="integrated gradients are of the input, leave it out",
        why_not_served="needs a gradient, which hard choices have not, and layers that attend, "
        "none that recur or convolve",
    ),
    "similar": MethodRules(
        DEPTH,
        by_layer=True,
        heads="none",
        by_states=True,
        above_one=True,
        why_not_heads=NO_HEADS,
        why_not_served="needs an encoder alone, whose tokens all see one another, not in windows",
    ),
    "parts": MethodRules(
        DEPTH,
        by_layer=True,
        heads="none",
        by_states=True,
        numbers=COLOURS,
        why_not_heads=NO_HEADS,
        why_not_served="needs the patches of an image, and an encoder alone, whose tokens all see one another",
    ),
    "saliency": MethodRules(
        "all",
        by_layer=False,
        heads="none",
        by_picture=True,
        why_not_heads="is of the picture, which has none",
        why_not_layers="saliency is of the picture, which has none, leave it out",
        why_not_served="needs pictures of three channels, of 17 pixels a side or more",
    ),
}
