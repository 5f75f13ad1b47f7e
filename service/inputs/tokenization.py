"""Tokenization: a text to tokens with their spans, and tokens back to text."""

import os
from collections.abc import Collection, Sequence

from tokenizers import Encoding, Tokenizer
from tokenizers.decoders import DecodeStream

from contract.artifact import Artifact, ArtifactError
from contract.part import FileName
from service.errors import TooLarge, Unacceptable
from service.inputs.model_input import Pair, Prompted, Text, Token, Windows, strings_of

CHARACTERS_PER_TOKEN = 32
"""The first part of a text that is tokenized has this many characters for each token that the model may take."""
MOST_CHARACTERS = 1 << 17
"""Characters of a text that are tokenized at most, in ever larger parts, until the model's tokens are full.

A model that takes more than MOST_CHARACTERS / CHARACTERS_PER_TOKEN tokens has more.
"""
USUAL_STRIDE = 128
MOST_WINDOWS = 256
"""Of one text."""
GROWTH = 4
"""How many times as long each part is as the one before."""
AVERAGE_DECAY = 0.95
"""Each text multiplies the weight of earlier texts by this, in the average number of characters per token."""


os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # texts are tokenized one by one, beside the device's threads


def _encoded(tokenizer: Tokenizer, texts: Sequence[str], *, special: bool = True) -> Encoding:
    """Return the tokens of a text, or of a pair. Other threads go on meanwhile.

    `Tokenizer.encode` would hold the interpreter, which a regular expression can do for seconds.
    """
    return tokenizer.encode_batch([texts[0] if len(texts) == 1 else tuple(texts)], add_special_tokens=special)[0]


class TextTokenizer:
    """The tokenizer of an artifact, with a limit of tokens for each text."""

    def __init__(self, artifact: Artifact, file: FileName, limit: int) -> None:
        path = artifact.path(file)
        content = artifact.to_load(file)
        try:
            self._tokenizer, self._truncating_tokenizer = (Tokenizer.from_file(str(content)) for _ in range(2))
            self._truncating_tokenizer.enable_truncation(limit)
        except Exception as error:  # the library raises plain Exceptions
            raise ArtifactError(path, f"is no tokenizer: {error}") from error
        self._plain: Tokenizer | None = None
        """One that knows no special tokens, made where it is first needed."""
        self._limit = limit
        self._texts: dict[int, str] = {}
        """The text of each token that has occurred, by index."""
        self._tokens = self._characters = 0.0
        """Decaying sums over the texts so far, for the average number of characters per token."""
        added = self._tokenizer.get_added_tokens_decoder()
        self._special = {index for index, token in added.items() if token.special}

    def encode(self, text: Text, *, prompt: str = "", truncate: bool = False, any_length: bool = False) -> list[Token]:
        """Return the tokens of a text or a pair. With `truncate`, the end of a text that is too long is cut off.

        Before the first text stands a prompt, by default the given one, whose tokens have no span: as special ones,
        they are of nothing that was sent.
        Of a pair that says the `most` tokens of one of its texts, only that is cut off.

        Raises Unacceptable for no token and, unless `any_length`, for more than the model takes; TooLarge where a part
        of a text has more already, and where its first tokens are not found within MOST_CHARACTERS.
        """
        prompt = text.prompt if isinstance(text, Prompted) else prompt
        first, *more = strings_of(text)
        texts = self.begun([prompt + first, *more], len(prompt), truncate=truncate)
        most = text.most if truncate and isinstance(text, Pair) else None
        cuts_any = truncate and most is None
        encoding = _encoded(self._truncating_tokenizer if cuts_any else self._tokenizer, texts)
        check_count(len(encoding.ids), None if any_length or most is not None else self._limit)
        if not encoding.overflowing:  # of a text that was cut off, nobody knows how many characters the tokens are
            self._tokens = AVERAGE_DECAY * self._tokens + encoding.special_tokens_mask.count(0)
            self._characters = AVERAGE_DECAY * self._characters + sum(map(len, texts))
        tokens = self._tokens_of(encoding, len(prompt), paired=len(texts) > 1)
        if prompt and first and cuts_any and not any(token.span for token in tokens):
            raise Unacceptable(f"prompt: must leave room for a text in {self._limit} tokens")
        return tokens if most is None else without_end(tokens, most, text.cut, self._limit)  # type: ignore[union-attr] # a pair

    def written(self, text: str, *, plain: bool = False) -> list[Token]:
        """Return the tokens of a text that holds its special ones itself; in a `plain` text, these are text too.

        How long it is, and how many there are, is not checked.
        """
        tokenizer = self._tokenizer
        if plain:
            tokenizer = self._plain = self._plain or _without_specials(tokenizer)
        encoding = _encoded(tokenizer, [text], special=False)
        self._tokens = AVERAGE_DECAY * self._tokens + len(encoding.ids)
        self._characters = AVERAGE_DECAY * self._characters + len(text)
        return self._tokens_of(encoding, 0, paired=False)

    def windows(self, text: Text, windows: Windows, *, prompt: str = "") -> list[list[Token]]:
        """Return the tokens of a text in windows, each with all that stands around them; of a pair, of its second text.

        The tokens are those that `encode` returns of the whole, and spans lie in the whole text. Each window but the
        last is full, and begins with the last `stride` tokens of the one before: as `transformers` cuts a text that is
        too long (`return_overflowing_tokens`). A text that fits has one window.

        Raises Unacceptable for no token, for what leaves no room for a window, and for a stride that leaves nothing
        new; TooLarge for more than MOST_CHARACTERS or MOST_WINDOWS.
        """
        first, *more = strings_of(text)
        check_characters([prompt, first, *more])
        encoding = _encoded(self._tokenizer, [prompt + first, *more])
        tokens = self._tokens_of(encoding, len(prompt), paired=bool(more))
        return in_windows(tokens, windows, self._limit, paired=bool(more))

    def _tokens_of(self, encoding: Encoding, prompt: int, *, paired: bool) -> list[Token]:
        """Return the tokens of a text behind a prompt of `prompt` characters, or of a pair."""
        return [
            Token(
                index,
                self.text_of(index, piece),
                None if special else _span_behind(0 if sequence else prompt, start, stop),
                type_,
                sequence if paired else None,
                word,
            )
            for index, piece, (start, stop), special, type_, sequence, word in zip(
                encoding.ids,
                encoding.tokens,
                encoding.offsets,
                encoding.special_tokens_mask,
                encoding.type_ids,
                encoding.sequence_ids,
                encoding.word_ids,
                strict=True,
            )
        ]

    def begun(self, texts: Sequence[str], prompt: int = 0, *, truncate: bool = False) -> list[str]:
        """Return texts as far as they are tokenized: all of them, or where they may be cut off what begins each.

        The first holds a prompt of `prompt` characters. Raises TooLarge as `encode` does.
        """
        parts = [_first_part(self._tokenizer, one, self._limit) for one in texts]
        if parts != list(texts) and not truncate:
            given = sum(map(len, texts)) - prompt
            raise TooLarge(f"input: at most {self._limit} tokens, given {given} characters")
        return parts

    def holds(self, index: int) -> bool:
        """Return whether there is a token of this index."""
        return index >= 0 and self._tokenizer.id_to_token(index) is not None

    def is_special(self, index: int) -> bool:
        """Return whether a token is special, such as a mask or the end of a text."""
        return index in self._special

    def single(self, text: str) -> int | None:
        """Return the token that a text is, or the entry of the vocabulary of that name; None if there is none."""
        if len(text) > CHARACTERS_PER_TOKEN:
            return None
        entry: int | None = self._tokenizer.token_to_id(text)
        try:
            ids: list[int] = _encoded(self._tokenizer, [text], special=False).ids
        except BaseException as error:  # a panic of the library is no Exception
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            return entry
        return ids[0] if len(ids) == 1 and not self.is_unknown(ids[0]) else entry

    def tokens_of(self, text: str) -> list[int]:
        """Return the tokens of a text, without special ones."""
        found: list[int] = _encoded(self._tokenizer, [text], special=False).ids
        return found

    def spellings(self, word: str) -> set[tuple[int, ...]]:
        """Return the tokens of a word, alone and behind a space; none where the vocabulary cannot write it."""
        found = {tuple(_encoded(self._tokenizer, [text], special=False).ids) for text in (word, f" {word.lstrip()}")}
        return {tokens for tokens in found if tokens and not any(map(self.is_unknown, tokens))}

    def joined(self, pieces: Sequence[str]) -> str:
        """Return the text of entries of the vocabulary that follow each other."""
        text: str = self._tokenizer.decoder.decode(list(pieces)) if self._tokenizer.decoder else " ".join(pieces)
        return text

    @property
    def marks_words(self) -> bool:
        """True if the entries of the vocabulary that go on with a word begin with a prefix, as those of WordPiece."""
        return bool(getattr(self._tokenizer.model, "continuing_subword_prefix", None))

    def is_unknown(self, index: int) -> bool:
        """Return whether a token stands for what the vocabulary cannot write."""
        unknown = getattr(self._tokenizer.model, "unk_token", None)  # a Unigram model does not name its own
        return self.piece(index) in (unknown, "<unk>")

    def estimated_tokens(self, text: Text, *, prompt: str = "", any_length: bool = False) -> int:
        """Return how many tokens a text behind a prompt probably has, without special ones, judging by texts so far.

        Unless `any_length`, it has no more than the model takes.
        """
        prompt = text.prompt if isinstance(text, Prompted) else prompt
        characters = sum(map(len, strings_of(text)))
        likely = int((len(prompt) + characters) * self._tokens / self._characters) if self._characters else 0
        return likely if any_length else min(likely, self._limit)

    def text_of(self, index: int, piece: str = "") -> str:
        """Return the text of one token, special ones included; for a token without a text, a piece of it."""
        if index not in self._texts:
            decoded = self._tokenizer.decode([index], skip_special_tokens=False)
            self._texts[index] = decoded or piece or self.piece(index)
        return self._texts[index]

    def decode(self, indices: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        text: str = self._tokenizer.decode(list(indices), skip_special_tokens=True)
        return text

    def generated(self, indices: Sequence[int], ends: Collection[int], behind: int = 0) -> list[Token]:
        """Return generated tokens with their spans in the generated text; special tokens and `ends` have none.

        If they continue a prompt, `behind` is its length in characters, and the spans count from its start. Characters
        whose last bytes never came are those of the last token, if it has a span.
        """
        text_stream, start = TextStream(self._tokenizer), behind
        tokens: list[Token] = []
        for index in indices:
            if index in ends or self.is_special(index):
                tokens.append(Token(index, self.piece(index), None))
                continue
            text = text_stream.add(index)
            tokens.append(Token(index, text, (start, start + len(text))))
            start += len(text)
        if tokens and (span := tokens[-1].span):
            rest = rest_of(self.decode(indices), "".join(token.text for token in tokens if token.span))
            tokens[-1] = Token(tokens[-1].index, tokens[-1].text + rest, (span[0], span[1] + len(rest)))
        return tokens

    def text_stream(self) -> "TextStream":
        """Return a new TextStream of this tokenizer."""
        return TextStream(self._tokenizer)

    def piece(self, index: int) -> str:
        """Return the entry of the vocabulary for a token; "" if it has none."""
        return self._tokenizer.id_to_token(index) or ""


def _first_part(tokenizer: Tokenizer, text: str, limit: int) -> str:
    """Return the beginning of a text that has more tokens than a limit, or all of it.

    A tokenizer may drop or join any number of characters, so that only tokens say how much of a text is enough.
    """
    most = max(MOST_CHARACTERS, limit * CHARACTERS_PER_TOKEN)
    size = limit * CHARACTERS_PER_TOKEN
    while size < len(text):
        part = text[:size]
        if len(_encoded(tokenizer, [part], special=False).ids) > limit:
            return part
        if size == most:
            raise TooLarge(f"input: must have its first {limit} tokens in at most {most} characters, given {len(text)}")
        size = min(size * GROWTH, most)
    return text


def in_windows(tokens: list[Token], windows: Windows, most: int, *, paired: bool) -> list[list[Token]]:
    """Return tokens in windows of at most `most`, as `TextTokenizer.windows` does."""
    if not tokens:
        raise Unacceptable("input: must hold at least one token, given none")
    own = [place for place, one in enumerate(tokens) if one.span and one.sequence == (1 if paired else None)]
    begin, end = (own[0], own[-1] + 1) if own else (len(tokens), len(tokens))
    others, limit = len(tokens) - (end - begin), min(windows.most or most, most)
    room = limit - others
    stride = min(USUAL_STRIDE, room // 2) if windows.stride is None else windows.stride
    step = room - stride
    if len(tokens) <= limit:
        return [tokens]
    if room < 1:
        subject = "the first text must leave room for the second" if paired else "must leave room for a text"
        raise Unacceptable(f"input: {subject} in {limit} tokens, takes {others}")
    if step < 1:
        raise Unacceptable(f"stride: must be less than the {room} tokens of a window, given {stride}")
    if (count := (len(tokens) - limit + step - 1) // step + 1) > MOST_WINDOWS:
        raise TooLarge(f"input: at most {MOST_WINDOWS} windows, given {count}; a smaller stride has fewer")
    starts = range(begin, begin + count * step, step)
    return [[*tokens[:begin], *tokens[start : min(start + room, end)], *tokens[end:]] for start in starts]


def without_end(tokens: list[Token], most: int, cut: int, limit: int) -> list[Token]:
    """Return the tokens of a pair with at most `most` of its text `cut`, or fewer if the model takes no more.

    Raises Unacceptable if the other text leaves none.
    """
    places = [place for place, token in enumerate(tokens) if token.sequence == cut]
    others = len(tokens) - len(places)
    room = min(most, limit - others)
    if room < bool(places):
        subject = "query" if cut else "labels"
        raise Unacceptable(f"{subject}: must leave room for a text in {limit} tokens, takes {others}")
    dropped = set(places[room:])
    return [token for place, token in enumerate(tokens) if place not in dropped]


def _without_specials(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer that reads special tokens as text."""
    plain = Tokenizer.from_str(tokenizer.to_str())
    plain.encode_special_tokens = True
    return plain


def check_characters(texts: Sequence[str]) -> None:
    """Raise TooLarge for more characters than are read in windows."""
    if (given := sum(map(len, texts))) > MOST_CHARACTERS:
        raise TooLarge(f"input: at most {MOST_CHARACTERS} characters are read in windows, given {given}")


def check_count(count: int, limit: int | None) -> None:
    """Raise Unacceptable for more tokens than a limit, if there is one, and for none."""
    if not count:
        raise Unacceptable("input: must hold at least one token, given none")
    if limit is not None and count > limit:
        raise Unacceptable(f"input: at most {limit} tokens, given {count}")


def _span_behind(prompt: int, start: int, stop: int) -> tuple[int, int] | None:
    """Return the span in a text behind a prompt of a span in both; None if it is all in the prompt."""
    return (max(start - prompt, 0), stop - prompt) if stop > prompt or not prompt else None


def rest_of(whole: str, shown: str) -> str:
    """Return what a text has behind what was shown of it: characters whose last bytes never came.

    Nothing if what was shown is not its beginning, since bytes that followed changed it.
    """
    return whole[len(shown) :] if whole.startswith(shown) else ""


class TextStream:
    """Decodes tokens to text one by one. A token that ends inside a character adds nothing yet."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)

    def add(self, index: int) -> str:
        """Return the text that a token adds."""
        try:
            return self._stream.step(self._tokenizer, index) or ""
        except Exception:  # a bare one: bytes that were shown already turned out to be a part of no character
            self._stream = DecodeStream(skip_special_tokens=True)
            return self._stream.step(self._tokenizer, index) or ""
