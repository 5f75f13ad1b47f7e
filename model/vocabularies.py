"""Vocabularies of the bundled models: characters of `dates` and its siblings, words of `captions` and of
`scenes-clip`.

The exported tokenizers give the same indices.
"""

PAD, START, END, UNKNOWN = range(4)
"""The indices with which all vocabularies begin; that of words has no UNKNOWN."""

# Characters.

SPECIALS = ("[PAD]", "[START]", "[END]", "[UNK]")
ALPHABET = " !\"#$%&'()*+,-./0123456789:;<=>?@[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~–’"  # noqa: RUF001 # the dash and the apostrophe that word processors write
VOCABULARY = {token: index for index, token in enumerate((*SPECIALS, *ALPHABET))}
MASK = len(VOCABULARY)
"""Index of the mask of a masked model. It is the last, so that all others are the same without it."""
MASK_TOKEN = "[MASK]"  # noqa: S105 # no password


def encode(text: str) -> list[int]:
    """Return the indices of a text's characters, lower-cased."""
    return [VOCABULARY.get(character, UNKNOWN) for character in text.lower()]


DATE_TAGS = ("O", "WEEKDAY", "DAY", "MONTH", "YEAR")
"""The labels of characters of a text with dates: the part that each is in, or O. No two of one sort adjoin."""


# Words.

WORD_SPECIALS = ("[PAD]", "[START]", "[END]")
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def encode_words(digits: tuple[int, ...]) -> list[int]:
    """Return the indices of digits' words, between START and END."""
    return [START, *(len(WORD_SPECIALS) + digit for digit in digits), END]


# Words of labels.

COLOURS = ("red", "green", "blue", "yellow", "purple", "white")
LABEL_WORDS = ("a", "and", "digit", *COLOURS, *WORDS)
"""The words of labels such as "a red seven and a blue digit"; SPECIALS come before them."""


def encode_label(text: str) -> list[int]:
    """Return the indices of the words of a lower-case text, between START and END."""
    known = {token: index for index, token in enumerate((*SPECIALS, *LABEL_WORDS))}
    return [START, *(known.get(word, UNKNOWN) for word in text.split()), END]
