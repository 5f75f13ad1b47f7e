import numpy as np
import pytest

from service.errors import Broken
from service.generation.listening import Listening


def test_the_likeliest_of_some_tokens_is_found_and_how_likely_silence_is_among_all():
    scores = np.log(np.array([[0.5, 0.05, 0.2, 0.15, 0.1]]))
    search = Listening((1, 3), silence=2)
    assert search.advance(scores) == [0]
    found = search.best()
    assert search.done
    assert found.tokens == (3,)
    assert np.exp(found.logs) == pytest.approx([0.75])
    assert search.silent == pytest.approx(0.2)


def test_a_model_without_a_token_of_silence_says_nothing_of_it():
    search = Listening((0,), None)
    search.advance(np.zeros((1, 3)))
    assert search.silent is None


def test_what_is_not_a_number_is_refused():
    with pytest.raises(Broken):
        Listening((0,), None).advance(np.full((1, 3), np.nan))
