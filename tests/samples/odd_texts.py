"""Texts in many scripts, and such as tokenizers find hard."""
# ruff: noqa: E501, RUF001 # the texts hold what people write

import random

ODD = (
    "the cat sat on the mat", "猫がマットの上に座っています。", "Съешь ещё этих мягких французских булок.", "مرحبا بالعالم", "한국어 문장",
    "Ω≈ç√∫˜µ≤≥÷", "naïve café déjà vu", "👩‍👩‍👧‍👦 family 🇫🇷", "def f(x): return x ** 2", "e\u0301 and é", "ﬁ ½ ² ™", "", " ",
    "\t\n", "[MASK] [CLS] </s> <s>", "https://example.org/a?b=c#f", "IN CAPITALS", "a" * 90, "don't can't",
    "ไทย ภาษา", "हिन्दी पाठ", "ελληνικά", "עברית", "the cat sat on the mat",
)  # fmt: skip
LONG = "the cat sat on a mat and ran to the new house " * 9


def fifty():
    """Return fifty texts, the odd ones among them."""
    draw = random.Random(3)
    words = " ".join(ODD).split()
    return [*ODD, LONG, *(" ".join(draw.choices(words, k=draw.randint(1, 20))) for _ in range(25))]
