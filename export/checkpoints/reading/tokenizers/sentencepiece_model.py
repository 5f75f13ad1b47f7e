"""SentencePiece models (Kudo and Richardson, 2018): read what can be converted to `tokenizer.json`."""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined] # made at import
from tokenizers import Regex, decoders, normalizers

from export.errors import TokenizerError


def parse_model(file: Path, kinds: Collection[str]) -> ModelProto:
    """Parse a SentencePiece model of one of some kinds, UNIGRAM or BPE. Raises TokenizerError for all others."""
    content = _read_bytes(file)
    try:
        SentencePieceProcessor(model_proto=content).get_piece_size()  # checks more than the parser does
        model = ModelProto.FromString(content)
    except Exception as error:  # of several libraries
        raise TokenizerError(f"{file.name}: is no SentencePiece model ({error}); fetch the checkpoint again") from error
    kind = model.trainer_spec.ModelType.Name(model.trainer_spec.model_type)
    normal = any(piece.type == piece.NORMAL for piece in model.pieces)
    _refuse(file, kinds, ((not normal, "has no normal pieces"), (kind not in kinds, f"is a {kind} model")))
    return model


def read_model(file: Path, kinds: Collection[str]) -> ModelProto:
    """Parse a SentencePiece model, and refuse one with options that the conversion does not know. Raises as above."""
    model = parse_model(file, kinds)
    trainer, normalizer, types = model.trainer_spec, model.normalizer_spec, {piece.type for piece in model.pieces}
    options = (
        (trainer.byte_fallback or model.SentencePiece.BYTE in types, "falls back to bytes (byte_fallback)"),
        (model.SentencePiece.USER_DEFINED in types, "has user-defined symbols"),
        (trainer.treat_whitespace_as_suffix, "has treat_whitespace_as_suffix"),
        (not normalizer.escape_whitespaces, "lacks escape_whitespaces"),
        (not normalizer.add_dummy_prefix, "lacks add_dummy_prefix"),
        (not normalizer.remove_extra_whitespaces, "lacks remove_extra_whitespaces"),
        (model.denormalizer_spec.precompiled_charsmap, "has a denormalizer"),
    )
    _refuse(file, kinds, options)
    return model


def _refuse(file: Path, kinds: Collection[str], options: Iterable[tuple[object, str]]) -> None:
    for refused, what in options:
        if refused:
            raise TokenizerError(
                f"{file.name}: {what}, which cannot be converted; take a plain {' or '.join(kinds).lower()} model"
            )


def read_vocabulary(file: Path, specials: Collection[str]) -> dict[str, int]:
    """Read a vocabulary with some special tokens: piece -> index. Raises TokenizerError."""
    vocabulary = read_object(file)
    if not all(name and type(index) is int for name, index in vocabulary.items()):
        raise TokenizerError(f"{file.name}: must map pieces, none of them empty, to whole numbers; mend it")
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise TokenizerError(f"{file.name}: indices must be 0 to {len(vocabulary) - 1}, each once; mend it")
    for name in specials:
        if name not in vocabulary:
            raise TokenizerError(f"{file.name}: has no {name}; add it, with a row in the weights")
    return vocabulary


def character_normalizers(model: ModelProto) -> list[normalizers.Normalizer]:
    """Return the normalisation of characters."""
    steps: list[normalizers.Normalizer] = []
    if model.normalizer_spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap))
    if "nfkc" in model.normalizer_spec.name:  # SentencePiece composes longer sequences than Precompiled does
        return [normalizers.NFC(), *steps, normalizers.NFC()]
    return steps


def piece_decoder() -> decoders.Decoder:
    """Return what joins pieces to a text, without the spaces at its ends."""
    ends = decoders.Replace(Regex(r"\A[\s\x1c-\x1f]+|[\s\x1c-\x1f]+\z"), "")
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), ends])


def read_object(file: Path) -> dict[str, Any]:
    """Read the object in a JSON file. Raises TokenizerError."""
    content = _read_bytes(file)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{file.name}: is no JSON ({error}); fetch the checkpoint again") from error
    if not isinstance(value, dict):
        raise TokenizerError(
            f"{file.name}: must hold an object, given {type(value).__name__}; fetch the checkpoint again"
        )
    return value


def _read_bytes(file: Path) -> bytes:
    """Read a file. Raises TokenizerError."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise TokenizerError(f"{file.name}: cannot be read ({error.strerror}); fetch the checkpoint again") from error
