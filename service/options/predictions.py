"""The options of predictions."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from service.errors import Unacceptable
from service.options.base import SHARED, Number, Overlap, RequestOptions

CANDIDATE_BYTES = 80  # of an answer, for each candidate or alternative with its text


class ClassifyOptions(RequestOptions):
    """Options of `classify`."""

    top_k: int = Field(5, ge=1, le=1000, description="labels a result, best first")
    logits: bool = Field(False, description="also the logit of each label")


Threshold = Annotated[
    Number | None,
    Field(ge=0, le=1, description="probability from which an object counts as found; the model's by default"),
]


class DetectOptions(RequestOptions):
    """Options of `detect`, and of attention to what is detected."""

    threshold: Threshold = None
    top_k: int = Field(100, ge=1, le=1000, description="objects an image, surest first")


class TextOptions(RequestOptions):
    """Options of any prediction of a text."""

    truncate: bool = Field(
        False, description="cut off the end of a text that is too long, rather than refuse it", json_schema_extra=SHARED
    )


class CutOptions(RequestOptions):
    """Options of what is made of the first numbers of vectors."""

    dimensions: int | None = Field(
        None, ge=1, description="of a vector: the first ones alone, by default all", json_schema_extra=SHARED
    )


class EmbedOptions(CutOptions):
    """Options of `embed`."""

    normalize: bool | None = Field(
        None,
        description="divide each vector by its length, in the end; by default where dimensions are given",
        json_schema_extra=SHARED,
    )


class PromptedOptions(TextOptions):
    """Options of texts that may stand behind a prompt."""

    prompt_name: str | None = Field(
        None, description="which of the model's prompts is put before every text", json_schema_extra=SHARED
    )
    prompt: str | None = Field(
        None, description="what is put before every text, in place of the model's prompt", json_schema_extra=SHARED
    )


class PromptOptions(CutOptions, PromptedOptions):
    """Options of all that is made of the embeddings of texts."""


class SparseOptions(PromptedOptions):
    """Options of `embed-sparse`."""

    top_k: int | None = Field(None, ge=1, description="words a text, heaviest first; all by default")


class EmbedTextOptions(EmbedOptions, PromptOptions):
    """Options of `embed` for a text."""


class StoredTextOptions(CutOptions, TextOptions):
    """Options of a stored request for a text."""

    overlap: Overlap | None = None

    @property
    def windows(self) -> Overlap | None:
        """The same windows."""
        return self.overlap


Stride = Annotated[
    int | None,
    Field(
        ge=0,
        le=100_000,
        description="tokens that a window shares with the one before; 128, or half of a smaller one, by default",
        json_schema_extra=SHARED,
    ),
]


class WindowOptions(TextOptions):
    """Options of a prediction that can be made of a text's windows."""

    overflow: Literal["window"] | None = Field(
        None,
        description="window: read a text that is too long in overlapping windows",
        json_schema_extra=SHARED,
    )
    stride: Stride = None

    @property
    def windows(self) -> Overlap | None:
        """The windows that are asked for. Raises Unacceptable where texts are to be cut off too."""
        if self.overflow and self.truncate:
            raise Unacceptable("overflow: texts are read in windows, or cut off by truncate, given both")
        if "stride" in self.model_fields_set and not self.overflow:
            raise Unacceptable("stride: is of windows; ask for overflow=window too")
        return (self.stride, None) if self.overflow else None


class RerankOptions(WindowOptions):
    """Options of `rerank`. Where a text is cut off, the query is not; of windows, the best one counts."""

    top_k: int | None = Field(None, ge=1, le=1000, description="texts that are answered, best first; all by default")
    return_texts: bool = Field(False, description="also the text of each")
    raw_scores: bool = Field(False, description="the logits, rather than scores as the model was trained for")


class ClassifyTextOptions(ClassifyOptions, TextOptions):
    """Options of `classify` for a text."""


TEMPLATE = "This example is {}."
MOST_LABELS = 256


def _with_one_place(template: str) -> str:
    if (count := template.count("{}")) != 1:
        raise PydanticCustomError(
            "template", "must hold {place} once, given it {count} times", {"place": "{}", "count": count}
        )
    return template


def _different(labels: list[str]) -> list[str]:
    if len(set(labels)) < len(labels):
        raise PydanticCustomError("labels", "each may be given once, given one twice")
    return labels


Template = Annotated[str, AfterValidator(_with_one_place)]
"""The sentence of a label, which stands for {}."""
NamedLabels = Annotated[list[str], Field(min_length=1, max_length=MOST_LABELS), AfterValidator(_different)]


PICTURE_TEMPLATE = "This is a photo of {}."
"""That of the reference library's pipeline for pictures."""


def listed_labels(labels: object) -> object:
    """Return labels as a list; in a string they stand between commas."""
    return [label for one in labels.split(",") if (label := one.strip())] if isinstance(labels, str) else labels


class ContrastOptions(ClassifyOptions):
    """Options of `classify` for pictures that are compared with labels."""

    labels: Annotated[NamedLabels | None, BeforeValidator(listed_labels, json_schema_input_type=str | list[str])] = (
        Field(None, description="to choose from; all are answered, or `top_k`. In a query, with commas between")
    )
    template: Template = Field(PICTURE_TEMPLATE, description="the sentence of a label, which stands for {}")


class ZeroShotOptions(ClassifyTextOptions):
    """Options of `classify` for a text, which may have labels of its own."""

    labels: NamedLabels | None = Field(
        None, description="zero-shot: labels to choose from, all of which are answered; of models of entailment"
    )
    template: Template = Field(TEMPLATE, description="the sentence of a label, which stands for {}")
    multi_label: bool = Field(
        False, description="each label for itself, rather than one of them", json_schema_extra=SHARED
    )
