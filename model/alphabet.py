"""Characters as tokens: the vocabulary of `dates`, and of the models of its lines."""

PAD, START, END, UNKNOWN = range(4)
SPECIALS = ("[PAD]", "[START]", "[END]", "[UNK]")
ALPHABET = " !\"#$%&'()*+,-./0123456789:;<=>?@[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~–’"  # noqa: RUF001 # the dash and the apostrophe that word processors write
VOCABULARY = {token: index for index, token in enumerate((*SPECIALS, *ALPHABET))}
MASK = len(VOCABULARY)
"""Stands for a character that is to be found; behind all others, whose indices are the same without it."""
MASK_TOKEN = "[MASK]"  # noqa: S105 # no password


def encode(text: str) -> list[int]:
    """Return the indices of a text's characters, lower-cased; the exported tokenizer gives the same."""
    return [VOCABULARY.get(character, UNKNOWN) for character in text.lower()]
