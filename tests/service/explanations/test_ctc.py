import numpy as np
import pytest

from service.explanations.ctc import read

LABELS = ("", " ", "a", "b", "<unk>")
BLANK, SPACE, A, B, UNKNOWN = range(5)


def logits(*classes, chance=0.6):
    """Logits under which each of the classes has this probability at its frame."""
    others = np.log((1 - chance) / (len(LABELS) - 1))
    found = np.full((len(classes), len(LABELS)), others) + 3.5  # which a softmax takes off again
    found[np.arange(len(classes)), classes] = np.log(chance) + 3.5
    return found.astype(np.float32)


@pytest.mark.parametrize(
    ("classes", "text", "words"),
    [
        ((BLANK, BLANK), "", []),
        ((A,), "a", [("a", 0, 1)]),
        ((A, A, A), "a", [("a", 0, 3)]),
        ((A, BLANK, A, A, B), "aab", [("aab", 0, 5)]),
        ((BLANK, B, BLANK, SPACE, SPACE, BLANK, A, BLANK), "b a", [("b", 1, 2), ("a", 6, 7)]),
        ((SPACE, A, SPACE, BLANK, SPACE, B, SPACE), "a  b", [("a", 1, 2), ("b", 5, 6)]),
        ((UNKNOWN, A), "<unk>a", [("<unk>a", 0, 2)]),
        ((SPACE, BLANK, SPACE), "", []),
    ],
)
def test_repeats_are_one_character_blanks_are_none_and_spaces_end_words(classes, text, words):
    found = read(logits(*classes).reshape(len(classes), 5), LABELS, 0.02)
    assert found.text == text
    assert [(one.text, one.start, one.end) for one in found.words] == [
        (word, pytest.approx(start * 0.02), pytest.approx(end * 0.02)) for word, start, end in words
    ]
    assert "".join(one.text for one in found.characters).strip() == text


def test_a_character_is_as_probable_as_its_frames_and_a_word_as_its_characters():
    rows = [logits(A, chance=chance) for chance in (0.5, 0.9, 0.7)] + [logits(B, chance=0.8), logits(SPACE)]
    found = read(np.concatenate(rows), LABELS, 0.5)
    assert [(one.text, one.frame) for one in found.characters] == [("a", 1), ("b", 3), (" ", 4)]
    assert [one.probability for one in found.characters] == pytest.approx([0.7, 0.8, 0.6], abs=1e-6)
    assert [(one.end, one.frame) for one in found.words] == [(2.0, 1)]
    assert found.words[0].probability == pytest.approx(0.75, abs=1e-6)
