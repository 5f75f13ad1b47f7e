"""Words as tokens: the vocabulary of `captions`."""

PAD, START, END = range(3)
SPECIALS = ("[PAD]", "[START]", "[END]")
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MEAN, STD = 0.07, 0.2
"""Of the pixels in [0, 1]."""


def encode(digits: tuple[int, ...]) -> list[int]:
    """Return the tokens of digits' words, from the start to the end."""
    return [START, *(len(SPECIALS) + digit for digit in digits), END]
