"""Vocabularies of the bundled models: characters of `dates` and its siblings, words of `captions` and of
`scenes-clip`, types of nodes and edges of `graphs`.

The exported tokenizers and rules give the same indices.
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


# Types of nodes and of edges.

PLAIN = 0
"""The type of a node that says nothing."""

NODE_COLOURS = ("red", "blue", "green", "yellow")
"""The classes of a coloured graph, which are types of its nodes too."""
COLOURED_NODES = ("plain", "marked", *NODE_COLOURS)

LINKED_NODES = ("plain", "start", "end")
RELATIONS = ("knows", "likes", "owns", "sells")
LINKING_PATHS = ((0, 1), (1, 2), (2, 3), (3, 0))
"""The relations of two edges, one after the other, that link the start to the end: by the class of the graph."""
