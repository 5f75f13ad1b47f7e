"""A small M2M-100 checkpoint's SentencePiece model and vocabulary."""

import json
import random
from pathlib import Path

from export.checkpoints.reading.tokenizers.m2m_100 import LANGUAGES
from tests.samples.export_marian import ENGLISH, FRENCH, RUSSIAN, sentences, train


def make(folder: Path, kind: str = "unigram") -> Path:
    """Write the files of a tokenizer to a folder, as the published ones are; the model's kind is unigram or bpe."""
    folder.mkdir(exist_ok=True)
    lines = [*sentences(ENGLISH, 300, 1), *sentences(FRENCH, 300, 2), *sentences(RUSSIAN, 200, 3)]
    pieces = train(folder / "sentencepiece.bpe.model", lines, model_type=kind, vocab_size=260)
    random.Random(4).shuffle(pieces)
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    (folder / "vocab.json").write_text(json.dumps({name: index for index, name in enumerate(names)}))
    tokens = [f"__{code}__" for code in LANGUAGES["m2m100"]]
    (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": tokens}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 1024}))
    return folder
