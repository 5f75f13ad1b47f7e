"""Each rule against the class of the transformers library that it is; whole searches are compared in
`test_token_selection.py`."""

import numpy as np
import pytest
import torch
from transformers.generation import logits_process as reference

from contract.generation import Bias, Generation
from service.generation.logits_processors import Constraints
from service.generation.token_selection import Hypothesis

VOCABULARY, ENDS, PREFIX, SOURCE, LIMIT = 16, (0, 5), (3, 9, 3, 4), (7, 2, 8, 2, 9, 15, 21), 9
TARGETS = {  # two rows each, by their length
    0: [(), ()],
    1: [(9,), (4,)],
    3: [(9, 3, 9), (8, 2, 3)],
    4: [(4, 3, 9, 3), (1, 1, 7, 2)],
    8: [(4, 3, 9, 3, 1, 1, 1, 6), (8, 2, 9, 2, 8, 2, 7, 2)],
}
WORDS = ([7], [3, 4], [3, 9, 4], [9, 3, 6], [2, 8], [1] * 12)
BIASES = {(2,): 1.5, (9, 3): -2.0, (3, 9): 0.25, (5,): -0.5}
CASES = {
    "biases": (
        {"biases": tuple(Bias(tokens=tokens, bias=bias) for tokens, bias in BIASES.items())},
        lambda: reference.SequenceBiasLogitsProcessor([[list(tokens), bias] for tokens, bias in BIASES.items()]),
    ),
    "source_penalty": (
        {"source_penalty": 1.7},
        lambda: reference.EncoderRepetitionPenaltyLogitsProcessor(1.7, torch.tensor([SOURCE[:-1]] * 2)),
    ),
    "repetition_penalty": ({"repetition_penalty": 1.3}, lambda: reference.RepetitionPenaltyLogitsProcessor(1.3)),
    "repetition_wanted": ({"repetition_penalty": 0.4}, lambda: reference.RepetitionPenaltyLogitsProcessor(0.4)),
    "no_repeat_1": ({"no_repeat_ngram": 1}, lambda: reference.NoRepeatNGramLogitsProcessor(1)),
    "no_repeat_3": ({"no_repeat_ngram": 3}, lambda: reference.NoRepeatNGramLogitsProcessor(3)),
    **{
        f"source_no_repeat_{size}": (
            {"source_no_repeat_ngram": size},
            lambda size=size: reference.EncoderNoRepeatNGramLogitsProcessor(size, torch.tensor([SOURCE[:-1]])),
        )
        for size in (1, 2, 3)
    },
    "bad_words": (
        {"bad_words": tuple(map(tuple, WORDS))},
        lambda: reference.NoBadWordsLogitsProcessor([*WORDS, [5]], list(ENDS)),
    ),
    "min_length": ({"min_length": 6}, lambda: reference.MinLengthLogitsProcessor(6, list(ENDS))),
    "min_new_tokens": (
        {"min_new_tokens": 4}, lambda: reference.MinNewTokensLengthLogitsProcessor(len(PREFIX), 4, list(ENDS)),
    ),
    "length_decay": (
        {"length_decay": (2, 1.4)}, lambda: reference.ExponentialDecayLengthPenalty((2, 1.4), list(ENDS), len(PREFIX)),
    ),
    "suppressed": ({"suppressed": (1, 8, 99)}, lambda: reference.SuppressTokensLogitsProcessor([1, 8, 99])),
    "suppressed_first": (
        {"suppressed_first": (1, 8)}, lambda: reference.SuppressTokensAtBeginLogitsProcessor([1, 8], len(PREFIX)),
    ),
    "forced_last": (
        {"forced_last": 5}, lambda: reference.ForcedEOSTokenLogitsProcessor(len(PREFIX) + LIMIT, 5),
    ),
}  # fmt: skip


def constraints(source=SOURCE[:-1], prefix=PREFIX, **rules):
    told = {"start": None, "end": ENDS, "max_new_tokens": LIMIT, "caches": (), "memory": ()}
    return Constraints(Generation(**told | rules), prefix, LIMIT, source)


def live(targets):
    return [Hypothesis(tokens, (-1.0,) * len(tokens)) for tokens in targets]


def scores(rows=2):
    return np.random.default_rng(1).normal(size=(rows, VOCABULARY)) * 3


@pytest.mark.parametrize("case", CASES)
def test_a_rule_is_the_processor_of_the_transformers_library(case):
    rules, make = CASES[case]
    changes = 0
    for length, targets in TARGETS.items():
        whole = torch.tensor([(*PREFIX, *target) for target in targets])
        wanted = make()(whole, torch.tensor(scores())).numpy()
        ruled = constraints(**rules)
        assert ruled(scores(), live(targets)) == pytest.approx(wanted, abs=1e-6), length
        changed = not np.array_equal(wanted, scores())
        assert bool(ruled.applies(live(targets))) >= (changed and case != "suppressed"), "the graph's tokens would do"
        changes += changed
    assert changes


def test_rules_run_in_the_order_of_the_transformers_library():
    """Penalties before what forbids, and a decay on what the penalties have made of an end."""
    rules = {"biases": (Bias(tokens=(5,), bias=2.0),), "repetition_penalty": 1.5, "length_decay": (1, 1.5)}
    targets = [(5, 2, 8), (9, 5, 3)]
    whole, wanted = torch.tensor([(*PREFIX, *target) for target in targets]), torch.tensor(scores())
    for theirs in (
        reference.SequenceBiasLogitsProcessor([[[5], 2.0]]),
        reference.RepetitionPenaltyLogitsProcessor(1.5),
        reference.ExponentialDecayLengthPenalty((1, 1.5), list(ENDS), len(PREFIX)),
    ):
        wanted = theirs(whole, wanted)
    assert constraints(**rules)(scores(), live(targets)) == pytest.approx(wanted.numpy(), abs=1e-6)


def test_tokens_that_are_never_generated_are_passed_over():
    ruled = constraints(SOURCE, (99, 3, 99, 3), repetition_penalty=2.0, source_penalty=2.0, source_no_repeat_ngram=1)
    found = ruled(scores(1), live([(4,)]))
    assert np.isinf(found[0, [7, 2, 8, 9, 15]]).all()
    assert np.isfinite(found[0, [0, 1, 3, 4, 5, 6]]).all()


def test_rules_of_a_source_do_nothing_where_it_is_no_text():
    ruled = constraints((), source_penalty=2.0, source_no_repeat_ngram=1)
    assert not ruled.applies(live([(4,)]))
    assert np.array_equal(ruled(scores(1), live([(4,)])), scores(1))


def test_ends_are_neither_forbidden_nor_favoured_where_there_are_none():
    ruled = constraints(end=(), min_length=9, min_new_tokens=9, length_decay=(0, 9.0))
    assert not ruled.applies(live([(4,)]))
    assert np.array_equal(ruled(scores(1), live([(4,)])), scores(1))


def test_a_decay_that_no_float_holds_ends_a_text():
    (found,) = constraints(length_decay=(0, 2.0))(scores(1), live([(4,) * 1100]))
    assert np.isfinite(found).all()
    assert found.argmax() in ENDS


@pytest.mark.parametrize(
    ("rules", "weighs"),
    [({}, False), ({"no_repeat_ngram": 2, "bad_words": ((1,),)}, False), ({"repetition_penalty": 1.1}, True),
     ({"source_penalty": 0.9}, True), ({"length_decay": (1, 1.1)}, True)],
)  # fmt: skip
def test_a_walk_knows_whether_rules_need_the_logits_themselves(rules, weighs):
    assert constraints(**rules).weighs is weighs
