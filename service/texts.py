"""Decode: a text to tokens with their places in it, and tokens back to text."""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from contract.artifact import Artifact, ArtifactError
from contract.manifest import TextRule
from service.errors import TooLarge, Unacceptable

CHARACTERS_A_TOKEN = 32
"""More characters than this for every token a model may take cannot fit, whatever they are: not even tokenized."""


@dataclass(frozen=True)
class Token:
    """One token: its piece of text and where it stands, None where it stands for no part of the text."""

    index: int
    text: str
    span: tuple[int, int] | None

    def json(self) -> dict[str, object]:
        """Return the token as an answer shows it."""
        return {"text": self.text, "span": self.span, "special": self.span is None}


class Texts:
    """The tokenizer of an artifact."""

    def __init__(self, artifact: Artifact, rule: TextRule) -> None:
        file = artifact.path(rule.tokenizer)
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises plain Exceptions
            raise ArtifactError(file, f"is no tokenizer: {error}") from error
        self._limit = rule.max_tokens

    def encode(self, text: str) -> list[Token]:
        """Return the tokens of a text. Raises TooLarge or Unacceptable where there are too many, or none."""
        if len(text) > self._limit * CHARACTERS_A_TOKEN:
            raise TooLarge(f"input: at most {self._limit} tokens, given {len(text)} characters")
        encoding = self._tokenizer.encode(text)
        if not encoding.ids:
            raise Unacceptable("input: must hold at least one token, given none")
        if len(encoding.ids) > self._limit:
            raise Unacceptable(f"input: at most {self._limit} tokens, given {len(encoding.ids)}")
        return [
            Token(index, piece, None if special else (start, stop))
            for index, piece, (start, stop), special in zip(
                encoding.ids, encoding.tokens, encoding.offsets, encoding.special_tokens_mask, strict=True
            )
        ]

    def decode(self, indices: Sequence[int]) -> str:
        """Return the text of tokens."""
        text: str = self._tokenizer.decode(list(indices), skip_special_tokens=True)
        return text

    def generated(self, indices: Sequence[int], end: int) -> list[Token]:
        """Return generated tokens with their places in the text that they make; the end token has none."""
        tokens: list[Token] = []
        before = ""
        for count, index in enumerate(indices, start=1):
            if index == end:
                tokens.append(Token(index, self._tokenizer.id_to_token(index) or "", None))
                continue
            text = self.decode(indices[:count])
            tokens.append(Token(index, text[len(before) :], (len(before), len(text))))
            before = text
        return tokens

    def piece(self, index: int) -> str:
        """Return the vocabulary's name of a token."""
        return self._tokenizer.id_to_token(index) or ""
