"""The usual way to look at an answer: what clients show of it where nobody asks for another.

All objects of a detector are shown together, where none is chosen, by the weights: `raw` has rows for all of them.
"""

from contract.manifest import Manifest
from service.explanations.methods import METHODS
from service.explanations.query import methods_of
from service.explanations.score import explains

PRETRAINED = {"method": "rollout", "sinks": "out", "discard": 0.9}
"""Of a real ViT whose methods were not measured: without heads that look at one patch from everywhere, and of each
layer the largest tenth. How much of it is seen stands in docs/quality.md."""
TRIED_ON = ("dinov2",)
"""The families on which that was tried: no other real ViT was to be had."""
FIRST = ("libra", "rollout", "raw")
"""Else the first of these that a model has."""
LOWER_IS_BETTER = "lower is better"


def usual(manifest: Manifest) -> dict[str, object]:
    """Return the options of attention that show best what a model looked at, as far as is known.

    They are the method that measured best; of an embedding, one that needs no second input.
    """
    fit = [one for one in methods_of(manifest) if explains(manifest) != "embedding" or not METHODS[one].by_gradient]
    if best := manifest.best:
        measured = [one for one in fit if one in best.values]
        if best.method in fit:
            return {"method": best.method}
        if measured:
            choose = min if LOWER_IS_BETTER in best.measure else max
            return {"method": choose(measured, key=best.values.__getitem__)}
    if manifest.family in TRIED_ON and "rollout" in fit and any(kind.has_sinks for kind in manifest.attention):
        return dict(PRETRAINED)
    return {"method": next((one for one in FIRST if one in fit), fit[0])}
