"""Tokenizers in the format of `tokenizer.json`, the only one that the service reads."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from contract.input_rules import TextRule
from export.checkpoints.reading.checkpoint import CONFIG, Checkpoint
from export.checkpoints.reading.tokenizers.bounds import check_bounds
from export.checkpoints.reading.tokenizers.classes import TokenizerClass, build_tokenizer, class_name, row_of
from export.checkpoints.reading.tokenizers.pieces import PIECE_FILES
from export.checkpoints.reading.tokenizers.vocabulary_files import ADDED_FILE, MERGES, PAIRS, SETTINGS_FILE, WORDS
from export.errors import CheckpointError

TOKENIZER_FILE = "tokenizer.json"
BERT_NORMALIZER_SETTINGS = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "handle_chinese_chars": "tokenize_chinese_chars",
}
UNLIMITED_TOKENS = 10**9
"""Maximum lengths from here on mean that none was set."""
USUAL_NAMES: Mapping[str, tuple[str, ...]] = {"mask_token": ("[MASK]", "<mask>"), "pad_token": ("[PAD]", "<pad>")}
"""Names of special tokens to try if a checkpoint declares none."""


def character_tokenizer(
    specials: tuple[str, ...], alphabet: str, *, around: str = "$A", pair: str = "$A $B:1", mask: str | None = None
) -> str:
    """Return a tokenizer that lower-cases a text and splits it into characters.

    Indices are those of the specials in their order, then of the alphabet; `[UNK]` stands for every other character.
    Specials cannot be written in a text: "[END]" is five characters. `around` is the template of specials around every
    text, `$A`, and `pair` that around two. The mask has the last index, and is the only special that can be written.
    """
    vocabulary = {token: index for index, token in enumerate((*specials, *alphabet))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 # no password
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    if around != "$A":
        tokenizer.post_processor = _specials_around(around, pair, vocabulary)
    if mask:
        tokenizer.add_special_tokens([AddedToken(mask, normalized=False)])
    return tokenizer.to_str(pretty=True)


def _specials_around(around: str, pair: str, vocabulary: Mapping[str, int]) -> processors.TemplateProcessing:
    placed = [(name, vocabulary[name]) for name in around.split() if name in vocabulary]
    return processors.TemplateProcessing(single=around, pair=pair, special_tokens=placed)


def label_tokenizer(specials: tuple[str, ...], vocabulary: tuple[str, ...], around: str) -> str:
    """Return a tokenizer that lower-cases a text and splits it into words and signs.

    Indices are those of the specials, then of the words; `[UNK]` stands for every other word and sign. `around` is the
    template of specials around every text, `$A`. Specials cannot be written in a text.
    """
    known = {token: index for index, token in enumerate((*specials, *vocabulary))}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))  # noqa: S106 # no password
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = _specials_around(around, "$A $B:1", known)
    return tokenizer.to_str(pretty=True)


def word_tokenizer(specials: tuple[str, ...], vocabulary: tuple[str, ...]) -> str:
    """Return a tokenizer of words separated by spaces; indices are those of the specials, then of the words."""
    known = {token: index for index, token in enumerate((*specials, *vocabulary))}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token=specials[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    return tokenizer.to_str(pretty=True)


def read_tokenizer(checkpoint: Checkpoint, vocabulary: int, *, lower_case: bool = False) -> Tokenizer:
    """Return a checkpoint's tokenizer, without truncation or padding. Raises CheckpointError if it does not fit."""
    content = _read_content(checkpoint)
    _remove_surplus(content, vocabulary)
    if checkpoint.has(TOKENIZER_FILE):
        _check_added_tokens(content, checkpoint, vocabulary)
    check_bounds(TOKENIZER_FILE, content)
    row = row_of(class_name(checkpoint))
    _apply_settings(content, {**row.defaults, **checkpoint.json(SETTINGS_FILE)}, row)
    tokenizer = parse_tokenizer(TOKENIZER_FILE, json.dumps(content, ensure_ascii=False), vocabulary)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if lower_case:
        before = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])
    return tokenizer


def _read_content(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the content of `tokenizer.json`, or of the one that the files of a vocabulary are equivalent to."""
    if checkpoint.has(TOKENIZER_FILE):
        content = checkpoint.json(TOKENIZER_FILE)
        _check_special_tokens(content, checkpoint.json(SETTINGS_FILE))
        return content
    built = build_tokenizer(checkpoint)
    if built is None:
        raise CheckpointError(
            f"{TOKENIZER_FILE}: must be in the checkpoint's folder, and is not, and neither are {WORDS}, or {PAIRS} "
            f"and {MERGES}, or one of {', '.join(PIECE_FILES)}; with the transformers library: "
            "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
        )
    made: dict[str, Any] = json.loads(built.to_str())
    return made


def _check_special_tokens(content: dict[str, Any], settings: dict[str, Any]) -> None:
    """Raise CheckpointError for special tokens that the settings declare and `tokenizer.json` does not have."""
    if settings.get("split_special_tokens"):
        raise CheckpointError(f"{SETTINGS_FILE}: split_special_tokens must be false, given true")
    held = {token.get("content") for token in content.get("added_tokens") or [] if isinstance(token, dict)}
    for name in ("additional_special_tokens", "extra_special_tokens"):
        declared = settings.get(name) or []
        tokens = declared.values() if isinstance(declared, dict) else declared
        for token in (one.get("content") if isinstance(one, dict) else one for one in tokens):
            if token not in held:
                raise CheckpointError(f"{SETTINGS_FILE}: {name}: {token!r} must be an added token of {TOKENIZER_FILE}")


def _check_added_tokens(content: dict[str, Any], checkpoint: Checkpoint, vocabulary: int) -> None:
    """Raise CheckpointError for tokens that other files add, which have a row in the embedding, and this one has not.

    The reference library adds them when it loads the tokenizer.
    """
    held = {token.get("content") for token in content.get("added_tokens") or []}
    decoder = checkpoint.json(SETTINGS_FILE).get("added_tokens_decoder") or {}
    try:
        of_settings = {one["content"]: int(index) for index, one in decoder.items()}
        of_file = {token: int(index) for token, index in checkpoint.json(ADDED_FILE).items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{SETTINGS_FILE}: added_tokens_decoder must have tokens by index, and {ADDED_FILE} indices by token"
        ) from error
    for file, declared in ((f"{SETTINGS_FILE}: added_tokens_decoder", of_settings), (ADDED_FILE, of_file)):
        for token, index in declared.items():
            if index < vocabulary and token not in held:
                raise CheckpointError(
                    f"{file}: {token!r} must be an added token of {TOKENIZER_FILE}; with the transformers library: "
                    "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
                )


def _remove_surplus(content: dict[str, Any], vocabulary: int) -> None:
    """Remove added tokens without a row in the model's embedding, such as a mask that it was not trained with."""
    added = content.get("added_tokens") or []
    if not all(isinstance(token, dict) and type(token.get("id", 0)) is int for token in added):
        raise CheckpointError(f"{TOKENIZER_FILE}: added_tokens must be objects whose id is a whole number")
    surplus = {token["content"] for token in added if token.get("id", 0) >= vocabulary}
    if surplus:
        content["added_tokens"] = [token for token in added if token["content"] not in surplus]
        words = content.get("model", {}).get("vocab")
        for token in surplus:
            if isinstance(words, dict):
                words.pop(token, None)


def _apply_settings(content: dict[str, Any], settings: dict[str, Any], row: TokenizerClass) -> None:
    """Apply the tokenizer's settings, as the reference library does when it loads one of its own classes.

    `row` is that of the class. Whatever the file says, BERT's classes normalize as their settings say, and
    XLM-RoBERTa's and CamemBERT's split into words and pieces.
    """
    if settings.get("truncation_side", "right") != "right":
        raise CheckpointError(f"{SETTINGS_FILE}: truncation_side must be right, given {settings['truncation_side']!r}")
    own = (content.get("truncation") or {}).get("direction", "Right")
    if own != "Right" and "truncation_side" not in settings:
        raise CheckpointError(f"{TOKENIZER_FILE}: truncation.direction must be Right, given {str(own)[:16]!r}")
    if row_of(str(settings.get("tokenizer_class"))).splits == "as saved":
        return
    if row.splits == "words" and (content.get("normalizer") or {}).get("type") != "BertNormalizer":
        content["normalizer"] = {"type": "BertNormalizer", "clean_text": True}
    if row.splits in ("pieces", "led pieces"):
        scheme = "always" if row.splits == "led pieces" or settings["add_prefix_space"] else "never"
        pieces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}
        content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, pieces]}
    for part, kind, names in (
        ("normalizer", "BertNormalizer", BERT_NORMALIZER_SETTINGS),
        ("pre_tokenizer", "ByteLevel", {"add_prefix_space": "add_prefix_space"}),
    ):
        found = content.get(part)
        for name, setting in names.items():
            if isinstance(found, dict) and found.get("type") == kind and setting in settings:
                found[name] = settings[setting]


def sends_types(checkpoint: Checkpoint) -> bool:
    """Return whether the reference library feeds a model the types that the checkpoint's tokenizer gives tokens."""
    names = checkpoint.json(SETTINGS_FILE).get("model_input_names")
    return "token_type_ids" in names if isinstance(names, list) else row_of(class_name(checkpoint)).typed


def of_one_type(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer that gives every token type 0, and else what this one gives."""
    content = json.loads(tokenizer.to_str())
    given = content["post_processor"]
    parts = given["processors"] if given and given["type"] == "Sequence" else [given] if given else []
    parts = [_template((part["cls"],), (part["sep"],)) if part["type"] == "BertProcessing" else part for part in parts]
    if not {"TemplateProcessing", "RobertaProcessing"} & {part["type"] for part in parts}:
        parts.append(_template())  # without one the second text has type 1
    for part in parts:
        for piece in (*part.get("single", ()), *part.get("pair", ())):
            next(iter(piece.values()))["type_id"] = 0
    content["post_processor"] = {"type": "Sequence", "processors": parts}
    return Tokenizer.from_str(json.dumps(content, ensure_ascii=False))


def _template(first: Sequence[tuple[str, int]] = (), last: Sequence[tuple[str, int]] = ()) -> dict[str, Any]:
    """Return the template of one text or two, with tokens before the first text and behind each."""
    before, behind = ([{"SpecialToken": {"id": token, "type_id": 0}} for token, _ in some] for some in (first, last))
    one, other = ({"Sequence": {"id": text, "type_id": 0}} for text in "AB")
    return {
        "type": "TemplateProcessing",
        "single": [*before, one, *behind],
        "pair": [*before, one, *behind, other, *behind],
        "special_tokens": {token: {"id": token, "ids": [index], "tokens": [token]} for token, index in (*first, *last)},
    }


def parse_tokenizer(file: str, text: str, vocabulary: int) -> Tokenizer:
    """Parse a tokenizer. Raises CheckpointError if that fails, or if it has tokens that the model does not."""
    try:
        tokenizer = Tokenizer.from_str(text)
    except BaseException as error:  # a panic in the library is no Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        raise CheckpointError(f"{file}: is no tokenizer: {str(error).splitlines()[0]}") from error
    most = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if most >= vocabulary:
        raise CheckpointError(f"{file}: token {most} does not fit the model's vocabulary of {vocabulary}")
    return tokenizer


def max_text_tokens(checkpoint: Checkpoint, *limits: int | None) -> int:
    """Return the most tokens of a text: the smallest limit of the model, its tokenizer and others."""
    set_limit = checkpoint.json(SETTINGS_FILE).get("model_max_length")
    return min(
        int(limit)
        for limit in (*limits, set_limit)
        if isinstance(limit, (int, float)) and 1 <= limit < UNLIMITED_TOKENS
    )


def special_token(checkpoint: Checkpoint, tokenizer: Tokenizer, name: str) -> int | None:
    """Return the index of a special token: by its declared name, as `config.json` or its class has it, or a usual one.

    None if the tokenizer holds none of them.
    """
    files: list[Mapping[str, Any]] = [checkpoint.json(file) for file in (SETTINGS_FILE, "special_tokens_map.json")]
    configured = checkpoint.config.get(f"{name}_id")
    if type(configured) is int and configured >= 0:
        files.append({name: tokenizer.id_to_token(configured)})
    files.append(row_of(class_name(checkpoint)).specials)
    for token in (*(file.get(name) for file in files), *USUAL_NAMES[name]):
        text = token.get("content") if isinstance(token, dict) else token
        index = tokenizer.token_to_id(text) if isinstance(text, str) else None
        if index is not None:
            return int(index)
    return None


def text_rule(
    checkpoint: Checkpoint,
    tokenizer: Tokenizer,
    *limits: int | None,
    prompts: Mapping[str, str] | None = MappingProxyType({}),
    default_prompt: str | None = None,
) -> TextRule:
    """Return how texts become tokens: at most as many as the limits allow, with the tokenizer's mask and padding.

    Raises CheckpointError for a default prompt that leaves no room for a text.
    """
    rule = TextRule(
        tokenizer=TOKENIZER_FILE,
        max_tokens=max_text_tokens(checkpoint, *limits),
        mask=special_token(checkpoint, tokenizer, "mask_token"),
        padding=special_token(checkpoint, tokenizer, "pad_token"),
        prompts=None if prompts is None else dict(prompts),
        default_prompt=default_prompt,
    )
    if rule.prompt:
        check_text_fits(rule, tokenizer, f"the prompt {default_prompt!r}")
    return rule


def check_text_fits(rule: TextRule, tokenizer: Tokenizer, subject: str) -> None:
    """Raise CheckpointError if what a rule puts around a text, or a pair, leaves no room for it within its limit."""
    needed = len(tokenizer.encode(f"{rule.prompt} a").ids)
    if rule.pair:
        needed = len(tokenizer.encode(rule.pair.text("a", "a"), add_special_tokens=False).ids)
    if needed > rule.max_tokens:
        raise CheckpointError(
            f"{subject}: must leave room for a text in {rule.max_tokens} tokens, given {needed} with one"
        )


def config_prompt(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the prompt of a model that generates: `prefix` of the configuration, which is put before every text."""
    prefix = checkpoint.config.get("prefix")
    if not prefix:
        return {}
    if not isinstance(prefix, str):
        raise CheckpointError(f"{CONFIG}: prefix must be a text, given {str(prefix)[:64]!r}")
    return {"prompts": {"prefix": prefix}, "default_prompt": "prefix"}
