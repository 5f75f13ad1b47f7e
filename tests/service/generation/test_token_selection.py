import functools
import itertools
import warnings

import numpy as np
import pytest
import torch
import transformers

from contract.generation import Bias, Generation, Sampling
from service.errors import Broken, Unacceptable
from service.generation.logits_processors import Constraints
from service.generation.sampling import Sampler
from service.generation.token_selection import Beams, Greedy, Hypothesis, Walk

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
        beside = [likely(logs(one.tokens), search.alternatives) for one in before] if search.alternatives else []
        parents = search.advance(np.stack([logs(one.tokens) for one in before]), None, beside)
        if not search.done:
            assert [one.tokens[:-1] for one in search.live] == [before[row].tokens for row in parents]
    return search.best()


def likely(logs, count):
    return tuple(sorted(enumerate(logs.tolist()), key=lambda pair: -pair[1])[:count])


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
    walk = Walk((END,), 9, Greedy())
    best = run(walk, lambda tokens: np.log(table[len(tokens)]))
    assert best.tokens == (1, 1, 0)
    assert best.total == pytest.approx(np.log(0.9 * 0.8 * 0.6))
    assert run(Walk((END,), 2, Greedy()), lambda tokens: np.log(table[len(tokens)])).tokens == (1, 1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_beams_as_wide_as_the_whole_tree_find_the_best_of_all_targets(seed, penalty):
    logs = language(seed=seed)
    best = run(Beams(4**4, (END,), 4, penalty), logs)
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
    assert run(Beams(beams, (END,), limit, penalty), logs).tokens == max(finished, key=finished.get)


@pytest.mark.parametrize("seed", [0, 29, 31, 35, 39])  # the best one moves between the rows of four of them
def test_a_hypothesis_keeps_the_alternatives_of_the_rows_that_it_came_from(seed):
    logs = language(seed=seed)
    sampler = Sampler(Sampling(temperature=2.0), seed)
    walks = [Walk((END,), 6, choose, alternatives=3) for choose in (Greedy(), sampler)]
    for search in (*walks, Beams(3, (END,), 6, 1.0, alternatives=3)):
        best = run(search, logs)
        places = range(len(best.tokens))
        assert best.alternatives == tuple(likely(logs(best.tokens[:place]), 3) for place in places)
        assert [best.alternatives_at(place) for place in places] == [*best.alternatives]


def test_a_hypothesis_has_no_alternatives_unless_they_are_asked_for():
    best = run(Beams(3, (END,), 6, 1.0), language())
    assert (best.alternatives, best.alternatives_at(0)) == ((), ())


def test_beams_live_on_though_every_end_is_likelier_than_they():
    """As in transformers, which looks at enough of them for `beams` that do not end."""
    beams, logs = Beams(2, (0, 1, 2, 3), 5, 1.0), np.log([0.2, 0.19, 0.18, 0.17, 0.14, 0.12])
    assert beams.wants == 10
    beams.advance(np.stack([logs] * 2))
    assert [one.tokens for one in beams.live] == [(4,), (5,)]


def test_one_beam_is_greedy():
    for seed in range(10):
        logs = language(seed=seed)
        assert run(Beams(1, (END,), 6, 1.0), logs).tokens[:3] == run(Walk((END,), 6, Greedy()), logs).tokens[:3]


def test_the_length_penalty_decides_between_short_and_long():
    logs = {(): [0.4, 0.6], (1,): [0.3, 0.7], (1, 1): [0.9, 0.1]}

    def table(tokens):
        return np.log(logs.get(tokens, [0.5, 0.5]))

    assert run(Beams(4, (END,), 3, 0.0), table).tokens == (0,)
    assert run(Beams(4, (END,), 3, 3.0), table).tokens == (1, 1, 0)


def test_never_measures_by_the_present_length_where_the_penalty_is_negative():
    """At the limit's 30 tokens the live one would look hopeless when the second has finished."""
    logs = {(): [0.06, 0.9, 0.04], (1,): [0.08, 0.9, 0.02], (1, 1): [0.98, 0.01, 0.01]}
    best = run(Beams(2, (END,), 30, -1.0, "never"), lambda tokens: np.log(logs.get(tokens, [0.4, 0.3, 0.3])))
    assert best.tokens == (1, 1, END)


def test_the_same_seed_draws_the_same_tokens():
    logs = language()
    once, again, other = (run(Walk((END,), 12, Sampler(Sampling(), seed)), logs).tokens for seed in (7, 7, 8))
    assert once == again
    assert once != other


PAD, START, LIMIT, VOCABULARY = 1, 2, 12, 24

FAMILIES = ["bart", "gpt2"]
# fmt: off
RULES = {  # options of transformers.generate, and ours for the same
    "forced_first": ({"forced_bos_token_id": 5}, {"forced_first": 5}),
    "forced_last": ({"forced_eos_token_id": END}, {"forced_last": END}),
    "another_last": ({"forced_eos_token_id": 9}, {"forced_last": 9}),
    "suppressed": ({"suppress_tokens": [4, 6, 8, 20]}, {"suppressed": (4, 6, 8, 20)}),
    "never_ends": ({"suppress_tokens": [END]}, {"suppressed": (END,)}),
    "bad_words": ({"bad_words_ids": [[PAD], [7], [8], [9]]}, {"suppressed": (PAD, 7, 8, 9)}),
    "suppressed_first": ({"begin_suppress_tokens": [END, *range(3, 16)]}, {"suppressed_first": (END, *range(3, 16))}),
    "suppressed_second": (
        {"forced_bos_token_id": 5, "begin_suppress_tokens": [END, *range(3, 16)]},
        {"forced_first": 5, "suppressed_first": (END, *range(3, 16))},
    ),
    "min_length": ({"min_length": 10}, {"min_length": 10}),
    "no_repeat_1": ({"no_repeat_ngram_size": 1}, {"no_repeat_ngram": 1}),
    "no_repeat_2": ({"no_repeat_ngram_size": 2}, {"no_repeat_ngram": 2}),
    "no_repeat_3": ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram": 3}),
    "repetition": ({"repetition_penalty": 1.4}, {"repetition_penalty": 1.4}),
    "repetition_wanted": ({"repetition_penalty": 0.6}, {"repetition_penalty": 0.6}),
    "source_penalty": ({"encoder_repetition_penalty": 1.5}, {"source_penalty": 1.5}),
    "source_no_repeat_1": ({"encoder_no_repeat_ngram_size": 1}, {"source_no_repeat_ngram": 1}),
    "source_no_repeat_2": (
        {"encoder_no_repeat_ngram_size": 2, "repetition_penalty": 0.5},
        {"source_no_repeat_ngram": 2, "repetition_penalty": 0.5},
    ),
    "bad_sequences": (
        {"bad_words_ids": [[one, two] for one in range(3, 12) for two in range(3, 24)] + [[START, 20], [END], [7]]},
        {"bad_words": (*((one, two) for one in range(3, 12) for two in range(3, 24)), (START, 20)), "suppressed": (7,)},
    ),
    "biases": (
        {"sequence_bias": [[[5], 2.0], [[3, 4], -3.0], [[6, 7], 4.0], [[END], -1.0]]},
        {
            "biases": tuple(
                Bias(tokens=tokens, bias=bias)
                for tokens, bias in {(5,): 2.0, (3, 4): -3.0, (6, 7): 4.0, (END,): -1.0}.items()
            )
        },
    ),
    "length_decay": ({"exponential_decay_length_penalty": (2, 1.3)}, {"length_decay": (2, 1.3)}),
    "several_ends": ({"eos_token_id": [END, 8, 22]}, {"end": (END, 8, 22)}),
    "many_ends": ({"eos_token_id": [END, *range(6, 23)]}, {"end": (END, *range(6, 23))}),
    "several_ends_late": ({"eos_token_id": [END, 8, 22], "min_length": 9}, {"end": (END, 8, 22), "min_length": 9}),
    "no_end": ({"eos_token_id": None, "min_length": 9}, {"end": (), "min_length": 9}),
    "renormalized": (
        {"repetition_penalty": 1.3, "renormalize_logits": True}, {"repetition_penalty": 1.3, "renormalized": True}
    ),
    "every_weight": (
        {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3, "encoder_repetition_penalty": 1.2,
         "encoder_no_repeat_ngram_size": 3, "exponential_decay_length_penalty": (3, 1.1), "eos_token_id": [END, 9],
         "bad_words_ids": [[4, 5], [6]], "min_new_tokens": 4},
        {"repetition_penalty": 1.3, "no_repeat_ngram": 3, "source_penalty": 1.2, "source_no_repeat_ngram": 3,
         "length_decay": (3, 1.1), "end": (END, 9), "bad_words": ((4, 5),), "suppressed": (6,), "min_new_tokens": 4},
    ),
    "bart_cnn": (
        {"forced_bos_token_id": 5, "forced_eos_token_id": END, "min_length": 8, "no_repeat_ngram_size": 3},
        {"forced_first": 5, "forced_last": END, "min_length": 8, "no_repeat_ngram": 3},
    ),
    "all": (
        {
            "forced_bos_token_id": 5,
            "forced_eos_token_id": END,
            "suppress_tokens": [4, 6],
            "begin_suppress_tokens": [7, 8],
            "bad_words_ids": [[PAD]],
            "min_length": 7,
            "no_repeat_ngram_size": 2,
        },
        {
            "forced_first": 5,
            "forced_last": END,
            "suppressed": (4, 6, PAD),
            "suppressed_first": (7, 8),
            "min_length": 7,
            "no_repeat_ngram": 2,
        },
    ),
}
# fmt: on


@functools.cache
def reference(family):
    """A tiny random model of the transformers library, drawn so that its targets end at many lengths."""
    sizes = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "eos_token_id": END, "bos_token_id": START}
    if family == "gpt2":
        torch.manual_seed(6)
        sizes |= {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32, "initializer_range": 0.8}
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).eval()
    torch.manual_seed(5)
    sizes |= {f"{side}_{size}": 1 for side in ("encoder", "decoder") for size in ("layers", "attention_heads")}
    sizes |= {"d_model": 16, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 32}
    sizes |= {"decoder_start_token_id": START, "forced_eos_token_id": None, "tie_word_embeddings": False}
    model = transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes, init_std=0.3)).eval()
    model.final_logits_bias[0, END] = 2.0
    return model


def sources(family, options):
    """Random inputs; prompts are one token where the first is forced: transformers forces none behind longer ones."""
    if family == "gpt2" and "forced_bos_token_id" in options:
        return torch.arange(VOCABULARY)[:, None]
    return torch.randint(START + 1, VOCABULARY, (50, 5), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def theirs(model, inputs, limit=LIMIT, **options):
    """Targets of transformers.generate, the end token included."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its advice on options is not of interest here
        whole = model.generate(
            inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=limit, do_sample=False, **options
        )
    prefix = 1 if model.config.is_encoder_decoder else inputs.shape[1]
    targets = [tuple(target) for target in whole[:, prefix:].tolist()]
    ends = options.get("eos_token_id", END)
    return [until_an_end(target, ends if isinstance(ends, list) else [ends]) for target in targets]


def until_an_end(target, ends):
    return target[: next((place + 1 for place, token in enumerate(target) if token in ends), len(target))]


@torch.no_grad()
def ours(model, inputs, search, limit=LIMIT, *, several=False, **rules):
    """Targets of our searches, all driven together by the model's logits; `search` makes one from its constraints."""
    seq2seq = model.config.is_encoder_decoder
    generation = Generation(
        start=START if seq2seq else None, max_new_tokens=limit, caches=(), memory=(), **{"end": END, **rules}
    )
    prefixes = [(START,) if seq2seq else tuple(row) for row in inputs.tolist()]
    searches = [
        search(limit, Constraints(generation, prefix, limit, source), generation.ends)
        for prefix, source in zip(prefixes, inputs.tolist(), strict=True)
    ]
    while going := [place for place, one in enumerate(searches) if not one.done]:
        rows = [place for place in going for _ in searches[place].live]
        tokens = torch.tensor([prefixes[place] + one.tokens for place in going for one in searches[place].live])
        asked = {"input_ids": inputs[rows], "decoder_input_ids": tokens} if seq2seq else {"input_ids": tokens}
        logs = model(**asked, use_cache=False).logits[:, -1].numpy()
        for place, share in zip(
            going, np.split(logs, np.cumsum([rows.count(place) for place in going[:-1]])), strict=True
        ):
            searches[place].advance(share)
    return [one.best() if several else one.best().tokens for one in searches]


def walk(limit, constraints, ends=(END,)):
    return Walk(ends, limit, Greedy(), constraints)


def beams(number, penalty=1.0, early=False, wanted=1):
    return lambda limit, constraints, ends=(END,): Beams(
        number, ends, limit, penalty, early, constraints, wanted=wanted
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("number", [1, 4])
def test_the_reference_models_end_at_many_lengths(family, number):
    targets = theirs(reference(family), sources(family, {}), num_beams=number)
    assert len(set(targets)) >= 25
    assert len({len(target) for target in targets if target[-1] == END}) >= 6
    assert sum(target[-1] != END for target in targets) >= 5


@functools.cache
def without_rules(family, number, *, forced):
    """What transformers says without a rule, of the inputs of rules that force the first token or that do not."""
    inputs = sources(family, {"forced_bos_token_id": 5} if forced else {})
    return theirs(reference(family), inputs, num_beams=number)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("family", "search", "number"), [("gpt2", walk, 1), ("gpt2", beams(4), 4), ("bart", beams(4), 4)],
    ids=["gpt2-greedy", "gpt2-beams", "bart-beams"],
)  # fmt: skip
def test_constrained_generation_is_that_of_transformers(family, rule, search, number):
    model, (options, rules) = reference(family), RULES[rule]
    inputs = sources(family, options)
    wanted = theirs(model, inputs, num_beams=number, **options)
    assert ours(model, inputs, search, **rules) == wanted
    assert wanted != without_rules(family, number, forced="forced_bos_token_id" in options), "the rule changes nothing"


PENALTIES = [("bart", penalty) for penalty in (-1.0, 0.0, 0.6, 1.0, 2.0)] + [("gpt2", 0.6), ("gpt2", 2.0)]


@pytest.mark.parametrize(("family", "penalty"), PENALTIES)
@pytest.mark.parametrize("early", [False, True, "never"])
def test_beams_stop_and_score_as_those_of_transformers(family, early, penalty):
    model, inputs = reference(family), sources(family, {})
    wanted = theirs(model, inputs, num_beams=4, early_stopping=early, length_penalty=penalty)
    assert ours(model, inputs, beams(4, penalty, early)) == wanted
    if penalty == 2.0:
        for other in {False, True, "never"} - {early}:
            assert wanted != theirs(model, inputs, num_beams=4, early_stopping=other, length_penalty=penalty)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_others_of_beams_are_the_next_sequences_of_transformers(family):
    model, inputs, wanted = reference(family), sources(family, {}), 3
    more = {"num_beams": 4, "repetition_penalty": 1.2, "num_return_sequences": wanted}
    listed = theirs(model, inputs, **more)
    searches = ours(model, inputs, beams(4, wanted=wanted), repetition_penalty=1.2, several=True)
    assert [one.tokens for best in searches for one in (best, *best.others)] == listed
    assert len(set(listed)) > len(inputs)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_walk_says_the_log_probabilities_that_penalties_leave(family):
    """Those of transformers' scores, brought to a sum of one; and they are negative though a logit was not."""
    model, inputs = reference(family), sources(family, {})[:1]
    out = model.generate(
        inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=LIMIT, do_sample=False, repetition_penalty=0.5,
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    (best,) = ours(model, inputs, walk, repetition_penalty=0.5, several=True)
    wanted = [max(scores[0].log_softmax(-1).tolist()) for scores in out.scores]
    assert best.logs == pytest.approx(wanted, abs=1e-5)
    assert max(best.logs) < 0 < max(scores[0].max() for scores in out.scores)


@pytest.mark.parametrize(("number", "limit"), [(2, 5), (3, 1), (7, 20)])
@pytest.mark.parametrize("family", FAMILIES)
def test_any_number_of_beams_and_any_limit_are_those_of_transformers(family, number, limit):
    model, inputs, (options, rules) = reference(family), sources(family, {}), RULES["no_repeat_2"]
    wanted = theirs(model, inputs, limit, num_beams=number, early_stopping="never", length_penalty=1.5, **options)
    assert ours(model, inputs, beams(number, 1.5, "never"), limit, **rules) == wanted


def constraints(prefix=(START,), limit=LIMIT, **rules):
    told = {"start": None, "end": END, "max_new_tokens": limit, "caches": (), "memory": ()}
    return Constraints(Generation(**told | rules), prefix, limit)


def test_scores_that_are_given_stay_what_they_were():
    logs = np.log(np.full((1, 4), 0.25))
    early, late = [Hypothesis((3,), (-1.0,))], [Hypothesis((3, 3), (-1.0, -1.0))]
    ruled = constraints(forced_first=1, forced_last=END, suppressed_first=(1,), min_length=3, no_repeat_ngram=2)
    assert ruled(logs, late)[0].tolist() == [logs[0, 0], logs[0, 0], logs[0, 0], -np.inf]
    assert ruled(logs, [Hypothesis((3, 1), (-1.0, -1.0))])[0].tolist() == logs[0].tolist()
    assert ruled(logs, early)[0].tolist() == [-np.inf, -np.inf, logs[0, 2], logs[0, 3]]
    assert (logs == np.log(0.25)).all()


def test_a_forced_token_wins_over_a_forbidden_one_and_a_forced_last_token_over_a_forced_first():
    ruled = {"forced_first": 1, "forced_last": END, "suppressed": (END, 1), "suppressed_first": (END, 1)}
    logs = language()
    assert run(Walk((END,), 1, Greedy(), constraints(limit=1, **ruled)), logs).tokens == (END,)
    best = run(Beams(3, (END,), 4, 1.0, False, constraints(limit=4, **ruled)), logs)
    assert (best.tokens[0], best.tokens[-1], best.logs[0], best.logs[-1]) == (1, END, 0.0, 0.0)
    assert not {END, 1} & set(best.tokens[1:-1])


def test_tokens_beyond_the_vocabulary_may_be_forbidden():
    ruled = constraints((9, 3, 9, 3), suppressed=(-1, 4, 99), suppressed_first=(4,), no_repeat_ngram=2)
    assert run(Walk((END,), LIMIT, Greedy(), ruled), language()).tokens


@pytest.mark.parametrize(
    ("rules", "tokens"),
    [
        ({"suppressed": (0, 1, 2, 3)}, 1),
        ({"suppressed": (0,), "no_repeat_ngram": 1}, 4),  # 1, 2 and 3 once each
        ({"min_length": 99, "no_repeat_ngram": 1}, 4),
    ],
)
def test_a_sequence_ends_if_every_next_token_is_forbidden(rules, tokens):
    ruled, draw = constraints((9,), **rules), Sampler(Sampling(temperature=0.7, top_k=3, top_p=0.9), seed=0)
    for search in (walk(LIMIT, ruled), Walk((END,), LIMIT, draw, ruled), beams(3)(LIMIT, ruled)):
        best = run(search, language())
        assert len(best.tokens) == tokens
        assert (best.tokens[-1], best.logs[-1]) == (END, 0.0)
        assert np.isfinite(best.score(1.0))


def test_a_model_without_an_end_says_that_every_next_token_is_forbidden():
    ruled = constraints((9,), end=(), suppressed=(0,), no_repeat_ngram=1)
    for search in (walk(LIMIT, ruled, ()), beams(3)(LIMIT, ruled, ())):
        with pytest.raises(Unacceptable, match="generation: every next token is forbidden"):
            run(search, language())


def test_a_beam_whose_next_tokens_are_all_forbidden_makes_room_for_the_others():
    table = {(): [0.0, 0.6, 0.0, 0.4], (1,): [0.0, 0.0, 1.0, 0.0], (3,): [0.0, 1.0, 0.0, 0.0]}
    ruled = constraints((1, 2), no_repeat_ngram=2)

    def logs(tokens):
        with np.errstate(divide="ignore"):
            return np.log(table.get(tokens, [0.25] * 4))

    best = run(Beams(2, (END,), 3, 1.0, False, ruled), logs)
    assert best.tokens[:2] == (3, 1)


@pytest.mark.parametrize("seed", range(5))
def test_samples_obey_the_constraints(seed):
    ruled = constraints(forced_first=2, suppressed=(1,), min_length=5)
    target = run(Walk((END,), LIMIT, Sampler(Sampling(temperature=1.5), seed), ruled), language(6, seed)).tokens
    assert target[0] == 2
    assert 1 not in target
    assert len(target) >= 5


def test_beams_without_a_possible_token_are_no_answer():
    """As where a graph gives numbers to suppressed tokens alone. It must fail this search, not the loop of all."""
    beams = Beams(2, (0,), 5, 1.0)
    beams.advance(np.array([[-np.inf, -1.0, -2.0, -3.0]] * 2))
    with pytest.raises(Broken, match="not finite"):
        beams.advance(np.full((2, 4), -np.inf), np.array([[0, 1, 2, 3]] * 2))
