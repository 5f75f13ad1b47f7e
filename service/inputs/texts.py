"""Decode: a text to tokens with their places in it, and tokens back to text."""

from collections.abc import Sequence

from tokenizers import Encoding, Tokenizer
from tokenizers.decoders import DecodeStream

from contract.artifact import Artifact, ArtifactError
from contract.manifest import FileName
from service.errors import TooLarge, Unacceptable
from service.inputs.model_input import Pair, Text, Token

CHARACTERS_A_TOKEN = 32
"""A text of more characters than this for every token a model may take is refused before it is tokenized."""
FADING = 0.95
"""What every text leaves of the weight of those before it."""


class Texts:
    """A tokenizer of an artifact, and the most tokens that a text may have."""

    def __init__(self, artifact: Artifact, file: FileName, limit: int) -> None:
        path = artifact.path(file)
        try:
            self._tokenizer, self._cutting = (Tokenizer.from_file(str(path)) for _ in range(2))
            self._cutting.enable_truncation(limit)
        except Exception as error:  # the library raises plain Exceptions
            raise ArtifactError(path, f"is no tokenizer: {error}") from error
        self._limit = limit
        self._reads: dict[int, str] = {}
        """What each token reads, of those that were seen."""
        self._tokens = self._characters = 0.0
        """Of the texts that were seen, those of long ago weighing little."""
        added = self._tokenizer.get_added_tokens_decoder()
        self._special = {index for index, token in added.items() if token.special}

    def encode(self, text: Text, *, truncate: bool = False) -> list[Token]:
        """Return the tokens of a text or a pair; the end of what is too long is cut off if `truncate`.

        Raises TooLarge or Unacceptable where there are too many, or none.
        """
        texts = [text.text, text.text_pair] if isinstance(text, Pair) else [text]
        if sum(map(len, texts)) > self._limit * CHARACTERS_A_TOKEN:
            if not truncate:
                raise TooLarge(f"input: at most {self._limit} tokens, given {sum(map(len, texts))} characters")
            texts = [one[: self._limit * CHARACTERS_A_TOKEN] for one in texts]
        encoding: Encoding = (self._cutting if truncate else self._tokenizer).encode(
            texts[0], texts[1] if len(texts) > 1 else None
        )
        if not encoding.ids:
            raise Unacceptable("input: must hold at least one token, given none")
        if len(encoding.ids) > self._limit:
            raise Unacceptable(f"input: at most {self._limit} tokens, given {len(encoding.ids)}")
        self._tokens = FADING * self._tokens + encoding.special_tokens_mask.count(0)
        self._characters = FADING * self._characters + sum(map(len, texts))
        return [
            Token(
                index,
                self._read(index, piece),
                None if special else (start, stop),
                type_,
                sequence if len(texts) > 1 else None,
            )
            for index, piece, (start, stop), special, type_, sequence in zip(
                encoding.ids,
                encoding.tokens,
                encoding.offsets,
                encoding.special_tokens_mask,
                encoding.type_ids,
                encoding.sequence_ids,
                strict=True,
            )
        ]

    def likely(self, text: str) -> int:
        """Return how many tokens a text probably has, but for special ones, by the texts that were seen."""
        return min(int(len(text) * self._tokens / self._characters), self._limit) if self._characters else 0

    def _read(self, index: int, piece: str) -> str:
        if index not in self._reads:
            self._reads[index] = self._tokenizer.decode([index], skip_special_tokens=False) or piece
        return self._reads[index]

    def decode(self, indices: Sequence[int]) -> str:
        """Return the text of tokens."""
        text: str = self._tokenizer.decode(list(indices), skip_special_tokens=True)
        return text

    def generated(self, indices: Sequence[int], end: int, behind: int = 0) -> list[Token]:
        """Return generated tokens with their places in the text that they make; the end and special ones have none.

        Places count from the end of a text of `behind` characters that they continue.
        """
        growing, place = Growing(self._tokenizer), behind
        tokens: list[Token] = []
        for index in indices:
            if index == end or index in self._special:
                tokens.append(Token(index, self.piece(index), None))
                continue
            text = growing.add(index)
            tokens.append(Token(index, text, (place, place + len(text))))
            place += len(text)
        return tokens

    def growing(self) -> "Growing":
        """Return what tells the text of tokens as they come."""
        return Growing(self._tokenizer)

    def piece(self, index: int) -> str:
        """Return the vocabulary's name of a token."""
        return self._tokenizer.id_to_token(index) or ""


class Growing:
    """Tells what each token adds to a text: nothing, while it is a part of a character."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)

    def add(self, index: int) -> str:
        """Return the text that a token adds."""
        return self._stream.step(self._tokenizer, index) or ""
