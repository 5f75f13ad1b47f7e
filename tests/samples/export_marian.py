"""A small Marian checkpoint's SentencePiece models and vocabulary."""
# ruff: noqa: RUF001 # the texts hold look-alikes on purpose

import json
import random

import sentencepiece
from sentencepiece.sentencepiece_model_pb2 import ModelProto

ROOMY = {"hard_vocab_limit": False, "num_threads": 1, "minloglevel": 2, "character_coverage": 1.0}


ENGLISH = (
    "the a my our this every|old new small green quiet broken|house dog teacher river letter machine window|"
    "sees reads opens follows forgets carries|a friend the garden two books the long road some water|"
    "today again in the morning, slowly. without a word! (at 7:45) – why? [a^b] c\\d-e"
)


FRENCH = (
    "le un mon notre ce chaque|vieux nouveau petit vert tranquille cassé|château chien maître fleuve élève garçon|"
    "voit lit ouvre suit oublie porte|un ami le jardin deux livres la longue route de l’eau|"
    "aujourd’hui encore le matin, lentement. sans un mot ! (à 7 h 45) – où ?"
)


RUSSIAN = "дом река на юге|стоит течёт спит|тихо, быстро. снова"


def sentences(words, count, seed):
    columns = [part.split() for part in words.split("|")]
    draw = random.Random(seed)
    return [" ".join(draw.choice(column) for column in columns) for _ in range(count)]


def train(file, lines, **options):
    settings = {"vocab_size": 220, "normalization_rule_name": "nmt_nfkc"} | ROOMY | options
    with file.open("wb") as written:
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=written, **settings)
    return [piece.piece for piece in message(file).pieces if piece.type == piece.NORMAL]


def message(file):
    return ModelProto.FromString(file.read_bytes())


def write(file, pieces, codes=(">>fra<<", ">>rus<<", ">>zho_Hans<<")):
    """Write a vocabulary as Marian does: end and unknown first, pieces in an order of its own, padding last."""
    order = sorted(set(pieces))
    random.Random(1).shuffle(order)
    table = ["</s>", "<unk>", *order, *codes, "<pad>"]
    file.write_text(json.dumps({name: index for index, name in enumerate(table)}))


def make(folder, **options):
    folder.mkdir(exist_ok=True)
    source = train(folder / "source.spm", sentences(ENGLISH, 300, 1), **options)
    options = {"control_symbols": ["<y>"]} | options
    target = train(folder / "target.spm", sentences(FRENCH, 200, 2) + sentences(RUSSIAN, 200, 3), **options)
    others = ["日", "日本", "😀", "ガ", "é", "▁é", "thé", "▁thé", "ès", "é▁the", "<s>", "<y>", "\u00a0a\x1c"]
    write(folder / "vocab.json", [*source, *target, *others])
    return folder
