"""Objects that a detector looks for in a picture: which they are, and where."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.heat import Box


@dataclass(frozen=True)
class Detected:
    """An object that a detector looked for: its likeliest class, and its box."""

    label: str
    index: int
    """The number of its class."""
    probability: float
    object: int
    """Its number among all that the detector looks for, by which `heat` and `target` ask for it."""
    box: Box
    """In pixels of the picture that was sent, upright."""


def read_detected(json: Mapping[str, Any]) -> Detected:
    """Return an object from the service's JSON. Raises KeyError, TypeError or ValueError."""
    return Detected(json["label"], json["index"], json["probability"], json["object"], read_box(json["box"]))


def read_box(json: Mapping[str, Any]) -> Box:
    """Return a box from the service's JSON. Raises KeyError or TypeError."""
    return Box(json["left"], json["top"], json["right"], json["bottom"])
