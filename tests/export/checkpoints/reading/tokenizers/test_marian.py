"""A Marian tokenizer, converted, gives the numbers and the texts of the reference library."""
# ruff: noqa: RUF001 # the texts hold look-alikes on purpose

import json
import random
import re
import shutil
import unicodedata
import warnings

import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from transformers import MarianTokenizer

from export.checkpoints.reading.tokenizers.marian import convert
from export.errors import TokenizerError
from tests.samples.export_marian import ENGLISH, make, message, sentences, train, write

TEXTS = [
    "", " ", "   ", "\t", "\n", "\r\n", "\u200b", "\x01", "▁", " ▁ ", "▁▁a", "a▁", "a", " a", "a ", "  a  b  ",
    "a\tb", "a\nb", "a\r\nb\r\n", "the old house", "The Old House", "THE HOUSE", "le château cassé",
    "un élève à l’école, où ?", "L'élève", "thé", "the thé the", "ès é", "aé", "éa é the",
    "cafe\u0301 e\u0301le\u0300ve", "garc\u0327on", "Ａｂｃ　１２３", "ﬁn ﬂeuve oﬃce", "½ ² ™ № ℡ ㎏", "…", "......",
    "a...b", "1,234.56", "①②", "😀", "a 😀 b", "😀😀😀", "a😀b", "👨‍👩‍👧 family", "1️⃣", "🇫🇷 la France", "дом",
    "на", "дом река", "домдом", "a дом b", "на юге", "на юге тихо", "в", "д", "ж ж", "日本", "日本語のテキスト",
    "the 日本 house", "ｶﾞｷﾞ", "ｶﾞ", "한국어", unicodedata.normalize("NFD", "한국어"),
    unicodedata.normalize("NFD", "Tiếng Việt"), "العربية", "שלום", "हिन्दी", "ไทย", "~ ～", "\u00a0a\u00a0\u00a0b",
    "\u3000", ">>fra<< the old house", ">>fra<<the old house", ">>fra<<  the", ">>fra<<", ">>fra<< ", " >>fra<< the",
    ">>rus<< дом", ">>rus<<дом", ">>xyz<< the house", ">>xyz<<the", ">>xyz<<", ">>a b<< c", ">><< a", ">>fra the",
    ">>fra<", "<<", ">>", "a >>fra<< b", ">>fra<<>>rus<< a", ">>zho_Hans<< a", ">>FRA<< a", ">>дом<< a",
    "a >> b << c", "</s>", "a</s>b", "a </s> b", "<unk>", "a<unk> b<pad>", "</s>>>fra<< a", "<s> a", "<pad", "</ s>",
    "the\u2028old", "soft\u00adhyphen", "\ufeffthe", "zero\u200dwidth", "\u202ethe", "x" * 100, "the " * 50,
    "!?" * 9, "Ω≈ç√∫", "ÀÉÎÕÜ", "ß ẞ", "İstanbul", "ﷺ", "\U0010ffff", "\ue000", "�", "\x00a", "a\x7fb",
    "naïve façade", "“quoted” ‘text’", "a—b–c-d", "§ 5", "€ 5", "50 %", "e=mc²", "http://a.b/c?d=e", "<b>the</b>",
    "{} [] \\ ^ - &&",
]  # fmt: skip


LETTERS = sorted(
    letter
    for letter in set("".join(TEXTS) + "etaoin shrdlu çéñ ßøåþ łąę дом日本語ひらカナ😀👍①½ﬁ")
    if not unicodedata.category(letter).startswith("M") and letter not in "＜／ｓ＞\uff9e"  # see the differences
)


def reference(folder):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
        return MarianTokenizer.from_pretrained(folder)


def differing(ours, theirs, texts):
    pairs = [(text, ours.encode(text).ids, theirs(text)["input_ids"]) for text in texts]
    return [pair for pair in pairs if pair[1] != pair[2]]


def mixtures(count, seed):
    draw = random.Random(seed)
    parts = [lambda: draw.choice(LETTERS), lambda: draw.choice(TEXTS), lambda: draw.choice(["the", " ", "é", "house"])]
    texts = ["".join(draw.choice(parts)() for _ in range(draw.randrange(12))) for _ in range(count)]
    return [text for text in texts if not text.startswith(("\x01", "\x7f"))]  # they vanish: see the differences


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    return make(tmp_path_factory.mktemp("marian") / "checkpoint")


@pytest.fixture(scope="session")
def theirs(checkpoint):
    return reference(checkpoint)


@pytest.fixture(scope="session")
def texts(checkpoint):
    return convert(checkpoint)


@pytest.fixture(scope="session")
def encoder(texts):
    return Tokenizer.from_str(texts[0])


@pytest.fixture(scope="session")
def decoder(texts):
    return Tokenizer.from_str(texts[1])


@pytest.fixture
def copy(checkpoint, tmp_path):
    return shutil.copytree(checkpoint, tmp_path / "copy")


def test_the_vocabulary_of_the_example_knows_pieces_that_the_source_model_does_not(checkpoint):
    known = {piece.piece for piece in message(checkpoint / "source.spm").pieces}
    foreign = {name for name in json.loads((checkpoint / "vocab.json").read_text()) if name not in known}
    assert len(foreign) > 50
    assert len(TEXTS) > 100


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_has_the_indices_of_the_reference(encoder, theirs, text):
    assert encoder.encode(text).ids == theirs(text)["input_ids"]


def test_mixtures_of_texts_and_characters_have_the_indices_of_the_reference(encoder, theirs):
    assert differing(encoder, theirs, mixtures(3000, seed=0)) == []


@pytest.mark.parametrize(
    "options",
    [
        {"normalization_rule_name": "identity"},
        {"normalization_rule_name": "nfkc"},
        {"control_symbols": ["<x>"], "pad_id": 3},
        {"split_by_whitespace": False},
    ],
    ids=str,
)
def test_models_with_other_settings_have_the_indices_and_texts_of_the_reference(tmp_path, options):
    folder = make(tmp_path / "checkpoint", **options)
    encoder, decoder = map(Tokenizer.from_str, convert(folder))
    theirs = reference(folder)
    assert differing(encoder, theirs, TEXTS + mixtures(300, seed=1)) == []
    same_texts(decoder, theirs, 100)


def test_the_indices_are_those_of_the_vocabulary_and_not_of_the_model(encoder, checkpoint):
    vocabulary = json.loads((checkpoint / "vocab.json").read_text())
    encoding = encoder.encode(">>rus<< the house")
    assert encoding.ids[:2] == [vocabulary[">>rus<<"], vocabulary["▁the"]]
    assert encoding.ids[-1] == vocabulary["</s>"] == 0
    assert vocabulary["<pad>"] == len(vocabulary) - 1 == encoder.get_vocab_size() - 1


def test_a_foreign_run_is_one_unknown_and_a_foreign_run_that_is_a_piece_is_that_piece(encoder, checkpoint):
    vocabulary = json.loads((checkpoint / "vocab.json").read_text())
    for text, name in {
        "日": "日",
        "日本": "日本",
        "本": "<unk>",
        "日日": "<unk>",
        "本日本": "<unk>",
        "日本本": "<unk>",
    }.items():
        assert encoder.encode(text).ids == [vocabulary["▁"], vocabulary[name], 0], text


def test_a_full_width_end_is_its_characters_where_the_model_knows_them(copy):
    known = train(copy / "source.spm", sentences(ENGLISH, 300, 1) + ["< / s >", "u n k p a d"] * 20)
    write(copy / "vocab.json", known)
    encoder, theirs = Tokenizer.from_str(convert(copy)[0]), reference(copy)
    assert {"<", "/", "s", ">"} < set(known)
    assert differing(encoder, theirs, ["a＜／ｓ＞", "＜／ｓ＞", "＜ｕｎｋ＞ a", "＜pad＞", "</s>"]) == []


def test_a_piece_of_the_model_that_the_vocabulary_lacks_is_replaced_by_other_pieces(copy):
    vocabulary = json.loads((copy / "vocab.json").read_text())
    write(copy / "vocab.json", [name for name in list(vocabulary)[2:-4] if name != "▁the"])
    encoder, theirs = Tokenizer.from_str(convert(copy)[0]), reference(copy)
    assert theirs("the")["input_ids"] == [1, 0]
    assert 1 not in encoder.encode("the").ids
    assert differing(encoder, theirs, ["a dog", "every house", "日本 é"]) == []


def test_what_is_said_to_differ_from_the_reference_differs_in_the_way_that_is_said(encoder, theirs):
    for text, alike in {
        "№\u0301": "№",
        "c\u0323\u0327": "ç\u0323",
        "＞＞fra＜＜ a": ">>fra<< a",
        "\x01>>fra<< a": ">>fra<< a",
        "a＜／ｓ＞": "a</s>",
    }.items():
        assert encoder.encode(text).ids == theirs(alike)["input_ids"] != theirs(text)["input_ids"], text


@pytest.mark.parametrize("text", [text for text in TEXTS if "<" not in text])
def test_the_spans_stand_in_order_and_hold_what_was_sent(encoder, text):
    encoding = encoder.encode(text)
    for start, stop in encoding.offsets:
        assert 0 <= start <= stop <= len(text)
    starts = [start for start, _ in encoding.offsets[:-1]]
    assert starts == sorted(starts)
    covered = {place for start, stop in encoding.offsets for place in range(start, stop)}
    assert all(composes(letter) for place, letter in enumerate(text) if place not in covered)


def composes(letter):
    """Return whether a letter may have no span: it is a space, part of the letter before it, or no letter."""
    return bool(
        not letter.strip(" ▁\ufffd\u200b\ufeff") or unicodedata.category(letter) in ("Mn", "Cc", "Zs", "Lm", "Lo")
    )


@pytest.mark.parametrize(
    ("text", "pieces"),
    {
        "the a house": "the| a| |hou|se",
        "  the   a ": " the| a",
        "Ａ ﬁ": "|Ａ| ﬁ|ﬁ",
        "the 日本語 é😀": "the| |日本語| |é😀",
        "cafe\u0301": "c|a|f|e",
        ">>fra<< the a": ">>fra<<| the| a",
        ">>xyz<< the a": ">>xyz<<| the| a",
        "the</s> a": "the|</s>| a",
        "日本": "|日本",
    }.items(),
)
def test_the_text_at_a_span_is_what_the_token_stands_for(encoder, text, pieces):
    encoding = encoder.encode(text)
    assert "|".join(text[start:stop] for start, stop in encoding.offsets[:-1]) == pieces
    assert encoding.special_tokens_mask == [0] * (len(encoding) - 1) + [1]


def same_texts(decoder, theirs, count):
    draw = random.Random(7)
    for _ in range(count):
        indices = [draw.randrange(decoder.get_vocab_size()) for _ in range(draw.randrange(16))]
        text = theirs.decode(indices, skip_special_tokens=True)
        assert decoder.decode(indices, skip_special_tokens=True) == text, indices
        stream = DecodeStream(skip_special_tokens=True)
        assert "".join(stream.step(decoder, index) or "" for index in indices) == text, indices


def test_indices_decode_to_the_texts_of_the_reference_at_once_and_in_a_stream(decoder, theirs):
    same_texts(decoder, theirs, 1000)


def test_the_special_tokens_are_left_out_of_a_text(decoder, checkpoint):
    vocabulary = json.loads((checkpoint / "vocab.json").read_text())
    indices = [vocabulary[name] for name in ["<pad>", "▁le", "<unk>", "▁", "<s>", "日本", "</s>", "<pad>"]]
    assert decoder.decode(indices, skip_special_tokens=True) == "le 日本"


def test_separate_vocabularies_encode_by_the_first_and_decode_by_the_second(copy):
    for side, file in (("source", "vocab.json"), ("target", "target_vocab.json")):
        known = [piece.piece for piece in message(copy / f"{side}.spm").pieces][3:]
        fill = [f"{side}{index}" for index in range(300 - len(known))]  # the reference takes one <pad> for both
        write(copy / file, known + fill)
    (copy / "tokenizer_config.json").write_text('{"separate_vocabs": true, "eos_token": {"content": "</s>"}}')
    encoder, decoder = map(Tokenizer.from_str, convert(copy))
    (copy / "tokenizer_config.json").write_text('{"separate_vocabs": true}')
    theirs = reference(copy)
    assert differing(encoder, theirs, TEXTS) == []
    same_texts(decoder, theirs, 200)


def test_the_same_folder_gives_the_same_texts(checkpoint, texts):
    assert convert(checkpoint) == texts


def vocabulary_without(name):
    def spoil(folder):
        table = json.loads((folder / "vocab.json").read_text())
        names = [other for other in table if other != name]
        (folder / "vocab.json").write_text(json.dumps({other: index for index, other in enumerate(names)}))

    return spoil


def file(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def missing(name):
    return lambda folder: (folder / name).unlink()


def trained(**options):
    return lambda folder: train(folder / "source.spm", sentences(ENGLISH, 300, 1), **options)


def edited(change):
    def spoil(folder):
        model = message(folder / "source.spm")
        change(model)
        (folder / "source.spm").write_bytes(model.SerializeToString())

    return spoil


REFUSED = {
    "source.spm: cannot be read (No such file or directory)": missing("source.spm"),
    "target.spm: cannot be read (No such file or directory)": missing("target.spm"),
    "vocab.json: cannot be read (No such file or directory)": missing("vocab.json"),
    "target_vocab.json: cannot be read (No such": file("tokenizer_config.json", b'{"separate_vocabs": true}'),
    "vocab.json: is no JSON (Expecting property name": file("vocab.json", b"{"),
    "vocab.json: is no JSON ('utf-8' codec": file("vocab.json", b'{"\xff": 0}'),
    "vocab.json: is no JSON (maximum recursion": file("vocab.json", b"[" * 100_000),
    "vocab.json: must hold an object, given list": file("vocab.json", b"[]"),
    "vocab.json: must map pieces, none of them empty, to whole numbers; mend": file("vocab.json", b'{"a": "0"}'),
    "vocab.json: must map pieces, none of them empty, to whole numbers; ": file("vocab.json", b'{"a": true}'),
    "vocab.json: must map pieces, none of them empty, to whole numbers": file("vocab.json", b'{"": 0}'),
    "vocab.json: indices must be 0 to 1, each once; mend": file("vocab.json", b'{"a": 0, "b": 2}'),
    "vocab.json: indices must be 0 to 1, each once; ": file("vocab.json", b'{"a": 0, "b": 0}'),
    "vocab.json: indices must be 0 to 1, each once": file("vocab.json", b'{"a": -1, "b": 0}'),
    "vocab.json: has no </s>": vocabulary_without("</s>"),
    "vocab.json: has no <unk>": vocabulary_without("<unk>"),
    "vocab.json: has no <pad>": vocabulary_without("<pad>"),
    "source.spm: tokenizer cannot be built ('utf-8' codec": file(
        "vocab.json", b'{"</s>": 0, "<unk>": 1, "<pad>": 2, "\\ud800": 3}'
    ),
    "vocab.json: '>>zho_Hans<<' is changed by source.spm": trained(normalization_rule_name="nmt_nfkc_cf"),
    "tokenizer_config.json: is no JSON": file("tokenizer_config.json", b""),
    "tokenizer_config.json: eos_token must be </s>, given '<e>'": file(
        "tokenizer_config.json", b'{"eos_token": "<e>"}'
    ),
    "tokenizer_config.json: pad_token must be <pad>, given {'content': 'p'}": file(
        "tokenizer_config.json", b'{"pad_token": {"content": "p"}}'
    ),
    "tokenizer_config.json: separate_vocabs must be true or false, given 1": file(
        "tokenizer_config.json", b'{"separate_vocabs": 1}'
    ),
    "source.spm: is no SentencePiece model (": file("source.spm", b"no model"),
    "target.spm: has no normal pieces": file("target.spm", b""),
    "source.spm: is no SentencePiece model": edited(lambda model: model.pieces.pop(0)),
    "source.spm: is a BPE model": trained(model_type="bpe"),
    "source.spm: is a WORD model": trained(model_type="word"),
    "source.spm: is a CHAR model": trained(model_type="char"),
    "source.spm: falls back to bytes (byte_fallback)": trained(byte_fallback=True, vocab_size=400),
    "source.spm: has user-defined symbols": trained(user_defined_symbols=["<x>"]),
    "source.spm: is no SentencePiece model (INTERNAL: no pieces": edited(
        lambda model: model.pieces.__delitem__(slice(3, None))
    ),
    "source.spm: has treat_whitespace_as_suffix": trained(treat_whitespace_as_suffix=True),
    "source.spm: lacks escape_whitespaces": edited(
        lambda model: setattr(model.normalizer_spec, "escape_whitespaces", False)
    ),
    "source.spm: lacks add_dummy_prefix": trained(add_dummy_prefix=False),
    "source.spm: lacks remove_extra_whitespaces": trained(remove_extra_whitespaces=False),
    "source.spm: has a denormalizer": edited(
        lambda model: setattr(
            model.denormalizer_spec, "precompiled_charsmap", model.normalizer_spec.precompiled_charsmap
        )
    ),
}


@pytest.mark.parametrize(("words", "spoil"), REFUSED.items(), ids=REFUSED)
def test_a_fault_is_refused_in_one_line_that_names_the_file(copy, words, spoil):
    spoil(copy)
    with pytest.raises(TokenizerError) as refusal:
        convert(copy)
    line = str(refusal.value)
    assert words in line
    assert re.match(r"((source|target)\.spm|(target_)?vocab\.json|tokenizer_config\.json): ", line)
    assert "\n" not in line
    assert ";" in line
