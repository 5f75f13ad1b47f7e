"""The base of the families that translate among several languages: mBART and M2M-100."""

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeVar

from tokenizers import Tokenizer, processors

from contract.generation import Generation, Languages
from export.checkpoints.building.sequence_family import SequenceConfig, SequenceFamily
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.tokenizers.classes import declared_class
from export.checkpoints.reading.tokenizers.tokenizer import TOKENIZER_FILE, read_tokenizer
from export.checkpoints.reading.tokenizers.vocabulary_files import SETTINGS_FILE
from export.errors import CheckpointError
from model.architectures.transformer import TransformerConfig

END = "</s>"


C = TypeVar("C", bound=SequenceConfig)


@dataclass(frozen=True)
class MultilingualFamily(SequenceFamily[C]):
    """A family whose tokenizer marks the language of a text by a token."""

    language: str = ""
    """The pattern of the tokens of languages; one of its groups is the code."""
    default_languages: tuple[str, ...] = ()
    """The code that a tokenizer marks if its settings name none: the first of these that it has."""
    classes: tuple[str, ...] = ()
    """The reference library's classes of tokenizers that make their template of special tokens anew."""

    @abstractmethod
    def marks_begin(self, checkpoint: Checkpoint) -> bool:
        """Return whether the token of a language stands before a text, or behind its end token."""

    def tokenizer(self, checkpoint: Checkpoint, sizes: TransformerConfig) -> Tokenizer:
        """Return the checkpoint's tokenizer, whatever template of special tokens it has."""
        return read_tokenizer(checkpoint, sizes.vocabulary)

    def tokenizers(self, checkpoint: Checkpoint, sizes: TransformerConfig) -> tuple[str, str | None]:
        """Return the tokenizer of both sides, with the template of special tokens that the reference library gives it.

        Its own classes make the template anew when they load a tokenizer, whatever the file says.
        """
        tokenizer = self.tokenizer(checkpoint, sizes)
        if declared_class(checkpoint) in ("", *self.classes):
            languages = self._languages(tokenizer)
            wanted = (checkpoint.json(SETTINGS_FILE).get("src_lang"), *self.default_languages)
            code = next((one for one in wanted if isinstance(one, str) and one in languages), None)
            if code is None or tokenizer.token_to_id(END) is None:
                needed = f"{END} and the token of a language, such as {self.default_languages[0]}"
                raise CheckpointError(f"{TOKENIZER_FILE}: must hold {needed}")
            mark = str(tokenizer.id_to_token(languages[code]))
            tokenizer.post_processor = processors.TemplateProcessing(
                single=f"{mark} $A {END}" if self.marks_begin(checkpoint) else f"$A {END} {mark}",
                special_tokens=[(token, tokenizer.token_to_id(token)) for token in (mark, END)],
            )
        return tokenizer.to_str(pretty=True), None

    def languages(self, checkpoint: Checkpoint, tokenizer: Tokenizer, rules: Generation) -> Languages | None:
        """Return the languages by the tokenizer's tokens, and the defaults by its template and the rules."""
        tokens = self._languages(tokenizer)
        if not tokens:
            return None
        codes: dict[int | None, str] = {token: code for code, token in tokens.items()}
        source = next((codes[token] for token in tokenizer.encode("a").ids if token in codes), None)
        first, start = codes.get(rules.forced_first), codes.get(rules.start)
        begins: Literal["start", "first"] = "start" if start and not first else "first"
        return Languages(tokens=tokens, source=source, target=first or start, begins=begins)

    def _languages(self, tokenizer: Tokenizer) -> dict[str, int]:
        """Return the languages' codes -> their tokens, in the order of the codes."""
        vocabulary = tokenizer.get_vocab(with_added_tokens=True)
        found = {re.fullmatch(self.language, piece): token for piece, token in vocabulary.items()}
        return dict(sorted((next(filter(None, match.groups())), token) for match, token in found.items() if match))
