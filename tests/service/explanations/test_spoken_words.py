import pytest

from service.explanations.spoken_words import words_of
from service.inputs.model_input import Token
from service.repository.models.transcript import Segment, Transcript


def tokens(*texts):
    found, start = [], 0
    for text in texts:
        found.append(Token(len(found), text, (start, start + len(text))))
        start += len(text)
    return found


def words(*texts, language="en"):
    times = [place / 2 for place in range(len(texts) + 1)]
    chances = [1 / (place + 1) for place in range(len(texts))]
    return words_of(tokens(*texts), times, chances, language)


def test_a_word_is_of_the_tokens_up_to_the_next_space():
    found = words(" He", "llo", " world")
    assert [(one.text, one.start, one.end) for one in found] == [(" Hello", 0.0, 1.0), (" world", 1.0, 1.5)]
    assert [one.probability for one in found] == [0.75, 1 / 3]
    assert found[0].json() == {"word": "Hello", "start": 0.0, "end": 1.0, "probability": 0.75}


def test_how_much_of_a_word_was_heard_is_the_mean_of_its_tokens():
    said = words_of(tokens(" He", "llo", " world"), [0.0, 0.5, 1.0, 1.5], [1.0] * 3, "en", places=[2, 3, 4])
    assert [one.places for one in said] == [(2, 3), (4,)]
    transcript = Transcript("en", 1.5, (Segment(0.0, 1.5, " Hello world", words=tuple(said)),), ())
    found = transcript.with_shares({2: 0.5, 3: 0.7, 5: 1.0}).words
    assert [one.heard for one in found] == [pytest.approx(0.6), None]
    assert found[0].json()["heard"] == 0.6
    assert "heard" not in found[1].json()


def test_punctuation_belongs_to_the_word_that_it_stands_at():
    found = words(' "', "Yes", ",", '"', " he", " said", ".")
    assert [one.text for one in found] == [' "Yes,"', " he", " said."]
    assert [one.text for one in words(" (", "so", ")", " it", " is")] == [" (so)", " it", " is"]


def test_a_character_of_several_tokens_is_of_one_word():
    found = words(" na", "", "ï", "ve", " I", "", "…")
    assert [(one.text, one.start, one.end) for one in found] == [(" naïve", 0.0, 2.0), (" I…", 2.0, 3.5)]


def test_languages_without_spaces_have_a_word_for_each_token():
    assert [one.text for one in words("你", "好", "。", language="zh")] == ["你", "好。"]
    assert [one.text for one in words("你", "好", language="en")] == ["你好"]


def test_nothing_said_has_no_words():
    assert words_of([], [0.0], [], None) == []
    assert words(" ") == []
