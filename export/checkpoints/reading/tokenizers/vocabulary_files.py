"""What builds a tokenizer of `vocab.txt`, or of `vocab.json` and `merges.txt`.

They are WordPiece (BERT, DistilBERT) and byte-level BPE (GPT-2, RoBERTa, BART, CLIP), put together as the converters of
the transformers library do. Special tokens are read from `tokenizer_config.json`, `special_tokens_map.json` and
`added_tokens.json`; what these do not name is what the class of tokenizer has by default.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from export.checkpoints.reading.checkpoint import MAX_JSON_BYTES, Checkpoint
from export.errors import TokenizerError

SETTINGS_FILE = "tokenizer_config.json"
SPECIALS_FILE = "special_tokens_map.json"
ADDED_FILE = "added_tokens.json"
WORDS, PAIRS, MERGES = "vocab.txt", "vocab.json", "merges.txt"

Specials = Mapping[str, AddedToken]
"""Role, such as `mask_token`, -> the token."""


def word_pieces(checkpoint: Checkpoint, settings: Mapping[str, Any], specials: Specials) -> Tokenizer:
    """Build the tokenizer of BERT (Devlin et al. 2019): words, cut into the longest known pieces."""
    if settings.get("do_basic_tokenize", True) is not True or settings.get("never_split"):
        raise TokenizerError(
            f"{SETTINGS_FILE}: do_basic_tokenize must be true, and never_split empty, without tokenizer.json"
        )
    words = _lines(checkpoint, WORDS)
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=specials["unk_token"].content))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    add_tokens(tokenizer, checkpoint, specials)
    first, last = (specials[role].content for role in ("cls_token", "sep_token"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first}:0 $A:0 {last}:0",
        pair=f"{first}:0 $A:0 {last}:0 $B:1 {last}:1",
        special_tokens=[_placed(tokenizer, token) for token in (first, last)],
    )
    return tokenizer


def mpnet(checkpoint: Checkpoint, settings: Mapping[str, Any], specials: Specials) -> Tokenizer:
    """Build the tokenizer of MPNet (Song et al. 2020): BERT's words, with RoBERTa's tokens around them."""
    tokenizer = word_pieces(checkpoint, settings, specials)
    last, first = (specials[role].content for role in ("sep_token", "cls_token"))
    tokenizer.post_processor = processors.RobertaProcessing(
        _placed(tokenizer, last), _placed(tokenizer, first), trim_offsets=True, add_prefix_space=False
    )
    return tokenizer


def _byte_pairs(
    checkpoint: Checkpoint,
    settings: Mapping[str, Any],
    specials: Specials,
    *,
    last: str = "",
    unknown: str | None = None,
) -> Tokenizer:
    """Build the tokenizer of GPT-2 (Radford et al. 2019) without what stands around a text: bytes, joined by rules.

    The last piece of a word ends in `last`; `unknown` stands for what the vocabulary lacks.
    """
    merges = [tuple(line.split(" ")) for line in _lines(checkpoint, MERGES) if line and not line.startswith("#version")]
    if odd := [merge for merge in merges if len(merge) != 2]:
        raise TokenizerError(f"{MERGES}: a line must hold two pieces, given {' '.join(odd[0])[:64]!r}")
    vocabulary = checkpoint.json(PAIRS)
    if not all(type(index) is int for index in vocabulary.values()):
        raise TokenizerError(f"{PAIRS}: must map pieces to whole numbers")
    pairs = [(one, other) for one, other in merges]
    around = {"continuing_subword_prefix": "", "end_of_word_suffix": last}
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs, unk_token=unknown, **around))
    spaced = bool(settings.get("add_prefix_space", False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    tokenizer.decoder = decoders.ByteLevel()
    add_tokens(tokenizer, checkpoint, specials)
    return tokenizer


def gpt2(checkpoint: Checkpoint, settings: Mapping[str, Any], specials: Specials) -> Tokenizer:
    """Build the tokenizer of GPT-2, which puts nothing around a text, or the first token before it if settings say."""
    tokenizer = _byte_pairs(checkpoint, settings, specials)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    if settings.get("add_bos_token"):
        first = specials["bos_token"].content
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{first}:0 $A:0",
            pair=f"{first}:0 $A:0 $B:1",
            special_tokens=[_placed(tokenizer, first)],
        )
    return tokenizer


def roberta(checkpoint: Checkpoint, settings: Mapping[str, Any], specials: Specials) -> Tokenizer:
    """Build the tokenizer of RoBERTa (Liu et al. 2019) and BART: that of GPT-2, with tokens around every text."""
    tokenizer = _byte_pairs(checkpoint, settings, specials)
    last, first = (specials[role].content for role in ("sep_token", "cls_token"))
    tokenizer.post_processor = processors.RobertaProcessing(
        _placed(tokenizer, last),
        _placed(tokenizer, first),
        trim_offsets=settings.get("trim_offsets", True),
        add_prefix_space=bool(settings.get("add_prefix_space", False)),
    )
    return tokenizer


CLIP_WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
"""What a text is split into, after which it is cut into bytes."""


def clip(checkpoint: Checkpoint, settings: Mapping[str, Any], specials: Specials) -> Tokenizer:
    """Build the tokenizer of CLIP (Radford et al. 2021): words in lower case, whose last piece ends in `</w>`."""
    last, first, unknown = (specials[role].content for role in ("eos_token", "bos_token", "unk_token"))
    tokenizer = _byte_pairs(checkpoint, {**settings, "add_prefix_space": False}, specials, last="</w>", unknown=unknown)
    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Lowercase()])
    ends = [decoders.ByteLevel(), decoders.Replace("</w>", " "), decoders.Replace(Regex("^ +| +$"), "")]
    tokenizer.decoder = decoders.Sequence(ends)
    words = pre_tokenizers.Split(Regex(CLIP_WORDS), behavior="removed", invert=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.post_processor = processors.RobertaProcessing(
        _placed(tokenizer, last), _placed(tokenizer, first), trim_offsets=False, add_prefix_space=False
    )
    return tokenizer


Builder = Callable[[Checkpoint, Mapping[str, Any], Specials], Tokenizer]


def _lines(checkpoint: Checkpoint, file: str) -> list[str]:
    """Return the lines of a file; the last may lack its end."""
    path = checkpoint.folder / file
    if path.stat().st_size > MAX_JSON_BYTES:
        raise TokenizerError(f"{file}: at most {MAX_JSON_BYTES} bytes, given {path.stat().st_size}")
    try:
        with path.open(encoding="utf-8") as stream:
            return [line.removesuffix("\n") for line in stream]
    except (OSError, UnicodeError) as error:
        raise TokenizerError(f"{file}: cannot be read as text in UTF-8; fetch the checkpoint again") from error


def special_tokens(checkpoint: Checkpoint, defaults: Mapping[str, str], *, spaced_mask: bool) -> Specials:
    """Return the special tokens by role: as the settings declare them, or those of the class.

    A `spaced_mask` has the space before it in it, where the settings say nothing.
    """
    declared = {**checkpoint.json(SPECIALS_FILE), **checkpoint.json(SETTINGS_FILE)}
    if spaced_mask and not isinstance(declared.get("mask_token"), dict):
        declared["mask_token"] = {"content": declared.get("mask_token") or defaults["mask_token"], "lstrip": True}
    specials = {role: _token(role, declared.get(role) or default) for role, default in defaults.items()}
    more = declared.get("additional_special_tokens") or []
    return specials | {
        f"additional {index}": _token("additional_special_tokens", one) for index, one in enumerate(more)
    }


def _token(role: str, given: object, *, special: bool = True) -> AddedToken:
    flags = given if isinstance(given, dict) else {"content": given}
    content = flags.get("content")
    if not isinstance(content, str) or not content:
        raise TokenizerError(f"{SETTINGS_FILE}: {role} must be a text, given {str(given)[:64]!r}")
    return AddedToken(
        content,
        single_word=bool(flags.get("single_word", False)),
        lstrip=bool(flags.get("lstrip", False)),
        rstrip=bool(flags.get("rstrip", False)),
        normalized=bool(flags.get("normalized", not special)),
        special=special,
    )


def _placed(tokenizer: Tokenizer, token: str) -> tuple[str, int]:
    """Return a token that was added, and its index."""
    return token, tokenizer.get_vocab()[token]


def add_tokens(tokenizer: Tokenizer, checkpoint: Checkpoint, specials: Specials) -> None:
    """Add the tokens that are found in a text before it is cut, each at the index that a file gives it."""
    by_content = {token.content: token for token in specials.values()}
    added: dict[int, AddedToken] = {}
    for content, index in checkpoint.json(ADDED_FILE).items():
        added[index] = by_content.get(content, _token(ADDED_FILE, content, special=False))
    declared = checkpoint.json(SETTINGS_FILE).get("added_tokens_decoder") or {}
    for index, flags in declared.items():
        added[int(index)] = _token("added_tokens_decoder", flags, special=bool(flags.get("special", False)))
    for index in sorted(added):
        tokenizer.add_tokens([added[index]])
        if tokenizer.token_to_id(added[index].content) != index:
            raise TokenizerError(f"{ADDED_FILE}: a token is at {index}, where the vocabulary leaves no place for it")
    placed = {token.content for token in added.values()}
    tokenizer.add_special_tokens([token for content, token in by_content.items() if content not in placed])
