"""Tokenizers as `tokenizer.json` texts, which is all that the service reads."""

import json
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from export.checkpoints.checkpoint import Checkpoint
from export.errors import CheckpointError

FILE = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
BERT_SETTINGS = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "handle_chinese_chars": "tokenize_chinese_chars",
}
UNLIMITED = 10**9
"""Lengths from here on mean that nobody thought of one."""


def characters(specials: tuple[str, ...], alphabet: str, *, around: str = "$A", mask: str | None = None) -> str:
    """Return a tokenizer that lower-cases a text and takes its characters one by one.

    Indices are the specials in their order and then the alphabet; `[UNK]` stands for every other character. The
    specials cannot be written: a text that holds "[END]" holds five characters. `around` says which of them stand
    around every text, `$A`. The mask comes last, and is the one that can be written.
    """
    vocabulary = {token: index for index, token in enumerate((*specials, *alphabet))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 # no password
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    if around != "$A":
        placed = [(name, vocabulary[name]) for name in around.split() if name in specials]
        tokenizer.post_processor = processors.TemplateProcessing(single=around, special_tokens=placed)
    if mask:
        tokenizer.add_special_tokens([AddedToken(mask, normalized=False)])
    return tokenizer.to_str(pretty=True)


def words(specials: tuple[str, ...], vocabulary: tuple[str, ...]) -> str:
    """Return a tokenizer of words with spaces between; indices are the specials in their order and then the words."""
    known = {token: index for index, token in enumerate((*specials, *vocabulary))}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token=specials[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    return tokenizer.to_str(pretty=True)


def of_checkpoint(checkpoint: Checkpoint, vocabulary: int, *, lower_case: bool = False) -> Tokenizer:
    """Return a checkpoint's tokenizer, which neither cuts nor pads. Raises CheckpointError if it does not fit."""
    if not checkpoint.has(FILE):
        raise CheckpointError(
            f"{FILE}: must be in the checkpoint's folder, and is not; with the transformers library: "
            "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
        )
    content = checkpoint.json(FILE)
    _without_surplus(content, vocabulary)
    _override(content, checkpoint.json(SETTINGS))
    tokenizer = fitting(FILE, json.dumps(content, ensure_ascii=False), vocabulary)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if lower_case:
        before = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])
    return tokenizer


def _without_surplus(content: dict[str, Any], vocabulary: int) -> None:
    """Drop added tokens that the model has no row for, such as the mask of a model that was trained on without it."""
    added = content.get("added_tokens") or []
    surplus = {token["content"] for token in added if isinstance(token, dict) and token.get("id", 0) >= vocabulary}
    if surplus:
        content["added_tokens"] = [token for token in added if token["content"] not in surplus]
        words = content.get("model", {}).get("vocab")
        for token in surplus:
            if isinstance(words, dict):
                words.pop(token, None)


def _override(content: dict[str, Any], settings: dict[str, Any]) -> None:
    """Let the tokenizer's settings change it, as the reference library does when it loads one of its own classes."""
    if settings.get("truncation_side", "right") != "right":
        raise CheckpointError(f"{SETTINGS}: truncation_side must be right, given {settings['truncation_side']!r}")
    if settings.get("tokenizer_class") in ("PreTrainedTokenizerFast", "TokenizersBackend"):
        return
    for part, kind, names in (
        ("normalizer", "BertNormalizer", BERT_SETTINGS),
        ("pre_tokenizer", "ByteLevel", {"add_prefix_space": "add_prefix_space"}),
    ):
        found = content.get(part)
        for name, setting in names.items():
            if isinstance(found, dict) and found.get("type") == kind and setting in settings:
                found[name] = settings[setting]


def fitting(file: str, text: str, vocabulary: int) -> Tokenizer:
    """Parse a tokenizer. Raises CheckpointError where it is none, or has tokens that the model has not."""
    try:
        tokenizer = Tokenizer.from_str(text)
    except BaseException as error:  # what panics in the library is no Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        raise CheckpointError(f"{file}: is no tokenizer: {str(error).splitlines()[0]}") from error
    most = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if most >= vocabulary:
        raise CheckpointError(f"{file}: token {most} does not fit the model's vocabulary of {vocabulary}")
    return tokenizer


def longest(checkpoint: Checkpoint, *limits: int | None) -> int:
    """Return the most tokens of a text: the least of what the model, its tokenizer and others allow."""
    said = checkpoint.json(SETTINGS).get("model_max_length")
    return min(int(limit) for limit in (*limits, said) if isinstance(limit, (int, float)) and 1 <= limit < UNLIMITED)


def special(checkpoint: Checkpoint, tokenizer: Tokenizer, name: str, usual: tuple[str, ...]) -> int:
    """Return the index of a special token, named or usual. Raises CheckpointError where there is none."""
    named = [checkpoint.json(file).get(name) for file in (SETTINGS, "special_tokens_map.json")]
    for token in (*named, *usual):
        text = token.get("content") if isinstance(token, dict) else token
        index = tokenizer.token_to_id(text) if isinstance(text, str) else None
        if index is not None:
            return int(index)
    raise CheckpointError(f"{SETTINGS}: must name a {name} that {FILE} holds")
