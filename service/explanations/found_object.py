"""An object that a detector finds in an image."""

from dataclasses import dataclass

from service.inputs.model_input import Box


@dataclass(frozen=True)
class FoundObject:
    """One of the objects that a detector looks for: its likeliest class, and its box in pixels of the image."""

    number: int
    """Of those that the detector looks for, by which its rows and its relevance are asked for."""
    label: str
    index: int
    """The number of its class."""
    probability: float
    box: Box

    def json(self) -> dict[str, object]:
        """Return the object as an answer holds it."""
        left, top, right, bottom = (round(edge, 2) for edge in self.box)
        return {
            "label": self.label,
            "index": self.index,
            "probability": self.probability,
            "object": self.number,
            "box": {"left": left, "top": top, "right": right, "bottom": bottom},
        }
