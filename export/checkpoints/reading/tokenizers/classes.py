"""The classes of tokenizers that checkpoints name, a row each: what the reference library does for that class."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tokenizers import Tokenizer

from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.tokenizers import pieces
from export.checkpoints.reading.tokenizers.vocabulary_files import (
    MERGES,
    PAIRS,
    SETTINGS_FILE,
    WORDS,
    Builder,
    clip,
    gpt2,
    mpnet,
    roberta,
    special_tokens,
    word_pieces,
)
from export.errors import TokenizerError

BERT = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
BERT_SPECIALS = {
    "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]",
}  # fmt: skip
ROBERTA_SPECIALS = {
    "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>",
    "cls_token": "<s>", "mask_token": "<mask>",
}  # fmt: skip
CLIP_SPECIALS = {
    "bos_token": "<|startoftext|>",
    **dict.fromkeys(("eos_token", "unk_token", "pad_token"), "<|endoftext|>"),
}
T5_SPECIALS = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
DEBERTA_SPECIALS = {"bos_token": "[CLS]", "eos_token": "[SEP]", **BERT_SPECIALS}
ALBERT_SPECIALS = DEBERTA_SPECIALS | {"unk_token": "<unk>", "pad_token": "<pad>"}
BIG_BIRD_SPECIALS = ALBERT_SPECIALS | {"bos_token": "<s>", "eos_token": "</s>"}


@dataclass(frozen=True)
class TokenizerClass:
    """What is particular to a class of tokenizer."""

    model_type: str = ""
    """The type of models whose tokenizer it is where a checkpoint names none."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What it sets, whatever `tokenizer.json` says, where the settings say nothing."""
    splits: Literal["words", "pieces", "led pieces", "as saved"] | None = None
    """How it normalizes or splits a text whatever `tokenizer.json` says; `as saved` changes nothing at all. A space
    leads each word where pieces are led, whatever the settings say."""
    typed: bool = True
    """False if it sends no types of tokens unless the settings say so: its models are fed type 0."""
    files: tuple[str, ...] = ()
    """The files that it can be built of without `tokenizer.json`."""
    specials: Mapping[str, str] = field(default_factory=dict)
    """Its special tokens by role, where no file names others."""
    spaced_mask: bool = False
    build: Builder | None = None


def _words(model_type: str = "", **more: Any) -> TokenizerClass:  # noqa: ANN401 # fields
    fields = {"files": (WORDS,), "specials": BERT_SPECIALS, "build": word_pieces} if model_type else {}
    return TokenizerClass(model_type, BERT, "words", **{**fields, **more})


def _bytes(model_type: str, **more: Any) -> TokenizerClass:  # noqa: ANN401 # fields
    fields = {"specials": ROBERTA_SPECIALS, "spaced_mask": True, "build": roberta}
    return TokenizerClass(model_type, {"add_prefix_space": False}, files=(PAIRS, MERGES), **{**fields, **more})


def _pieces(build: pieces.PieceClass, model_type: str = "", **more: Any) -> TokenizerClass:  # noqa: ANN401 # fields
    return TokenizerClass(model_type, files=(build.file,), build=build, **{"specials": ROBERTA_SPECIALS, **more})


CLASSES: Mapping[str, TokenizerClass] = {
    "BertTokenizer": _words("bert"),
    "DistilBertTokenizer": _words("distilbert", typed=False),
    "RobertaTokenizer": _bytes("roberta"),
    "BartTokenizer": _bytes("bart"),
    "GPT2Tokenizer": _bytes(
        "gpt2",
        specials=dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>"),
        spaced_mask=False,
        build=gpt2,
    ),
    "CLIPTokenizer": _bytes("clip", specials=CLIP_SPECIALS, spaced_mask=False, typed=False, build=clip),
    "MPNetTokenizer": _words("mpnet", specials=ROBERTA_SPECIALS | {"unk_token": "[UNK]"}, build=mpnet),
    "ElectraTokenizer": _words(),
    "MobileBertTokenizer": _words(),
    "CamembertTokenizer": _pieces(
        pieces.CAMEMBERT, "camembert", defaults={"add_prefix_space": True}, splits="pieces", spaced_mask=True
    ),
    "XLMRobertaTokenizer": _pieces(
        pieces.XLM_ROBERTA, "xlm-roberta", defaults={"add_prefix_space": True}, splits="pieces"
    ),
    "T5Tokenizer": _pieces(pieces.T5, "t5", specials=T5_SPECIALS, splits="led pieces"),
    "MT5Tokenizer": _pieces(pieces.T5, "mt5", specials=T5_SPECIALS, splits="led pieces"),
    "AlbertTokenizer": _pieces(pieces.ALBERT, "albert", specials=ALBERT_SPECIALS, typed=False),
    "DebertaV2Tokenizer": _pieces(pieces.DEBERTA, "deberta-v2", specials=DEBERTA_SPECIALS),
    "BigBirdTokenizer": _pieces(pieces.BIG_BIRD, "big_bird", specials=BIG_BIRD_SPECIALS, spaced_mask=True, typed=False),
    "PegasusTokenizer": _pieces(pieces.PEGASUS, "pegasus", specials=T5_SPECIALS | {"mask_token": "<mask_2>"}),
    "MBartTokenizer": _pieces(pieces.MBART, "mbart", spaced_mask=True),
    "MBart50Tokenizer": _pieces(pieces.MBART50, spaced_mask=True),
    "SiglipTokenizer": _pieces(pieces.SIGLIP, "siglip", specials=T5_SPECIALS | {"pad_token": "</s>"}, typed=False),
    "WhisperTokenizer": TokenizerClass(splits="as saved", typed=False),
    **dict.fromkeys(
        (
            *("PreTrainedTokenizerFast", "TokenizersBackend", "LlamaTokenizer", "Qwen2Tokenizer"),
            *("GPTNeoXTokenizer", "GemmaTokenizer"),
        ),
        TokenizerClass(splits="as saved", typed=False),
    ),
}


def row_of(name: str) -> TokenizerClass:
    """Return the row of a class; one that sets nothing for a class without a row."""
    return CLASSES.get(name, TokenizerClass())


def declared_class(checkpoint: Checkpoint) -> str:
    """Return the class of a checkpoint's tokenizer, by its settings or its configuration; "" if neither names one."""
    declared = checkpoint.json(SETTINGS_FILE).get("tokenizer_class") or checkpoint.config.get("tokenizer_class")
    return str(declared) if declared in CLASSES else str(declared or "").removesuffix("Fast")


def class_name(checkpoint: Checkpoint) -> str:
    """Return the class of a checkpoint's tokenizer: the declared one, or that of its type of models."""
    model_type = checkpoint.config.get("model_type")
    usual = (name for name, row in CLASSES.items() if row.model_type and row.model_type == model_type)
    return declared_class(checkpoint) or next(usual, "")


def build_tokenizer(checkpoint: Checkpoint) -> Tokenizer | None:
    """Return the tokenizer of a folder's vocabulary; None if it holds none of a known form. Raises TokenizerError."""
    sets = ((WORDS,), (PAIRS, MERGES), *((file,) for file in pieces.PIECE_FILES))
    if not any(all(map(checkpoint.has, files)) for files in sets):
        return None
    name = class_name(checkpoint)
    row = row_of(name)
    if row.build is None:
        known = ", ".join(other for other, its in CLASSES.items() if its.build)
        raise TokenizerError(
            f"{SETTINGS_FILE}: tokenizer_class must be one of {known}, without tokenizer.json, "
            f"given {name[:64]!r}; with the transformers library: "
            "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
        )
    if missing := [file for file in row.files if not checkpoint.has(file)]:
        raise TokenizerError(f"{missing[0]}: must be in the checkpoint's folder without tokenizer.json, and is not")
    settings = checkpoint.json(SETTINGS_FILE)
    specials = special_tokens(checkpoint, row.specials, spaced_mask=row.spaced_mask)
    try:
        return row.build(checkpoint, settings, specials)
    except TokenizerError:
        raise
    except Exception as error:  # the library raises plain Exceptions
        reason = str(error).splitlines()[0][:200]
        raise TokenizerError(f"{row.files[0]}: tokenizer cannot be built: {reason}") from error
