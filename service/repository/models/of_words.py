"""Models whose answers are of the words of their vocabulary: they know each by its number and its text."""

from contract.artifact import MANIFEST, Artifact, ArtifactError
from service.repository.models.predictor import Predictor
from service.settings import Settings


class OfWords(Predictor):
    """A model that answers a number for each word of the vocabulary of its texts."""

    of_vocabulary = True

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        if not self.inputs.tokenizer:
            raise ArtifactError(artifact.path(MANIFEST), f"a {self.manifest.task} model needs a text rule")
        self.tokenizer = self.inputs.tokenizer

    def class_entry(self, index: int) -> dict[str, object]:
        """Return what an answer says of a token: its number and text."""
        return {"token": index, "label": self.text_of(index)}

    def token_of(self, text: str) -> int | None:
        """Return the token that a text is, or None."""
        return self.tokenizer.single(text)

    def text_of(self, token: int) -> str:
        """Return the text of one token, of special ones too."""
        return self.tokenizer.text_of(token)
