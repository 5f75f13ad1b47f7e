"""Convert the tokenizer of a Marian checkpoint (SentencePiece models and vocabularies) to `tokenizer.json`.

SentencePiece (Kudo and Richardson, 2018) cuts a text into pieces of a unigram model (Kudo, 2018); `vocab.json` gives
their indices. What only the vocabulary knows stands for a part of a text in two places: a language code at the start,
and a run of characters foreign to the source model, if the whole run is such a piece. A normalised text holds no space,
so one is put after these, and the names of such pieces end in one; the names of the others end in two, never found.

What differs from `transformers.MarianTokenizer`:

- A piece of the source model that the vocabulary lacks is not used: other pieces stand where Marian has `<unk>`.
- Combining marks in an unusual order are put in order; one after a compatibility form (ﬁ, ª, №) may be lost.
- A full-width language code is a language code, and so is one after invisible characters.
- A full-width `</s>` is an end, if one of its characters is foreign to the source model.
- Of segmentations that score the same (aa-a, a-aa) another may win: the sums are in float64, not in float32.
- Where the vocabularies are separate, the special tokens left out of a decoded text are the target's own.
"""

import re
from itertools import groupby
from pathlib import Path

from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined] # made at import
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, processors

from export.checkpoints.reading.tokenizers.sentencepiece_model import (
    character_normalizers,
    piece_decoder,
    read_model,
    read_object,
    read_vocabulary,
)
from export.errors import TokenizerError

UNIGRAM = ("UNIGRAM",)
END, UNKNOWN, PAD = SPECIALS = ("</s>", "<unk>", "<pad>")
LANGUAGE_CODE = r">>(?:(?!<<)[\s\S])*<<"
"""A language code, such as >>fra<<."""


def convert(folder: Path) -> tuple[str, str]:
    """Return `tokenizer.json` for the sources and for the targets of a checkpoint. Raises TokenizerError."""
    source, target = read_model(folder / "source.spm", UNIGRAM), read_model(folder / "target.spm", UNIGRAM)
    vocabulary = targets = read_vocabulary(folder / "vocab.json", SPECIALS)
    if _has_separate_vocabularies(folder / "tokenizer_config.json"):
        targets = read_vocabulary(folder / "target_vocab.json", SPECIALS)
    else:
        target = source  # as MarianTokenizer decodes
    try:
        encoder = _encoder(source, vocabulary)
        decoder = _decoder(target, targets)
        for code in filter(re.compile(LANGUAGE_CODE).fullmatch, vocabulary):
            if encoder.encode(code).ids != [vocabulary[code], vocabulary[END]]:
                raise TokenizerError(f"vocab.json: {code!r} is changed by source.spm; take it out")
        return encoder.to_str(pretty=True), decoder.to_str(pretty=True)
    except TokenizerError:
        raise
    except Exception as error:  # the library raises plain Exceptions
        raise TokenizerError(f"source.spm: tokenizer cannot be built ({error}); fetch the checkpoint again") from error


def _encoder(model: ModelProto, vocabulary: dict[str, int]) -> Tokenizer:
    """Return the tokenizer from texts to indices."""
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type == piece.NORMAL}
    native = {"▁", " "}.union(*scores)
    lowest = min(scores.values()) - 1
    pieces, codes, words = [], [], []
    for name in sorted(vocabulary, key=lambda name: vocabulary[name]):
        if name in SPECIALS:
            pieces.append((name, lowest * len(name)))  # the characters score better
        elif re.fullmatch(LANGUAGE_CODE, name):
            pieces.append((name + " ", 0.0))
            codes.append(name)
        elif native.isdisjoint(name):
            pieces.append((name + " ", 0.0))
            words.append(name)
        else:
            pieces.append((name, scores[name]) if name in scores else (name + "  ", 0.0))

    known = rf"\A(?:{_any_of(codes)})"
    foreign = f"[^{''.join(map(re.escape, sorted(native)))}]"
    run = f"(?<!{foreign})(?={foreign})(?:{_any_of(words)})(?!{foreign})"
    tokenizer = Tokenizer(models.Unigram(pieces, vocabulary[UNKNOWN], byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            *character_normalizers(model),
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Replace(Regex(rf"\A(?:{LANGUAGE_CODE})?+\K ?(?=[\s\S])"), "▁"),
            normalizers.Replace(Regex(r"(?<![ ▁])[ ▁]+\z"), ""),
            normalizers.Replace(" ", "▁"),
            normalizers.Replace(
                Regex(rf"(?!{known})\A>(?={LANGUAGE_CODE[1:]})"), " "
            ),  # an unknown code: two spaces, the
            normalizers.Replace(Regex(rf"\A \K{LANGUAGE_CODE[1:]}"), " "),  # first and the last character of one <unk>
            normalizers.Replace(Regex(rf"(?:{known}|{run})\K"), " "),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(f"$A {END}", special_tokens=[(END, vocabulary[END])])
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in SPECIALS])
    return tokenizer


def _any_of(words: list[str]) -> str:
    """Return an expression for any of the words, grouped by first character: it is tried on many texts."""
    groups = [(first, list(group)) for first, group in groupby(sorted(words), key=lambda word: word[0])]
    rests = [(first, "|".join(re.escape(word[1:]) for word in group)) for first, group in groups]
    return "|".join(f"{re.escape(first)}(?:{rest})" for first, rest in rests) or "(?!)"


def _decoder(model: ModelProto, vocabulary: dict[str, int]) -> Tokenizer:
    """Return the tokenizer from indices to text."""
    silent = [piece.piece for piece in model.pieces if piece.type == piece.CONTROL and piece.piece in vocabulary]
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in (*SPECIALS, *silent)])
    tokenizer.decoder = piece_decoder()
    return tokenizer


def _has_separate_vocabularies(file: Path) -> bool:
    """True if the targets have a vocabulary of their own, by the tokenizer's settings."""
    settings = read_object(file) if file.exists() else {}
    for role, name in zip(("eos_token", "unk_token", "pad_token"), SPECIALS, strict=True):
        given = settings.get(role, name)
        if name not in (given, given.get("content") if isinstance(given, dict) else None):
            raise TokenizerError(f"{file.name}: {role} must be {name}, given {given!r}; rename it in every file")
    separate = settings.get("separate_vocabs", False)
    if not isinstance(separate, bool):
        raise TokenizerError(f"{file.name}: separate_vocabs must be true or false, given {separate!r}; mend it")
    return separate
