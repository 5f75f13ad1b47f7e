"""Integrated gradients against Captum's, and against a loop that is written out, in float64."""

import pytest
import torch
from captum.attr import IntegratedGradients, LayerIntegratedGradients

from model.architectures.gpt import GPTConfig, gpt
from model.architectures.text_encoder import TextEncoderConfig, word_filler
from model.architectures.transformer import TransformerConfig, vaswani
from model.architectures.vit import ViTConfig, vit
from model.methods.attribution import integrated
from model.parts.stacks import PRE_NORM, StackSizes
from tests.samples.attention_reference import assert_same, randn, sharpen

STACK = StackSizes(2, 3, 20)
SIZES = {"length": 9, "width": 12, "layers": 2, "heads": 3, "hidden": 20}
SOURCE, PREFIX = (
    torch.randint(1, 11, shape, generator=torch.Generator().manual_seed(seed))
    for seed, shape in enumerate([(3, 6), (3, 4)])
)
SHOWN = torch.arange(6) < torch.tensor([6, 4, 1])[:, None]
ROWS, TARGETS, PLACES = torch.arange(3), torch.tensor([1, 4, 0]), torch.tensor([3, 0, 2])
STEPS = 12
MASKED = torch.tensor([[0], [2], [0]])


def image_model():
    model = sharpen(vit(ViTConfig((6, 8), 1, (2, 2), 12, layers=2, heads=3, hidden=20, classes=5)))
    return model, [model.encoder], lambda pixels: model(pixels)[0][ROWS, TARGETS]


def text_model():
    model = sharpen(word_filler(TextEncoderConfig(11, **SIZES)))
    return model, [model.encoder], lambda source: model(source, SHOWN, None, MASKED)[0][ROWS, 0, TARGETS]


def continuing_model():
    model = sharpen(gpt(GPTConfig(11, **SIZES)))
    return model, [model.decoder], lambda source: model(source)[0][ROWS, PLACES, TARGETS]


def paired_model():
    model = sharpen(vaswani(TransformerConfig(11, 9, 12, encoder=STACK, decoder=STACK), PRE_NORM))
    return (
        model,
        [model.encoder, model.decoder],
        lambda source, prefix: model(source, SHOWN, prefix)[0][ROWS, PLACES, TARGETS],
    )


def masked_out(source):
    """Replace all tokens but the first, which is special."""
    return torch.where(torch.arange(source.shape[1]) > 0, 0, source)


CASES = {
    "image": (image_model, (randn(3, 1, 6, 8),), (torch.zeros(3, 1, 6, 8).double(),)),
    "text": (text_model, (SOURCE,), (masked_out(SOURCE),)),
    "continued text": (continuing_model, (SOURCE,), (masked_out(SOURCE),)),
    "pair": (paired_model, (SOURCE, PREFIX), (masked_out(SOURCE), masked_out(PREFIX))),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    compose, given, blank = request.param
    return *compose(), given, blank


def embedded(model, given):
    """Return the states that enter the first blocks, as each model's own embedding makes them."""
    if hasattr(model, "patches"):
        x = torch.cat((model.class_token.expand(len(given[0]), -1, -1), model.patches(given[0])), dim=1)
        return [(x + model.positions.weight).detach()]
    if hasattr(model, "embed"):
        return [model.embed(given[0], torch.arange(given[0].shape[1])).detach()]
    sides = zip((model.source, model.target), given, strict=True)
    return [embed(tokens, torch.arange(tokens.shape[1])).detach() for embed, tokens in sides]


def from_states(stacks, run, given):
    """Return a function of the states that enter the first blocks: it runs the model as if its embeddings made them."""

    def answer(*states):
        hooks = [
            stack.blocks[0].register_forward_pre_hook(lambda _, given, state=state: (state, *given[1:]))
            for stack, state in zip(stacks, states, strict=True)
        ]
        found = run(*given)
        for hook in hooks:
            hook.remove()
        return found

    return answer


def written_out(answer, states, blank, steps):
    """Sundararajan et al. 2017, equation 3, at midpoints."""
    total = [torch.zeros_like(state) for state in states]
    for step in range(1, steps + 1):
        share = (2 * step - 1) / (2 * steps)
        between = [(share * x + (1 - share) * b).requires_grad_() for x, b in zip(states, blank, strict=True)]
        answer(*between).sum().backward()
        for index, one in enumerate(between):
            total[index] += one.grad
    return [((x - b) * sum_ / steps).sum(-1) for x, b, sum_ in zip(states, blank, total, strict=True)]


def assert_near(given, expected):
    """Captum multiplies by the length of a step in float32."""
    assert (given - expected).abs().max() <= 1e-4 * expected.abs().max()


def explained(case, steps, *, zero=False):
    _, stacks, run, given, blank = case
    return integrated(stacks, lambda: run(*given), None if zero else lambda: run(*blank), steps)


def ends(case, *, zero=False):
    """Return what is scored from its states, these, and those of its baseline."""
    model, stacks, run, given, blank = case
    states, others = embedded(model, given), embedded(model, blank)
    return from_states(stacks, run, given), states, [torch.zeros_like(x) for x in states] if zero else others


@pytest.mark.parametrize("zero", [False, True], ids=["baseline", "zero"])
@pytest.mark.parametrize("steps", [1, 5])
def test_integrated_gradients_are_the_sum_written_out(case, steps, zero):
    found = explained(case, steps, zero=zero)
    answer, states, blank = ends(case, zero=zero)
    for given, expected in zip(found.tokens, written_out(answer, states, blank, steps), strict=True):
        assert_same(given, expected, 1e-9)
    with torch.no_grad():
        assert_same(found.score, answer(*states), 1e-10)
        assert_same(found.baseline, answer(*blank), 1e-10)
    assert (found.score - found.baseline).abs().max() > 1e-2


@pytest.mark.parametrize("zero", [False, True], ids=["baseline", "zero"])
def test_integrated_gradients_are_those_of_captum(case, zero):
    answer, states, blank = ends(case, zero=zero)
    theirs, delta = IntegratedGradients(answer, multiply_by_inputs=True).attribute(
        tuple(states),
        tuple(blank),
        n_steps=STEPS,
        method="riemann_middle",
        internal_batch_size=len(ROWS),
        return_convergence_delta=True,
    )
    found = explained(case, STEPS, zero=zero)
    for given, expected in zip(found.tokens, theirs, strict=True):
        assert_near(given, expected.sum(-1))
    error = sum(own.sum(-1) for own in found.tokens) - (found.score - found.baseline)
    assert_same(error, delta, 1e-5)  # in float32, as above


@pytest.mark.parametrize("name", ["text", "continued text"])
def test_integrated_gradients_are_those_of_captum_at_the_embedding(name):
    compose, (given,), (blank,) = CASES[name]
    model, stacks, run = compose()
    theirs = LayerIntegratedGradients(run, model.embed).attribute(
        given, blank, n_steps=STEPS, method="riemann_middle", internal_batch_size=len(ROWS)
    )
    (found,) = integrated(stacks, lambda: run(given), lambda: run(blank), STEPS).tokens
    assert_near(found, theirs.sum(-1))


def errors(case, steps, *, zero=False):
    """Return how far the sums are from what they should make, for each number of steps."""
    for count in steps:
        found = explained(case, count, zero=zero)
        total = sum(own.sum(-1) for own in found.tokens)
        yield float((total - (found.score - found.baseline)).abs().max())


def test_the_more_steps_the_better_integrated_gradients_add_up(case):
    one, some, many = errors(case, (1, 16, 256))
    assert one > 10 * some > 100 * many


def test_from_zero_embeddings_they_add_up_too_but_slowly(case):
    """Where a norm is the first layer, most of the way from zero is short of the deviation that it adds epsilon to."""
    one, some, many = errors(case, (1, 16, 256), zero=True)
    assert one > some > 1.5 * many
