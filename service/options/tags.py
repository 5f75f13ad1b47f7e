"""The options of `tag`."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from service.errors import TooLarge
from service.options.base import SHARED, RequestOptions
from service.options.predictions import MOST_LABELS, StoredTextOptions, TextOptions, WindowOptions

Strategy: TypeAlias = Literal["none", "simple", "first", "average", "max"]
ENTITY_BYTES = 160  # of an answer, for each token that may be an entity


def read_labels() -> PlainValidator:
    """Accept a list of labels, or a string of some with commas between, as a query has it."""

    def parse(value: object) -> tuple[str, ...]:
        labels: Any = [part for part in value.split(",") if part] if isinstance(value, str) else value
        if (
            isinstance(labels, list | tuple)
            and len(labels) <= MOST_LABELS
            and all(isinstance(one, str) for one in labels)
        ):
            return tuple(labels)
        raise PydanticCustomError("labels", "must be at most {most} labels", {"most": MOST_LABELS})

    return PlainValidator(parse, json_schema_input_type=list[str])


class EntityOptions(RequestOptions):
    """Which entities are found in a text."""

    aggregate: Strategy = Field(
        "simple",
        description="how tokens become entities: none, each is one; simple, by B- and I-; first, average, max: of "
        "words, by their first token, the mean, or the surest token",
        json_schema_extra=SHARED,
    )
    ignore: Annotated[tuple[str, ...], read_labels()] = Field(
        ("O",), description="labels that are none (default: O)", json_schema_extra=SHARED
    )


class EntityTextOptions(EntityOptions, TextOptions):
    """Options of the entities of texts that are not cut into windows."""

    def check_answer(self, lengths: Sequence[Mapping[str, int]], limit: int) -> None:
        """Raise TooLarge if the entities of all texts may exceed a limit in bytes."""
        size = sum(one["source"] for one in lengths) * ENTITY_BYTES
        if size > limit:
            raise TooLarge(f"entities: at most {limit} bytes an answer, this one may have {size}; send fewer texts")


class TagOptions(EntityTextOptions, WindowOptions):
    """Options of `tag`, and of attention to what is tagged."""


class StoredTagOptions(EntityTextOptions, StoredTextOptions):
    """Options of attention to a stored request for entities."""
