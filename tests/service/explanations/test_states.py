"""The states of tokens compared, against the equations in plain loops and scikit-learn."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from service.explanations.states import colours, likeness, middle_of

OWN, OTHER = (
    np.random.default_rng(seed).normal(2.0, 1.0, (tokens, 6)).astype(np.float32) for seed, tokens in ((1, 9), (2, 7))
)
PARTS, OTHER_PARTS = np.arange(9) >= 2, np.arange(7) >= 1
"""Which tokens are parts: the others are special."""


def mean_of(states, parts):
    return np.array([states[parts, channel].sum(dtype=float) / parts.sum() for channel in range(states.shape[1])])


def test_the_middle_is_between_the_means_of_the_parts_whatever_their_number():
    wanted = (mean_of(OWN, PARTS) + mean_of(OTHER, OTHER_PARTS)) / 2
    np.testing.assert_allclose(middle_of([(OWN, PARTS), (OTHER, OTHER_PARTS)]), wanted, atol=1e-12)


def test_the_middle_of_no_parts_is_nothing():
    assert (middle_of([(OWN, np.zeros(9, bool))]) == 0).all()


def test_likeness_is_the_cosine_of_what_differs_from_the_middle():
    middle = middle_of([(OWN, PARTS), (OTHER, OTHER_PARTS)])
    found = likeness(OWN[[4, 8]], OTHER, middle)
    for row, asked in enumerate((4, 8)):
        for token in range(7):
            ours, theirs = OWN[asked].astype(float) - middle, OTHER[token].astype(float) - middle
            cosine = sum(ours * theirs) / (sum(ours**2) ** 0.5 * sum(theirs**2) ** 0.5)
            assert found[row, token] == pytest.approx(cosine, abs=1e-12)


def test_a_state_is_most_like_itself_and_unlike_what_is_across_the_middle():
    states = np.array([[1.0, 0], [-2, 0], [0, 3], [0, -2]])
    found = likeness(states, states, np.zeros(2))
    assert (found.diagonal() == 1).all()
    assert found[0, 1] == -1
    assert found[0, 2] == 0


def test_a_state_in_the_middle_is_like_nothing():
    assert (likeness(np.ones((1, 3)), np.ones((2, 3)), np.ones(3)) == 0).all()


def test_colours_are_the_principal_components_of_both_inputs_together():
    ours, theirs = colours([(OWN, PARTS), (OTHER, OTHER_PARTS)])
    parts = np.concatenate([OWN[PARTS], OTHER[OTHER_PARTS]]).astype(float)
    scores = PCA(3).fit_transform(parts)
    scores *= np.where((scores**3).sum(0) < 0, -1, 1)
    low, high = np.percentile(scores, (2, 98), axis=0)
    wanted = ((scores - low) / (high - low)).clip(0, 1).T
    np.testing.assert_allclose(np.concatenate([ours[:, PARTS], theirs[:, OTHER_PARTS]], axis=1), wanted, atol=1e-9)
    assert ours.shape == (3, 9)
    assert theirs.shape == (3, 7)


def test_colours_do_not_depend_on_the_sign_that_the_eigenvectors_happen_to_have():
    (plain,), (turned,) = (colours([(states, PARTS)]) for states in (OWN, OWN[:, ::-1].copy()))
    np.testing.assert_allclose(plain, turned, atol=1e-9)


def test_colours_of_parts_without_differences_are_none():
    (found,) = colours([(np.ones((4, 5)), np.ones(4, bool))])
    assert (found == 0).all()


@pytest.mark.parametrize("width", [1, 2])
def test_states_of_fewer_numbers_than_colours_leave_the_others_dark(width):
    (found,) = colours([(OWN[:, :width], PARTS)])
    assert found.shape == (3, 9)
    assert (found[width:] == 0).all()
