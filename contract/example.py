"""Inputs to try a model on, which its artifact holds."""

from typing import Annotated

from pydantic import Field, model_validator

from contract.part import Part

FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,122}\.(png|jpg|webp|wav)$"

MEDIA_TYPES = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp", "wav": "audio/wav"}
"""The ending of an example's file, which the export gives it by its content -> its media type."""

MAX_EXAMPLE_CHARACTERS = 2000

MAX_FILE_BYTES = 256 << 10
"""The service holds the examples' files in memory."""

ExampleText = Annotated[str, Field(min_length=1, max_length=MAX_EXAMPLE_CHARACTERS)]

MOST_EXAMPLE_LABELS = 16

ExampleFile = Annotated[str, Field(pattern=FILE_NAME)]


class Example(Part):
    """An input to try a model on: a text, perhaps with a second one, or a picture or sound in the artifact's folder."""

    text: ExampleText | None = None
    text_pair: ExampleText | None = Field(None, description="of feature-extraction, a text to compare with the first")
    image: ExampleFile | None = None
    sound: ExampleFile | None = None
    labels: Annotated[tuple[ExampleText, ...], Field(max_length=MOST_EXAMPLE_LABELS)] | None = Field(
        None, description="labels to choose among for the picture, of a model that is compared with one of texts"
    )

    @model_validator(mode="after")
    def _one_input(self) -> "Example":
        if sum(one is not None for one in (self.text, self.image, self.sound)) != 1:
            raise ValueError("exactly one of text, image and sound must be given")
        if self.text is None and self.text_pair is not None:
            raise ValueError("text_pair needs text")
        if self.image is None and self.labels is not None:
            raise ValueError("labels need an image")
        if self.file and (self.media_type or "").startswith("audio/") != (self.sound is not None):
            raise ValueError("a sound must be a WAV file, and an image a picture")
        return self

    @property
    def file(self) -> str | None:
        """The file that it is; None of texts."""
        return self.image or self.sound

    @property
    def media_type(self) -> str | None:
        """The media type of the file; None of texts."""
        return MEDIA_TYPES[self.file.rpartition(".")[2]] if self.file else None
