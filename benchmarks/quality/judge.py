"""Quantus (Hedström et al. 2023) as a judge from outside: its measures of where an attribution lies.

It gets each map as a picture of 48 x 48 pixels, and the evidence as the patches that the glyph touches. Its definitions
are then those of `measures`, but for TopKIntersection, which takes the same k for every picture.
"""

import importlib
import warnings
from collections.abc import Mapping
from types import ModuleType

import numpy as np

from benchmarks.quality import measures

OURS = {"PointingGame": "pointing", "RelevanceMassAccuracy": "mass", "RelevanceRankAccuracy": "precision"}
"""The measures of Quantus, and those of ours that they are to agree with."""
TOP = 4
"""Patches that TopKIntersection counts."""


def why_not() -> str | None:
    """Return why Quantus cannot be imported; None if it can. It needs OpenCV, which needs libraries of the system."""
    try:
        _imported()
    except ImportError as error:
        return str(error)
    return None


def _imported() -> ModuleType:
    with warnings.catch_warnings():  # of its own use of other libraries
        warnings.simplefilter("ignore")
        return importlib.import_module("quantus")


def judged(
    pixels: np.ndarray, patch: tuple[int, int], evidence: np.ndarray, maps: Mapping[str, np.ndarray]
) -> dict[str, dict[str, list[float]]]:
    """Return for each method and measure of Quantus its mean, and that of ours (of TopKIntersection, by its rule)."""
    found: dict[str, dict[str, list[float]]] = {}
    pictures = pixels.transpose(0, 3, 1, 2).astype(float)
    masks = _enlarged(evidence, pixels, patch)
    for method, own in maps.items():
        ours = measures.located(own, evidence)
        hottest = np.take_along_axis(evidence, (-own).argsort(1, kind="stable")[:, :TOP], 1)
        expected = {name: ours[mine].mean() for name, mine in OURS.items()}
        expected["TopKIntersection"] = hottest.mean()
        given = {
            "x_batch": pictures,
            "y_batch": np.zeros(len(pictures), int),  # without a meaning for these measures
            "a_batch": _enlarged(own, pixels, patch),
            "s_batch": masks,
        }
        found[method] = {
            name: [round(_quantus(name, patch, given), 6), round(float(mean), 6)] for name, mean in expected.items()
        }
    return found


def _quantus(name: str, patch: tuple[int, int], given: dict[str, np.ndarray]) -> float:
    quantus = _imported()
    with warnings.catch_warnings():  # as above
        warnings.simplefilter("ignore")
        options = {"k": TOP * patch[0] * patch[1]} if name == "TopKIntersection" else {}
        if name == "RelevanceMassAccuracy":
            given = given | {"a_batch": given["a_batch"].clip(min=0)}  # ours is of the positive part
        measure = getattr(quantus, name)(abs=False, normalise=False, disable_warnings=True, **options)
        return float(np.mean(measure(model=None, **given)))


def _enlarged(maps: np.ndarray, pixels: np.ndarray, patch: tuple[int, int]) -> np.ndarray:
    """Return maps (batch, patch) as pictures (batch, 1, height, width)."""
    rows, columns = (side // size for side, size in zip(pixels.shape[1:3], patch, strict=True))
    return maps.reshape(-1, 1, rows, columns).repeat(patch[0], 2).repeat(patch[1], 3)
