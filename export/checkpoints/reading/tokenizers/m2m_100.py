"""Convert the tokenizer of an M2M-100 checkpoint (a SentencePiece model and a vocabulary) to `tokenizer.json`.

A text is cut into the pieces of the model; `vocab.json` gives their indices, and the languages have those behind it, in
an order that is no part of the checkpoint. A language's token that is written in a text, as `__fr__`, is that token.

A piece of the model that the vocabulary lacks is not used: other pieces stand where `transformers.M2M100Tokenizer` has
`<unk>`.
"""

from pathlib import Path

from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined] # made at import
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from export.checkpoints.reading.tokenizers.sentencepiece_model import (
    character_normalizers,
    piece_decoder,
    read_model,
    read_vocabulary,
)
from export.errors import TokenizerError

MODEL, VOCABULARY = "sentencepiece.bpe.model", "vocab.json"
SPECIALS = START, PAD, END, UNKNOWN = "<s>", "<pad>", "</s>", "<unk>"
LANGUAGES = {
    # Fan et al. 2020, table 1, and the system for WMT 2021 (Tran et al. 2021), as the reference library orders them
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu "
        "hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt "
        "ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
    ).split(),
    "wmt21": "en ha is ja cs ru zh de".split(),
}
"""Setting `language_codes` of the tokenizer -> codes in the order of their tokens."""


def convert(folder: Path, language_codes: object = None) -> str:
    """Return `tokenizer.json`, without a template of special tokens. Raises TokenizerError."""
    codes = LANGUAGES.get("m2m100" if language_codes is None else str(language_codes))
    if codes is None:
        raise TokenizerError(f"tokenizer_config.json: language_codes must be one of {', '.join(LANGUAGES)}")
    model = read_model(folder / MODEL, ("UNIGRAM", "BPE"))
    vocabulary = read_vocabulary(folder / VOCABULARY, SPECIALS)
    try:
        tokenizer = Tokenizer(_model(model, vocabulary))
    except Exception as error:  # the library raises plain Exceptions
        raise TokenizerError(f"{MODEL}: tokenizer cannot be built ({error}); fetch the checkpoint again") from error
    tokenizer.normalizer = normalizers.Sequence(
        [*character_normalizers(model), normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    words = model.trainer_spec.split_by_whitespace
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=words)
    tokenizer.decoder = piece_decoder()
    named = [*SPECIALS, *(f"__{code}__" for code in codes)]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in named])
    return tokenizer.to_str()


def _model(model: ModelProto, vocabulary: dict[str, int]) -> models.Model:
    """Return the model of pieces, by the indices of the vocabulary."""
    normal = [piece for piece in model.pieces if piece.type == piece.NORMAL and piece.piece in vocabulary]
    scores = {piece.piece: piece.score for piece in normal}
    if model.trainer_spec.model_type == model.trainer_spec.BPE:
        return models.BPE(vocabulary, _merges(scores), unk_token=UNKNOWN, fuse_unk=True)
    lowest = min(scores.values()) - 1
    # a name that is no piece of the model is never found: its characters score better
    pieces = [
        (name, scores.get(name, lowest * (len(name) + 1)))
        for name in sorted(vocabulary, key=lambda one: vocabulary[one])
    ]
    return models.Unigram(pieces, vocabulary[UNKNOWN], byte_fallback=False)


def _merges(scores: dict[str, float]) -> list[tuple[str, str]]:
    """Return which two pieces join to which, the best first: SentencePiece joins the pair with the best score."""
    cuts = [
        (score, piece[:place], piece[place:])
        for piece, score in scores.items()
        for place in range(1, len(piece))
        if piece[:place] in scores and piece[place:] in scores
    ]
    return [(left, right) for _, left, right in sorted(cuts, key=lambda cut: -cut[0])]
