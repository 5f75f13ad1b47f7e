"""What each class of a frame writes, of a model of speech that knows characters: the tokenizer of wav2vec 2.0."""

from typing import Any

from contract.manifest import BLANK
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.tokenizers.vocabulary_files import (
    ADDED_FILE,
    PAIRS,
    SETTINGS_FILE,
    special_tokens,
)
from export.errors import TokenizerError

CHARACTERS = ("Wav2Vec2CTCTokenizer", "Wav2Vec2Tokenizer")
"""The classes of tokenizers that write a character for each class."""
DELIMITER, SPACE = "|", " "
PAD, UNKNOWN = "<pad>", "<unk>"


def read_characters(checkpoint: Checkpoint, vocabulary: int) -> tuple[str, ...]:
    """Return what each of `vocabulary` classes writes: nothing of the blank, a space of what stands between words.

    Raises TokenizerError for a tokenizer of other classes, or without a blank among these.
    """
    settings = checkpoint.json(SETTINGS_FILE)
    kind = settings.get("tokenizer_class") or CHARACTERS[0]
    if kind not in CHARACTERS:
        raise TokenizerError(f"{SETTINGS_FILE}: tokenizer_class must be {CHARACTERS[0]}, given {str(kind)[:64]!r}")
    space = settings.get("replace_word_delimiter_char", SPACE)
    if space != SPACE:
        raise TokenizerError(f"{SETTINGS_FILE}: replace_word_delimiter_char must be a space, given {str(space)[:64]!r}")
    specials = special_tokens(checkpoint, {"pad_token": PAD, "unk_token": UNKNOWN}, spaced_mask=False)
    blank, unknown = (specials[role].content for role in ("pad_token", "unk_token"))
    found = dict.fromkeys(range(vocabulary), unknown)
    for token, index in {**_added(settings), **checkpoint.json(ADDED_FILE), **checkpoint.json(PAIRS)}.items():
        if not isinstance(index, int) or not 0 <= index < vocabulary:
            raise TokenizerError(
                f"{PAIRS}: each token must have an index from 0 to {vocabulary - 1}, given {str(index)[:64]}"
            )
        found[index] = token
    if list(found.values()).count(blank) != 1 or BLANK in found.values():
        raise TokenizerError(f"{PAIRS}: must hold the padding token once, which is the blank, and no empty one")
    lowered = {index: token.lower() for index, token in found.items()} if settings.get("do_lower_case") else found
    written = {blank: BLANK, settings.get("word_delimiter_token") or DELIMITER: SPACE}
    return tuple(written.get(token, lowered[index]) for index, token in found.items())


def _added(settings: dict[str, Any]) -> dict[str, int | str]:
    """Return the tokens that settings add, which a vocabulary may hold too."""
    listed = settings.get("added_tokens_decoder")
    places = listed.items() if isinstance(listed, dict) else ()
    return {
        str(token.get("content")): int(place) if place.isdecimal() else place
        for place, token in places
        if isinstance(token, dict)
    }
