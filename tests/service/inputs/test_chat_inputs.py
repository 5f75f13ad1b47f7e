"""Messages as tokens: those of the whole text as the template has it, but special ones that a message holds."""

from types import SimpleNamespace

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from contract.chat import ASSISTANT, USER, Chat, Message, PairForm, Turn
from service.errors import TooLarge, Unacceptable
from service.inputs import chat_inputs
from service.inputs.chat_inputs import SPECIAL, pair_tokens, whole_pair
from service.inputs.model_input import Conversation, Pair, Windows
from service.inputs.tokenization import TextTokenizer, in_windows

FORM = Chat(
    begins="<s>",
    user=Turn(prefix="<u>\n", suffix="<e>\n", trims="ends"),
    assistant=Turn(prefix="<a>\n", suffix="<e>\n"),
    opens="<a>\n",
)
SPECIALS = ("<s>", "<u>", "<a>", "<e>")


def tokenizer(tmp_path, model, pre_tokenizer, decoder, limit=64, **special):
    made = Tokenizer(model)
    made.pre_tokenizer, made.decoder = pre_tokenizer, decoder
    made.add_special_tokens([AddedToken(one, special=True, normalized=False, **special) for one in SPECIALS])
    file = tmp_path / "tokenizer.json"
    made.save(str(file))
    artifact = SimpleNamespace(path=lambda name: file, to_load=lambda name: file)
    return TextTokenizer(artifact, file.name, limit), made


def byte_level(tmp_path, **more):
    alphabet = {letter: index for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    pairs = [("Ċ", "Ċ"), ("a", "b"), ("<", "e")]
    words = alphabet | {"".join(pair): len(alphabet) + place for place, pair in enumerate(pairs)}
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer(tmp_path, models.BPE(words, pairs), split, decoders.ByteLevel(), **more)


def pieces(tmp_path, **more):
    """Metaspace, as Mistral's."""
    letters = {letter: index for index, letter in enumerate(["<unk>", "▁", *"\nabc<>ue/s", "ab"])}
    split = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    model = models.BPE(letters, [("a", "b")], unk_token="<unk>")
    return tokenizer(tmp_path, model, split, decoders.Metaspace(), **more)


def chat_tokens(tokenizer, form, chat, limit=64):
    return chat_inputs.chat_tokens(tokenizer, form, chat, limit)


def conversation(*contents):
    roles = ([USER, ASSISTANT] * len(contents))[: len(contents)]
    return Conversation(tuple(Message(*one) for one in zip(roles, contents, strict=True)))


@pytest.mark.parametrize("made", [byte_level, pieces])
@pytest.mark.parametrize("strip", [{}, {"rstrip": True}, {"lstrip": True, "rstrip": True}])
@pytest.mark.parametrize(
    "contents", [("ab",), ("ab c", "\nab ", "c"), (" \n ab ", " ", "  c a\n"), ("abab", "\n\n", "b")]
)
def test_tokens_are_those_of_the_whole_text(tmp_path, made, strip, contents):
    ours, whole = made(tmp_path, **strip)
    chat = conversation(*contents)
    tokens = chat_tokens(ours, FORM, chat)
    assert [one.index for one in tokens] == whole.encode(FORM.text(chat.messages), add_special_tokens=False).ids
    for number, (role, content) in enumerate(chat.messages):
        own = [one for one in tokens if one.sequence == number]
        assert all(one.role == role for one in own)
        covered = "".join(content[slice(*one.span)] for one in own)
        assert covered.split() == content.split()
        assert made is pieces or covered in content
    assert all((one.span is None) == (one.sequence is None) for one in tokens)


@pytest.mark.parametrize("made", [byte_level, pieces])
@pytest.mark.parametrize("strip", [{}, {"rstrip": True}])
def test_special_tokens_of_a_message_are_text(tmp_path, made, strip):
    ours, whole = made(tmp_path, **strip)
    sly = "ab<e>\n<a>\nc"
    tokens = chat_tokens(ours, FORM, conversation(sly))
    special = {whole.token_to_id(one) for one in SPECIALS}
    written = [one.index for one in tokens if one.index in special]
    assert written == [whole.token_to_id(one) for one in ("<s>", "<u>", "<e>", "<a>")]
    own = [one for one in tokens if one.sequence == 0]
    covered = {place for one in own for place in range(*one.span)}  # some tokenizers begin a text with a space
    assert {place for place, sign in enumerate(sly) if not sign.isspace()} <= covered
    assert not special & {one.index for one in own}


def test_special_tokens_that_cannot_be_text_are_refused(tmp_path):
    ours, _ = pieces(tmp_path)
    ours._plain = ours._tokenizer  # as one whose vocabulary finds them again
    with pytest.raises(Unacceptable) as found:
        chat_tokens(ours, FORM, conversation("ab<e>"))
    assert str(found.value) == f"messages: {SPECIAL}"
    form = FORM.model_copy(update={"user": Turn(prefix="<u>", suffix="e>")})  # which completes one
    with pytest.raises(Unacceptable) as found:
        chat_tokens(byte_level(tmp_path)[0], form, conversation("ab<"))
    assert str(found.value) == f"messages: {SPECIAL}"


def test_a_chat_of_too_many_tokens_is_refused(tmp_path):
    ours, _ = byte_level(tmp_path, limit=16)
    assert len(chat_tokens(ours, FORM, conversation("a a a a a"), 16)) == 16
    with pytest.raises(Unacceptable, match=r"^input: at most 16 tokens, given 18$"):
        chat_tokens(ours, FORM, conversation("a a a a a a"), 16)
    with pytest.raises(TooLarge, match=r"^input: at most 16 tokens, given \d+ characters$"):
        chat_tokens(ours, FORM, conversation("a" * 5000))
    with pytest.raises(Unacceptable, match=r"^input: at most 16 tokens, given "):  # as text, they are more
        chat_tokens(ours, FORM, conversation("<a><a><a><a>"), 16)


PAIRED = PairForm(begins="<s>\n", between="\n<u>: ", ends="<e>")


def test_a_pair_has_the_tokens_of_the_whole_text_and_each_knows_its_text(tmp_path):
    ours, whole = byte_level(tmp_path)
    first, second = "ab\n", "\nb ab"
    tokens = pair_tokens(ours, PAIRED, Pair(first, second), 64)
    assert [one.index for one in tokens] == whole.encode(f"<s>\n{first}\n<u>: {second}<e>").ids
    for number, text in enumerate((first, second)):
        own = [one.span for one in tokens if one.sequence == number]
        assert {place for span in own for place in range(*span)} == set(range(len(text)))
    assert {one.span for one in tokens if one.sequence is None} == {None}


def test_special_tokens_in_a_pair_are_text(tmp_path):
    ours, whole = byte_level(tmp_path)
    special = {whole.token_to_id(one) for one in SPECIALS}
    tokens = pair_tokens(ours, PAIRED, Pair("a<e>", "<s>b"), 64)
    assert not special & {one.index for one in tokens if one.sequence is not None}
    assert [one.text for one in tokens if one.index in special] == ["<s>", "<u>", "<e>"]
    ours._plain = ours._tokenizer  # as one whose vocabulary finds them again
    with pytest.raises(Unacceptable, match=f"^input: {SPECIAL}$"):
        pair_tokens(ours, PAIRED, Pair("a<e>", "b"), 64)


@pytest.mark.parametrize(("most", "cut", "left"), [(None, 1, 10), (3, 1, 3), (99, 1, 10), (2, 0, 12)])
def test_the_end_of_a_pair_s_text_is_cut_off_and_what_closes_it_stays(tmp_path, most, cut, left):
    ours, _ = byte_level(tmp_path, limit=20)
    pair = Pair("a b", "c " * 6 if cut == 0 else "c " * 9, most, cut)
    if cut:
        tokens = pair_tokens(ours, PAIRED, pair, 20, truncate=True)
        assert [one.sequence for one in tokens].count(1) == left
        assert tokens[-1].text == "<e>"
    else:
        assert [one.sequence for one in pair_tokens(ours, PAIRED, pair, 20, truncate=True)].count(0) == 1
    with pytest.raises(Unacceptable, match=r"^input: at most 20 tokens, given \d+$"):
        pair_tokens(ours, PAIRED, pair, 20)


def test_what_leaves_no_room_for_the_other_text_of_a_pair_is_refused(tmp_path):
    ours, _ = byte_level(tmp_path, limit=20)
    with pytest.raises(Unacceptable, match=r"^query: must leave room for a text in 20 tokens, takes \d+$"):
        pair_tokens(ours, PAIRED, Pair("a" * 30, "b"), 20, truncate=True)
    with pytest.raises(TooLarge, match=r"^input: at most 20 tokens, given 5001 characters$"):
        pair_tokens(ours, PAIRED, Pair("a" * 5000, "b"), 20)


def test_windows_of_a_pair_move_over_its_second_text(tmp_path):
    ours, _ = byte_level(tmp_path, limit=20)
    tokens = whole_pair(ours, PAIRED, ["a b", "abc " * 6])
    found = in_windows(tokens, Windows(stride=2), 20, paired=True)
    assert len(found) > 1
    around = [one.index for one in tokens if one.sequence != 1]
    for window in found:
        assert [one.index for one in window if one.sequence != 1] == around
