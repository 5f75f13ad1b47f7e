import pytest

from model.architectures.captioner import CAPTIONER_SIZES
from model.architectures.gpt import GPT_SIZES
from model.architectures.text_encoder import TEXT_ENCODER_SIZES
from model.architectures.transformer import TRANSFORMER_SIZES
from model.vocabularies import (
    ALPHABET,
    END,
    MASK,
    PAD,
    SPECIALS,
    START,
    UNKNOWN,
    VOCABULARY,
    WORD_SPECIALS,
    WORDS,
    encode,
    encode_words,
)


def test_the_special_tokens_come_first_and_padding_is_zero():
    assert (PAD, START, END, UNKNOWN) == (0, 1, 2, 3)
    assert [VOCABULARY[token] for token in SPECIALS] == [PAD, START, END, UNKNOWN]


def test_every_index_has_one_token_and_the_model_has_a_row_for_each():
    assert len(set(ALPHABET)) == len(ALPHABET)
    assert sorted(VOCABULARY.values()) == list(range(TRANSFORMER_SIZES["dates"].vocabulary))


def test_the_mask_comes_behind_all_others_and_masked_models_have_a_row_for_it():
    assert MASK not in VOCABULARY.values()
    assert MASK + 1 == len(VOCABULARY) + 1 == TEXT_ENCODER_SIZES["dates-mlm"].vocabulary
    assert GPT_SIZES["dates-clm"].vocabulary == len(VOCABULARY)


def test_indices_are_those_that_the_bundled_weights_were_trained_with():
    assert encode(" /09:az~–’") == [4, 19, 20, 29, 30, 43, 68, 72, 73, 74]  # noqa: RUF001 # as word processors write


def test_every_character_of_the_alphabet_is_read_back():
    tokens = {index: token for token, index in VOCABULARY.items()}
    assert "".join(tokens[index] for index in encode(ALPHABET)) == ALPHABET


@pytest.mark.parametrize("text", ["12 May 1999", "THE FIRST of JUNE", "\u212a"])  # the last is the Kelvin sign
def test_case_does_not_matter(text):
    assert encode(text) == encode(text.lower()) == encode(text.upper())
    assert UNKNOWN not in encode(text)


@pytest.mark.parametrize("character", ["é", "\n", "\t", "日", "😀", "\u00a0", "\ud800"])
def test_a_character_outside_the_alphabet_is_unknown_and_keeps_its_place(character):
    assert encode(f"1{character}2") == [21, UNKNOWN, 22]


def test_the_name_of_a_special_token_in_a_text_is_only_its_characters():
    for token in SPECIALS:
        assert len(encode(token)) == len(token)
        assert not {PAD, START, END, UNKNOWN} & set(encode(token))


def test_no_text_is_no_tokens():
    assert encode("") == []


def test_digits_become_their_words_between_start_and_end():
    words = [len(WORD_SPECIALS) + WORDS.index(word) for word in ("three", "zero", "nine")]
    assert encode_words((3, 0, 9)) == [START, *words, END]


def test_both_vocabularies_begin_with_the_same_indices():
    assert SPECIALS[: len(WORD_SPECIALS)] == WORD_SPECIALS
    assert CAPTIONER_SIZES["captions"].decoder.vocabulary == len(WORD_SPECIALS) + len(WORDS)
