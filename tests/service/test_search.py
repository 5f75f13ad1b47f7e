import itertools

import numpy as np
import pytest

from service.search import Beams, Sampler, Walk, greedy

END = 0


def language(vocabulary=4, seed=0):
    """A random model: log-probabilities of the next token that depend on every token before it."""

    def logs(tokens):
        scores = np.random.default_rng([seed, len(tokens), *tokens]).normal(size=vocabulary) * 2
        return scores - np.log(np.exp(scores).sum())

    return logs


def run(search, logs):
    while not search.done:
        before = search.live
        parents = search.advance(np.stack([logs(one.tokens) for one in before]))
        if not search.done:
            assert [one.tokens[:-1] for one in search.live] == [before[row].tokens for row in parents]
    return search.best()


def every_hypothesis(logs, limit, vocabulary=4):
    """All targets of at most `limit` tokens with their summed log-probabilities, by enumeration."""
    for length in range(1, limit + 1):
        for tokens in itertools.product(range(vocabulary), repeat=length):
            ended = tokens[-1] == END
            if END in tokens[:-1] or (not ended and length < limit):
                continue
            yield tokens, sum(logs(tokens[:place])[token] for place, token in enumerate(tokens))


def test_greedy_takes_the_likeliest_token_until_the_end_or_the_limit():
    table = [[0.1, 0.9], [0.2, 0.8], [0.6, 0.4]]
    walk = Walk(END, 9, greedy)
    best = run(walk, lambda tokens: np.log(table[len(tokens)]))
    assert best.tokens == (1, 1, 0)
    assert best.total == pytest.approx(np.log(0.9 * 0.8 * 0.6))
    assert run(Walk(END, 2, greedy), lambda tokens: np.log(table[len(tokens)])).tokens == (1, 1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_beams_as_wide_as_the_whole_tree_find_the_best_of_all_targets(seed, penalty):
    logs = language(seed=seed)
    best = run(Beams(4**4, END, 4, penalty), logs)
    wanted = max(every_hypothesis(logs, 4), key=lambda pair: pair[1] / len(pair[0]) ** penalty)
    assert best.tokens == wanted[0]
    assert best.score(penalty) == pytest.approx(wanted[1] / len(wanted[0]) ** penalty)


@pytest.mark.parametrize("seed", range(20))
def test_beams_do_what_the_plain_description_says(seed):
    """Hold the search against a direct reading of its rule, with dictionaries and sorting."""
    logs, beams, limit, penalty = language(vocabulary=6, seed=seed), 3, 7, 1.0
    live, finished = {(): 0.0}, {}
    for length in range(1, limit + 1):
        grown = {
            (*tokens, token): total + log for tokens, total in live.items() for token, log in enumerate(logs(tokens))
        }
        first = sorted(grown, key=grown.get, reverse=True)[: 2 * beams]
        over = {tokens for tokens in first if tokens[-1] == END or length == limit}
        finished |= {tokens: grown[tokens] / length**penalty for tokens in first[:beams] if tokens in over}
        live = {tokens: grown[tokens] for tokens in [one for one in first if one not in over][:beams]}
        kept = sorted(finished, key=finished.get, reverse=True)[:beams]
        finished = {tokens: finished[tokens] for tokens in kept}
        if len(finished) == beams and max(live.values(), default=-np.inf) / length**penalty <= min(finished.values()):
            break
    assert run(Beams(beams, END, limit, penalty), logs).tokens == max(finished, key=finished.get)


def test_one_beam_is_greedy():
    for seed in range(10):
        logs = language(seed=seed)
        assert run(Beams(1, END, 6, 1.0), logs).tokens[:3] == run(Walk(END, 6, greedy), logs).tokens[:3]


def test_the_length_penalty_decides_between_short_and_long():
    logs = {(): [0.4, 0.6], (1,): [0.3, 0.7], (1, 1): [0.9, 0.1]}

    def table(tokens):
        return np.log(logs.get(tokens, [0.5, 0.5]))

    assert run(Beams(4, END, 3, 0.0), table).tokens == (0,)
    assert run(Beams(4, END, 3, 3.0), table).tokens == (1, 1, 0)


def test_samples_follow_the_distribution():
    probabilities = np.array([0.5, 0.3, 0.15, 0.05])
    draw = Sampler(1.0, None, 1.0, seed=0)
    counts = np.bincount([draw(np.log(probabilities)) for _ in range(20000)], minlength=4) / 20000
    assert counts == pytest.approx(probabilities, abs=0.012)


def test_temperature_sharpens_and_flattens():
    probabilities = np.array([0.5, 0.3, 0.15, 0.05])
    draw = Sampler(0.5, None, 1.0, seed=0)
    counts = np.bincount([draw(np.log(probabilities)) for _ in range(20000)], minlength=4) / 20000
    assert counts == pytest.approx(probabilities**2 / (probabilities**2).sum(), abs=0.012)


@pytest.mark.parametrize(
    ("top_k", "top_p", "possible"),
    [
        (2, 1.0, {0, 1}),
        (None, 0.5, {0}),
        (None, 0.51, {0, 1}),
        (None, 0.79, {0, 1}),
        (3, 0.9, {0, 1, 2}),
        (99, 1.0, {0, 1, 2, 3}),
    ],
)
def test_top_k_and_top_p_cut_what_can_be_drawn(top_k, top_p, possible):
    draw = Sampler(1.0, top_k, top_p, seed=1)
    drawn = {draw(np.log([0.5, 0.3, 0.15, 0.05])) for _ in range(2000)}
    assert drawn == possible


def test_the_same_seed_draws_the_same_tokens():
    logs = language()
    once, again, other = (run(Walk(END, 12, Sampler(1.0, None, 1.0, seed)), logs).tokens for seed in (7, 7, 8))
    assert once == again
    assert once != other


def test_a_temperature_close_to_zero_is_greedy_and_finite():
    for temperature in (1e-300, 5e-324):
        assert Sampler(temperature, None, 1.0, seed=0)(np.log([0.1, 0.6, 0.3])) == 1
