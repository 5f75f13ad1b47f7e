"""Entities as Hugging Face's clients ask for them, and take them."""

from pydantic import Field

from service.api.pipelines.parameters import TEXTS, Refused
from service.explanations.entities import Entity
from service.options.predictions import TextOptions
from service.options.tags import Strategy, TagOptions

NOT_IN_PARTS: Refused = {
    **TEXTS,
    "stride": ((0,), "a text that is too long is refused, or cut off with truncate"),
}


class TokenClassificationParameters(TextOptions):
    """Parameters of token-classification."""

    aggregation_strategy: Strategy = Field("simple", description="as `aggregate` of tag")
    ignore_labels: list[str] = Field(["O"], max_length=256, description="labels that are no entity")

    def for_entities(self) -> TagOptions:
        """Return the options of tag."""
        return TagOptions(
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
