"""Fifty texts in many scripts, and the tokenizer of a checkpoint as the reference library loads it."""
# ruff: noqa: E501, RUF001 # the texts hold what people write

import random
import shutil

ODD = (
    "the cat sat on the mat", "猫がマットの上に座っています。", "Съешь ещё этих мягких французских булок.", "مرحبا بالعالم",
    "한국어 문장", "Ω≈ç√∫˜µ≤≥÷", "naïve café déjà vu", "👩‍👩‍👧‍👦 family 🇫🇷", "def f(x): return x ** 2", "e\u0301 and é",
    "ﬁ ½ ² ™", "", " ", "\t\n", "[MASK] [CLS] </s> <s>", "https://example.org/a?b=c#f", "IN CAPITALS", "a" * 90,
    "don't can't", "ไทย ภาษา", "हिन्दी पाठ", "ελληνικά", "עברית", "the cat sat on the mat",
)  # fmt: skip
LONG = "the cat sat on a mat and ran to the new house " * 9
PADS = {"bert": "[PAD]", "distilbert": "[PAD]", "roberta": "<pad>", "bart": "<pad>"}


def fifty():
    """Return odd texts, a long one, and mixtures of their words."""
    draw = random.Random(3)
    words = " ".join(ODD).split()
    return [*ODD, LONG, *(" ".join(draw.choices(words, k=draw.randint(1, 20))) for _ in range(25))]


def with_tokenizer(name, folder, to, most):
    """Copy a checkpoint of a name with a tokenizer that the reference library loads, which takes `most` tokens."""
    from transformers import PreTrainedTokenizerFast

    from tests.samples.reference_texts import tokenizer_of

    shutil.copytree(folder, to)
    family = name.partition("-")[0]
    types = ["token_type_ids"] if family == "bert" else []
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_of(name), pad_token=PADS[family], model_max_length=most,
        model_input_names=["input_ids", "attention_mask", *types],
    )  # fmt: skip
    tokenizer.save_pretrained(to)
    return tokenizer
