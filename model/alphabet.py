"""Characters as tokens: the vocabulary of `dates`."""

PAD, START, END, UNKNOWN = range(4)
SPECIALS = ("[PAD]", "[START]", "[END]", "[UNK]")
ALPHABET = " !\"#$%&'()*+,-./0123456789:;<=>?@[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~–’"  # noqa: RUF001 # the dash and the apostrophe that word processors write
VOCABULARY = {token: index for index, token in enumerate((*SPECIALS, *ALPHABET))}


def encode(text: str) -> list[int]:
    """Return the indices of a text's characters, lower-cased; the exported tokenizer gives the same."""
    return [VOCABULARY.get(character, UNKNOWN) for character in text.lower()]
