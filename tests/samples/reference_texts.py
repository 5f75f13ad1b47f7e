"""What the reference library makes of texts: tokens, and text of generated tokens, for each case of a family."""

import functools
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers
from tokenizers import Tokenizer

from tests.samples.checkpoints import WORDS, checkpoint_of

TEXTS = [
    "good",
    "the old cat sat on the mat.",
    "Ünï-cödé äöü ß 123",
    "a bird ran to the blue house and was not good, not bad",
]
MARIAN_WORDS = "the old house dog teacher river sees opens quietly a garden today slowly".split()


@dataclass(frozen=True)
class Languages:
    """How the reference library marks languages."""

    tokens: dict[str, int]
    """Two languages with their tokens."""
    own: int
    """The token of sources where a request does not say."""
    template: Callable[[list[int], int, int], list[int]]
    """Makes the tokens of a text from its pieces, its end and its language."""
    choice: str = "forced_bos_token_id"
    """What `generate` calls the token of the target's language."""


LANGUAGES = {
    "mbart": Languages(
        {"de_DE": 270, "fr_XX": 272}, 271, lambda text, end, language: [*text, end, language], "decoder_start_token_id"
    ),
    "mbart-50": Languages({"en_XX": 271, "de_DE": 270}, 272, lambda text, end, language: [language, *text, end]),
    # legacy_behaviour
    "nllb": Languages({"zho_Hans": 272, "deu_Latn": 270}, 271, lambda text, end, language: [*text, end, language]),
    "m2m-100": Languages({"fr": 185, "zh": 259}, 0, lambda text, end, language: [language, *text, end]),
}


def sentences(name, count, seed):
    """Draw texts of words that the case's tokenizer knows."""
    draw = random.Random(seed)
    words = MARIAN_WORDS if "marian" in name or name in ("m2m-100", "mt5") else WORDS.split()
    return [" ".join(draw.choices(words, k=draw.randint(1, 7))) for _ in range(count)]


def tokenizer_of(name):
    """Return the tokenizer of a folder that has one in a file, without the padding and truncation that it may ask."""
    tokenizer = Tokenizer.from_file(str(checkpoint_of(name) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@functools.cache
def slow_tokenizer(name):
    """Return the tokenizer of a folder that has none in a file."""
    classes = {"m2m-100": transformers.M2M100Tokenizer, "mt5": transformers.T5Tokenizer}
    kind = classes.get(name, transformers.MarianTokenizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind.from_pretrained(checkpoint_of(name))


def has_a_file(name):
    return (checkpoint_of(name) / "tokenizer.json").exists()


def encoded(name, text, language=None):
    """Return the tokens of a text, in a language of LANGUAGES or by default in the model's own."""
    if name in LANGUAGES and has_a_file(name):
        languages = LANGUAGES[name]
        pieces = tokenizer_of(name).encode(text, add_special_tokens=False).ids
        return languages.template(pieces, 2, languages.tokens.get(language, languages.own))
    if has_a_file(name):
        return tokenizer_of(name).encode(text).ids
    if name == "m2m-100":
        slow_tokenizer(name).src_lang = language or "en"
    return slow_tokenizer(name)(text)["input_ids"]


def decoded(name, tokens):
    """Return the text of tokens."""
    tokenizer = tokenizer_of(name) if has_a_file(name) else slow_tokenizer(name)
    return tokenizer.decode(tokens, skip_special_tokens=True)


ASKED = ({}, {"num_beams": 1}, {"num_beams": 4, "length_penalty": 2.0, "max_new_tokens": 9})
"""A checkpoint's own rules and defaults, greedy, and beams and a penalty."""


def generated_by(model, tokens, **asked):
    """Return the tokens that the reference library generates of those of a text, without the end."""
    given, continues = torch.tensor([tokens]), not model.config.is_encoder_decoder
    more = {"attention_mask": torch.ones_like(given), **({"pad_token_id": 1} if continues else {})}
    return _made(model, len(tokens) if continues else 1, inputs=given, **asked, **more)


def generated_of(model, pixels, **asked):
    """Return the same of a picture: pixels (1, channel, height, width), normalised."""
    return _made(model, 1, pixel_values=pixels, **asked)


@torch.no_grad()
def _made(model, begun, **asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = model.generate(**asked)[0].tolist()[begun:]
    end = model.generation_config.eos_token_id
    ends = end if isinstance(end, list) else [end]
    return made[: next((place for place, token in enumerate(made) if token in ends), len(made))]
