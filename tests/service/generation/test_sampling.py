import numpy as np
import pytest
import torch
import transformers
from transformers.generation import logits_process

from contract.generation import Generation, Sampling
from service.generation.logits_processors import Constraints
from service.generation.sampling import CUTS, Sampler
from service.generation.token_selection import ALL_CANDIDATES, Walk
from service.options.generation import GenerateOptions


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_samples_follow_the_distribution_which_temperature_sharpens(temperature):
    probabilities = np.array([0.5, 0.3, 0.15, 0.05])
    draw = Sampler(Sampling(temperature=temperature), seed=0)
    counts = np.bincount([draw(np.log(probabilities)) for _ in range(20000)], minlength=4) / 20000
    sharpened = probabilities ** (1 / temperature)
    assert counts == pytest.approx(sharpened / sharpened.sum(), abs=0.012)


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
    draw = Sampler(Sampling(top_k=top_k, top_p=top_p), seed=1)
    drawn = {draw(np.log([0.5, 0.3, 0.15, 0.05])) for _ in range(2000)}
    assert drawn == possible


def test_a_temperature_close_to_zero_is_greedy_and_finite():
    for temperature in (1e-300, 5e-324):
        assert Sampler(Sampling(temperature=temperature), seed=0)(np.log([0.1, 0.6, 0.3])) == 1


VALUES = {  # of each cut, in the order of the reference, and its class there
    "top_h": (logits_process.TopHLogitsWarper, (0.2, 0.5, 0.95)),
    "top_k": (logits_process.TopKLogitsWarper, (1, 7, 500)),
    "top_p": (logits_process.TopPLogitsWarper, (0.01, 0.4, 0.9)),
    "min_p": (logits_process.MinPLogitsWarper, (0.05, 0.3, 1.0)),
    "typical_p": (logits_process.TypicalLogitsWarper, (0.1, 0.5, 0.95)),
    "epsilon_cutoff": (logits_process.EpsilonLogitsWarper, (0.001, 0.03, 0.9)),
    "eta_cutoff": (logits_process.EtaLogitsWarper, (0.001, 0.05, 0.9)),
}
ONE_BY_ONE = [{name: value} for name, (_, values) in VALUES.items() for value in values]
TOGETHER = [
    {"top_k": 20, "top_p": 0.9, "min_p": 0.02},
    {"top_h": 0.8, "top_k": 30, "min_p": 0.05, "typical_p": 0.7},
    {"top_p": 0.95, "typical_p": 0.6, "epsilon_cutoff": 0.02, "eta_cutoff": 0.1},
    {name: values[1] for name, (_, values) in VALUES.items()},
]


def test_every_cut_is_compared():
    assert list(CUTS) == list(VALUES)


@pytest.mark.parametrize("cuts", ONE_BY_ONE + TOGETHER, ids=str)
@pytest.mark.parametrize("spread", [0.3, 2.0, 6.0])
def test_what_may_be_drawn_has_the_probabilities_of_the_transformers_library(cuts, spread):
    logits = np.random.default_rng(3).normal(size=(40, 300)) * spread
    wanted = torch.tensor(logits) / 0.8
    for name in VALUES:  # in their order, whatever that of the request
        wanted = VALUES[name][0](cuts[name])(None, wanted) if name in cuts else wanted
    sampler = Sampler(Sampling(temperature=0.8, **cuts), seed=0)
    most = sampler.wants or logits.shape[1]
    for row, theirs in zip(logits, wanted.softmax(-1).numpy(), strict=True):
        candidates = np.argsort(-row)[:most]  # as a graph returns them
        order, shares = sampler.shares(row[candidates])
        found = np.zeros(len(row))
        found[candidates[order]] = shares
        assert found == pytest.approx(theirs, abs=1e-9)


def test_values_that_switch_a_cut_off_leave_all():
    off = Sampling(top_p=1.0, typical_p=1.0, epsilon_cutoff=1.0, eta_cutoff=1.0)
    order, shares = Sampler(off, seed=0).shares(np.log([0.1, 0.6, 0.3]))
    assert (order.tolist(), shares.tolist()) == ([1, 2, 0], pytest.approx([0.6, 0.3, 0.1]))


@pytest.mark.parametrize(
    ("sampling", "wants"),
    [({"top_k": 5}, 5), ({"top_k": 5, "top_h": 0.5}, 100), ({"top_k": 256}, 256), ({"top_k": 257}, ALL_CANDIDATES),
     ({"min_p": 0.5}, ALL_CANDIDATES)],
)  # fmt: skip
def test_a_sampler_asks_for_the_candidates_that_its_cuts_look_at(sampling, wants):
    assert Sampler(Sampling(**sampling), seed=0).wants == wants


class Shown(Sampler):
    """A sampler that draws tokens which are given, and keeps the distribution of each step."""

    def __init__(self, sampling, targets):
        super().__init__(sampling, seed=0)
        self.found, self._targets = [], iter(targets)

    def __call__(self, logs):
        order, shares = self.shares(logs)
        self.found.append((order, shares))
        return int(order[next(self._targets) % len(order)])


VOCABULARY, PROMPT, STEPS, ENDING = 120, (5, 9, 5, 31), 8, (2, 3)
CUT = {"top_k": 9, "top_p": 0.8, "min_p": 0.05, "typical_p": 0.9}
REQUESTS = [  # what a request says, and what the model's own rules say
    *({"temperature": 0.7, name: value} for name, value in CUT.items()),
    {"temperature": 1.6},
    {"temperature": 0.7, **CUT},
    {"temperature": 1.3, "repetition_penalty": 1.4},
    {"temperature": 0.7, "top_k": 30, "repetition_penalty": 0.6, "no_repeat_ngram_size": 1},
    {"temperature": 0.9, "top_p": 0.9, "min_p": 0.02, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2},
]
RULES = [
    ({}, {}),
    ({"min_new_tokens": 4, "suppressed": (7, 8)}, {"min_new_tokens": 4, "suppress_tokens": [7, 8]}),
    (
        {"length_decay": (2, 1.3), "bad_words": ((5, 9), (11,)), "renormalized": True},
        {
            "exponential_decay_length_penalty": (2, 1.3),
            "bad_words_ids": [[5, 9], [11]],
            "renormalize_logits": True,
        },
    ),
]


@pytest.mark.parametrize(("own", "theirs"), RULES, ids=range(len(RULES)))
@pytest.mark.parametrize("asked", REQUESTS, ids=str)
def test_each_step_s_distribution_is_that_of_the_transformers_library(asked, own, theirs):
    """Of all processors and warpers that `generate` makes of the same request, in its order, step after step."""
    told = {"start": None, "end": ENDING, "max_new_tokens": 99, "caches": (), "memory": ()}
    generation = Generation(**told | own)
    options = GenerateOptions(**asked)
    draw = Shown(options.sampling(generation.sampling), np.random.default_rng(5).integers(0, 3, STEPS))
    rules = generation.model_copy(
        update={
            "repetition_penalty": asked.get("repetition_penalty", 1.0),
            "no_repeat_ngram": asked.get("no_repeat_ngram_size", 0),
        }
    )
    walk = Walk((), STEPS, draw, Constraints(rules, PROMPT, STEPS, PROMPT))
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=8, n_layer=1, n_head=1))
    off = {"top_k": None, "top_p": None}
    config = transformers.GenerationConfig(do_sample=True, max_new_tokens=STEPS, **{**off, **asked, **theirs})
    config._eos_token_tensor = torch.tensor(ENDING)
    config._pad_token_tensor = None
    processors = model._get_logits_processor(config, len(PROMPT), torch.tensor([PROMPT]), device="cpu")
    drawn = set()
    for step in range(STEPS):
        logits = np.random.default_rng(step).normal(size=(1, VOCABULARY)) * 3
        before = torch.tensor([[*PROMPT, *walk.live[0].tokens]])
        wanted = processors(before, torch.tensor(logits)).softmax(-1)[0].numpy()
        candidates = None
        if (wants := walk.wants) == ALL_CANDIDATES:
            walk.advance(logits)
        else:  # as a graph returns them, which has suppressed tokens that are always
            logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
            logs = np.where(np.isin(np.arange(VOCABULARY), generation.suppressed), -np.inf, logs)
            candidates = np.argsort(-logs, kind="stable")[:, :wants]
            walk.advance(np.take_along_axis(logs, candidates, 1), candidates)
        order, shares = draw.found[-1]
        found = np.zeros(VOCABULARY)
        found[order if candidates is None else candidates[0, order]] = shares
        assert found == pytest.approx(wanted, abs=1e-6), step
        drawn.add(found.tobytes())
    assert len(drawn) > 1
