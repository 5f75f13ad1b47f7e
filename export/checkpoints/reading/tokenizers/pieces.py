"""Tokenizers that are a SentencePiece model alone (Kudo and Richardson, 2018): a row for each class.

The reference library takes the pieces of a unigram model (Kudo, 2018) with their scores, and its map of characters. How
texts are normalised and split, and which tokens stand around them, its class says, whatever the model says of spaces.
"""

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.tokenizers.sentencepiece_model import parse_model
from export.checkpoints.reading.tokenizers.vocabulary_files import Specials, add_tokens
from export.errors import TokenizerError

BPE_MODEL, SPIECE, SPM = "sentencepiece.bpe.model", "spiece.model", "spm.model"
PIECE_FILES = (BPE_MODEL, SPIECE, SPM)
"""The names of SentencePiece models; the first holds a unigram model, too."""
SPACE = "▁"
MBART_LANGUAGES = tuple(
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN".split()
)
"""In the order of their tokens (Liu et al. 2020)."""
MBART50_LANGUAGES = MBART_LANGUAGES + tuple(
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN "
    "te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI".split()
)
"""The same of mBART-50 (Tang et al. 2020)."""

Settings: TypeAlias = Mapping[str, Any]
Piece: TypeAlias = tuple[str, float]
"""A piece, and the logarithm of its probability."""
Steps: TypeAlias = list[normalizers.Normalizer]
Names: TypeAlias = Mapping[str, str]
"""Role, such as `mask_token`, -> the token's text."""


def _as_they_are(pieces: list[Piece], names: Names, settings: Settings) -> list[Piece]:
    return pieces


def _no_more(names: Names, settings: Settings) -> list[str]:
    return []


def _mapped(characters: Steps, settings: Settings) -> Steps:
    return characters


@dataclass(frozen=True)
class PieceClass:
    """A class of tokenizers: it builds one of a checkpoint's SentencePiece model."""

    file: str
    around: tuple[str, str]
    """The templates of one text, and of two: tokens by role, with the type of what stands there."""
    arrange: Callable[[list[Piece], Names, Settings], list[Piece]] = _as_they_are
    """Makes the vocabulary of the model's pieces."""
    more: Callable[[Names, Settings], list[str]] = _no_more
    """Further special tokens."""
    normalize: Callable[[Steps, Settings], Steps] = _mapped
    """Makes the steps of normalisation of the model's map of characters, if there is one."""
    split: Callable[[Settings], list[pre_tokenizers.PreTokenizer]] = lambda settings: [pre_tokenizers.WhitespaceSplit()]
    """What splits a text before spaces become a part of pieces; by default into words."""
    unprefixed: str = "never"
    """Where a text begins with a space if `add_prefix_space` is false."""

    def __call__(self, checkpoint: Checkpoint, settings: Settings, specials: Specials) -> Tokenizer:
        """Return the tokenizer. Raises TokenizerError."""
        model = parse_model(checkpoint.folder / self.file, ("UNIGRAM",))
        names = {role: token.content for role, token in specials.items()}
        names["language"] = str(settings.get("src_lang") or "en_XX")  # of those that mark one
        pieces = self.arrange([(piece.piece, piece.score) for piece in model.pieces], names, settings)
        unknown = next((index for index, (piece, _) in enumerate(pieces) if piece == names["unk_token"]), None)
        if unknown is None:
            raise TokenizerError(f"{self.file}: has no piece {names['unk_token']}; name its own as unk_token")
        tokenizer = Tokenizer(models.Unigram(pieces, unknown, byte_fallback=False))
        characters = model.normalizer_spec.precompiled_charsmap
        if steps := self.normalize([normalizers.Precompiled(characters)] if characters else [], settings):
            tokenizer.normalizer = normalizers.Sequence(steps)
        scheme = "always" if settings.get("add_prefix_space", True) else self.unprefixed
        spaces = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*self.split(settings), spaces])
        tokenizer.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme=scheme)
        add_tokens(tokenizer, checkpoint, specials)
        own = [piece for piece in model.pieces if piece.type in (piece.CONTROL, piece.USER_DEFINED)]
        tokenizer.add_tokens(
            [AddedToken(piece.piece, normalized=False, special=piece.type == piece.CONTROL) for piece in own]
        )
        tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in self.more(names, settings)])
        single, pair = (template.format(**names).split() for template in self.around)
        placed = {token.rpartition(":")[0] for token in (*single, *pair)} - {"$A", "$B"}
        tokenizer.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[(token, tokenizer.token_to_id(token)) for token in sorted(placed)]
        )
        return tokenizer


def _fairseq(*languages: str) -> Callable[[list[Piece], Names, Settings], list[Piece]]:
    """Return what puts pieces behind fairseq's four tokens, and languages and a mask behind them."""

    def arrange(pieces: list[Piece], names: Names, settings: Settings) -> list[Piece]:
        first = [names[role] for role in ("bos_token", "pad_token", "eos_token", "unk_token")]
        return [*_certain(first), *pieces[3:], *_certain([*languages, names["mask_token"]])]

    return arrange


def _camembert(pieces: list[Piece], names: Names, settings: Settings) -> list[Piece]:
    """Put pieces behind tokens that fairseq left unused."""
    first = ["<s>NOTUSED", names["pad_token"], "</s>NOTUSED", names["unk_token"]]
    return [*_certain(first), ("<unk>NOTUSED", -100.0), *pieces[1:], (names["mask_token"], 0.0)]


def _t5(pieces: list[Piece], names: Names, settings: Settings) -> list[Piece]:
    """Put sentinels behind pieces, the last first (Raffel et al. 2020, section 3.1.4)."""
    return [*pieces, *_certain(_sentinels(names, settings)[::-1])]


def _pegasus(pieces: list[Piece], names: Names, settings: Settings) -> list[Piece]:
    """Put masks and unused tokens between the first two pieces and the others (Zhang et al. 2020)."""
    masks = [settings.get("mask_token") or "<mask_1>", settings.get("mask_token_sent") or "<mask_2>"]
    texts = [mask["content"] if isinstance(mask, dict) else str(mask) for mask in masks]
    first = [names["pad_token"], names["eos_token"], *dict.fromkeys(texts)]
    return [*_certain(first), *((name, -100.0) for name in _unused(settings)), *pieces[2:]]


def _certain(names: list[str]) -> list[Piece]:
    return [(name, 0.0) for name in names]


def _sentinels(names: Names, settings: Settings) -> list[str]:
    return [f"<extra_id_{index}>" for index in range(int(settings.get("extra_ids", 100)))]


def _unused(settings: Settings) -> list[str]:
    return [f"<unk_{index}>" for index in range(2, int(settings.get("offset", 103)))]


def _albert(characters: Steps, settings: Settings) -> Steps:
    quotes = [normalizers.Replace(quote, '"') for quote in ("``", "''")]
    accents = [] if settings.get("keep_accents", False) else [normalizers.NFKD(), normalizers.StripAccents()]
    return [*quotes, *accents, *_lower(settings, default=True), *characters]


def _deberta(characters: Steps, settings: Settings) -> Steps:
    """Compose characters in place of the model's map, as the reference library does from its version 5."""
    spaces = normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " ")
    return [*_lower(settings, default=False), spaces, normalizers.NFC(), normalizers.Strip(left=False, right=True)]


def _lower(settings: Settings, *, default: bool) -> Steps:
    return [normalizers.Lowercase()] if settings.get("do_lower_case", default) else []


def _without_runs(characters: Steps, settings: Settings) -> Steps:
    """Make one space of several, behind the map of characters."""
    return [*characters, normalizers.Replace(Regex(" {2,}"), " ")]


def _pegasus_steps(characters: Steps, settings: Settings) -> Steps:
    return _without_runs(characters or [normalizers.Replace(Regex(r"\n"), " ")], settings)


def _at_punctuation(settings: Settings) -> list[pre_tokenizers.PreTokenizer]:
    return [pre_tokenizers.Punctuation(behavior="isolated")] if settings.get("split_by_punct", False) else []


def _siglip(characters: Steps, settings: Settings) -> Steps:
    """Leave out punctuation, and spaces around a text, before the model's map of characters and behind it."""
    punctuation = normalizers.Replace(Regex(f"[{re.escape(string.punctuation)}]"), "")
    spaces = [normalizers.Replace(Regex(rf"[\s{SPACE}]+"), " "), normalizers.Strip()]
    return [*_lower(settings, default=True), punctuation, *spaces, *characters, *spaces]


def _nowhere(settings: Settings) -> list[pre_tokenizers.PreTokenizer]:
    return []


ROBERTA = ("{bos_token}:0 $A:0 {eos_token}:0", "{bos_token}:0 $A:0 {eos_token}:0 {eos_token}:0 $B:0 {eos_token}:0")
BERT = ("{cls_token}:0 $A:0 {sep_token}:0", "{cls_token}:0 $A:0 {sep_token}:0 $B:1 {sep_token}:1")
T5_ENDS = ("$A:0 {eos_token}:0", "$A:0 {eos_token}:0 $B:0 {eos_token}:0")
ONE_END = ("$A:0 {eos_token}:0", "$A:0 $B:0 {eos_token}:0")
MBART_ENDS = ("$A:0 {eos_token}:0 {language}:0", "$A:0 $B:0 {eos_token}:0 {language}:0")
MBART50_ENDS = ("{language}:0 $A:0 {eos_token}:0", "{language}:0 $A:0 $B:0 {eos_token}:0")
"""Templates of one text, and of two."""

XLM_ROBERTA = PieceClass(BPE_MODEL, ROBERTA, _fairseq())
CAMEMBERT = PieceClass(BPE_MODEL, ROBERTA, _camembert)
T5 = PieceClass(SPIECE, T5_ENDS, _t5, _sentinels, unprefixed="always")
ALBERT = PieceClass(SPIECE, BERT, normalize=_albert)
DEBERTA = PieceClass(SPM, BERT, normalize=_deberta, split=_at_punctuation, unprefixed="first")
BIG_BIRD = PieceClass(SPIECE, BERT, normalize=lambda *_: [normalizers.Replace(Regex(" {2,}"), SPACE)], split=_nowhere)
PEGASUS = PieceClass(
    SPIECE,
    ONE_END,
    _pegasus,
    lambda names, settings: [str(settings.get("mask_token_sent") or "<mask_1>"), *_unused(settings)],
    _pegasus_steps,
    _nowhere,
)
SIGLIP = PieceClass(SPIECE, T5_ENDS, normalize=_siglip, split=_nowhere)
MBART = PieceClass(BPE_MODEL, MBART_ENDS, _fairseq(*MBART_LANGUAGES), lambda *_: [*MBART_LANGUAGES], lambda *_: [])
MBART50 = PieceClass(
    BPE_MODEL, MBART50_ENDS, _fairseq(*MBART50_LANGUAGES), lambda *_: [*MBART50_LANGUAGES], _without_runs, _nowhere
)
