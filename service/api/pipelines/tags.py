"""Entities as Hugging Face's clients ask for them, and take them."""

from typing import Any

from pydantic import Field

from service.errors import Unacceptable
from service.explanations.entities import Entity
from service.options.predictions import Stride, TextOptions
from service.options.tags import Strategy, TagOptions


class TokenClassificationParameters(TextOptions):
    """Parameters of token-classification."""

    aggregation_strategy: Strategy = Field("simple", description="as `aggregate` of tag")
    ignore_labels: list[str] = Field(["O"], max_length=256, description="labels that are no entity")
    stride: Stride = None

    def for_entities(self) -> TagOptions:
        """Return the options of tag: with a stride, a text is read in windows. Raises Unacceptable."""
        if self.stride and self.aggregation_strategy == "none":
            raise Unacceptable("stride: needs another aggregation_strategy than none")
        windows: dict[str, Any] = {} if self.stride is None else {"overflow": "window", "stride": self.stride}
        return TagOptions(
            **windows,
            aggregate=self.aggregation_strategy,
            ignore=tuple(self.ignore_labels),
            truncate=self.truncate,
            priority=self.priority,
        )


def scored_entity(entity: Entity, strategy: Strategy) -> dict[str, object]:
    """Return an entity under the names that the pipeline has for it."""
    start, end = entity.span
    place = {"word": entity.word, "start": start, "end": end}
    if strategy == "none":
        return {"entity": entity.label, "score": entity.probability, "index": entity.tokens[0], **place}
    return {"entity_group": entity.label, "score": entity.probability, **place}
