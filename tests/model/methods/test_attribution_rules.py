"""The rules of a balanced backward pass one by one, and what they promise of whole models: the shares add up."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from model.architectures.detector import Detector
from model.architectures.gpt import GPT
from model.architectures.speech_transformer import SpeechTransformer
from model.architectures.text_encoder import TextEncoder
from model.architectures.transformer import Transformer
from model.architectures.vit import ViT
from model.catalogue import BUNDLED, build, bundled
from model.methods.attribution import Balanced, entering, first_states, libra
from model.parts.feed_forward import ACTIVATIONS
from model.parts.heads import FirstClassifier, MaskedWords, Pool
from tests.samples.attention_reference import assert_same, randn, sharpen

EXPLAINED = (ViT, TextEncoder, GPT, Transformer, Detector)
"""Captioners, recurrent and convolutional decoders are not explained."""
NAMES = sorted(
    file.parent.name
    for file in sorted(BUNDLED.glob("*/model.safetensors"))
    if isinstance(build(file.parent.name), EXPLAINED)
)


def tokens(*shape, seed=0):
    return torch.randint(4, 40, shape, generator=torch.Generator().manual_seed(seed))


def run_of(model, batch=2):
    """Return the stacks of a model, and what runs it on a batch of inputs: () -> rows (batch, number) of its answer."""
    source, shown, rows = tokens(batch, 9), torch.arange(9) < torch.tensor([[9], [6]])[:batch], torch.arange(batch)
    if isinstance(model, ViT):
        pixels = randn(batch, 1, *model.patches.image)
        return [model.encoder], lambda: model(pixels)[0]
    if isinstance(model, Detector):
        seen = randn(batch, 1, 64, 64)
        return [model.encoder], lambda: model(seen)[0][rows, 5]
    if isinstance(model, GPT):
        return [model.decoder], lambda: model(source)[0][rows, 5]
    if isinstance(model, TextEncoder):
        if isinstance(model.head, FirstClassifier):  # of one score, which is turned into several
            types = torch.zeros_like(source)
            return [model.encoder], lambda: model(source, shown, types)[0].expand(-1, 4)
        masked = [torch.tensor([[3], [0]])[:batch]] if isinstance(model.head, MaskedWords) else []
        return [model.encoder], lambda: model(source, shown, None, *masked)[0][:, 0]
    prefix = tokens(batch, 5, seed=1)
    if isinstance(model, SpeechTransformer):
        sound = randn(batch, 40, 300)
        return [model.encoder, model.decoder], lambda: model(sound, prefix % 10)[0][rows, 3]
    return [model.encoder, model.decoder], lambda: model(source, shown, prefix)[0][rows, 3]


def explained(model, batch=1):
    stacks, run = run_of(model, batch)
    return libra(model, stacks, lambda: run()[:, 3])


def magnitude(found):
    """Return how large the shares are that cancel each other in the sum."""
    return max(1, *(float(layer.abs().sum()) for own in found.tokens for layer in own))


@pytest.mark.parametrize("weights", ["trained", "sharpened"])
@pytest.mark.parametrize("name", NAMES)
def test_tokens_and_biases_add_up_to_the_score_at_each_layer(name, weights):
    model = bundled(name).double() if weights == "trained" else sharpen(build(name))
    found = explained(model)
    layers = range(len(found.tokens[0])) if len(found.tokens) == 1 else [0]
    for layer in layers:
        total = sum(own[layer].sum() for own in found.tokens) + found.biases[layer]
        assert abs(float(total - found.score)) <= 1e-12 * magnitude(found), layer
    assert abs(float(found.biases[0])) > 1e-3
    assert abs(float(sum(own[0].sum() for own in found.tokens))) > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_a_balanced_model_answers_the_same(name):
    model = sharpen(build(name))
    _, run = run_of(model)
    with torch.no_grad():
        plain = run()
        with Balanced():
            balanced = run()
    assert (balanced - plain).abs().max() <= 1e-12 * plain.abs().max()


@pytest.mark.parametrize("name", ["digits", "dates", "dates-clm", "dates-mlm"])
def test_rows_of_a_batch_are_explained_each_for_itself(name):
    model = bundled(name).double()
    stacks, run = run_of(model, 2)
    together = libra(model, stacks, lambda: run()[:, 3])
    biases = 0.0
    for row in range(2):
        alone = libra(model, stacks, lambda row=row: run()[row : row + 1, 3])
        biases += alone.biases[0]
        for own, others in zip(alone.tokens, together.tokens, strict=True):
            assert_same(own[0][row], others[0][row], 1e-12)
            assert (own[0][1 - row] == 0).all()
    assert_same(biases, together.biases[0], 1e-11)


@pytest.mark.parametrize("name", ["digits", "dates", "dates-clm", "dates-mlm"])
def test_what_speaks_for_one_class_rather_than_another_is_the_difference(name):
    model = bundled(name).double()
    stacks, run = run_of(model, 1)
    one, other = (libra(model, stacks, lambda at=at: run()[:, at]) for at in (3, 7))
    found = libra(model, stacks, lambda: torch.diff(run()[:, [7, 3]])[:, 0])
    assert_same(found.score, one.score - other.score)
    assert_same(found.biases[0], one.biases[0] - other.biases[0], 1e-11)
    for stack, own in enumerate(found.tokens):
        assert_same(own[0], one.tokens[stack][0] - other.tokens[stack][0], 1e-11)
    assert (one.tokens[0][0] - found.tokens[0][0]).abs().max() > 1e-2


def test_a_model_is_as_it_was_after_it_is_explained():
    model = build("digits").double()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    model.encoder.blocks[0].attention.query.weight.requires_grad_(False)
    wanted = [one.requires_grad for one in model.parameters()]
    explained(model)
    assert [one.requires_grad for one in model.parameters()] == wanted
    assert all(one.grad is None for one in model.parameters())
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    assert not any(block._forward_pre_hooks for block in model.encoder.blocks)


# One rule at a time


def gradient(function, *given):
    """Return what the backward pass gives each input of a function, balanced."""
    given = [one.detach().clone().requires_grad_() for one in given]
    with Balanced():
        found = function(*given)
    return torch.autograd.grad(found.sum(), given, allow_unused=True)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_passes_its_value_over_its_input(name):
    x = torch.cat((randn(50) * 5, torch.tensor([1e-30, -1e-30, 60.0, -60.0])))
    activation = ACTIVATIONS[name]()
    assert_same(gradient(activation, x)[0], activation(x) / x, 1e-12)


SLOPES_AT_ZERO = {"gelu": 0.5, "gelu_tanh": 0.5, "quick_gelu": 0.5, "relu": 0.0, "silu": 0.5, "tanh": 1.0}


@pytest.mark.parametrize(("name", "slope"), SLOPES_AT_ZERO.items())
def test_at_zero_an_activation_passes_its_derivative(name, slope):
    assert SLOPES_AT_ZERO.keys() == ACTIVATIONS.keys()
    for zero in (0.0, -0.0):
        assert gradient(ACTIVATIONS[name](), torch.tensor([zero], dtype=torch.float64))[0].item() == slope


@pytest.mark.parametrize("softmax", [torch.softmax, functional.softmax, torch.Tensor.softmax])
def test_attention_passes_everything_to_its_values(softmax):
    scores, values = randn(4, 6), randn(6, 3, seed=2)
    of_scores, of_values = gradient(lambda scores, values: softmax(scores, dim=-1) @ values, scores, values)
    assert of_scores is None
    assert_same(of_values, scores.softmax(-1).sum(0)[:, None].expand(6, 3))


@pytest.mark.parametrize("product", [torch.mul, torch.Tensor.mul, lambda one, other: one * other])
def test_a_product_of_two_that_move_is_halved(product):
    one, other = randn(7), randn(7, seed=2)
    of_one, of_other = gradient(product, one, other)
    assert_same(of_one, other / 2)
    assert_same(of_other, one / 2)


def test_a_product_with_what_does_not_move_is_not_halved():
    x, scale = randn(7), randn(7, seed=2)
    assert_same(gradient(lambda x: x * scale, x)[0], scale)
    assert_same(gradient(lambda x: 2 * x * 3, x)[0], torch.full((7,), 6.0, dtype=torch.float64))
    assert_same(gradient(lambda x: scale * x.detach() * x, x)[0], scale * x)


@pytest.mark.parametrize("sigmoid", [torch.sigmoid, functional.sigmoid, torch.Tensor.sigmoid])
def test_a_sigmoid_that_gates_is_a_constant(sigmoid):
    x, gate = randn(7), randn(7, seed=2)
    of_x, of_gate = gradient(lambda x, gate: x * sigmoid(gate), x, gate)
    assert_same(of_x, 1 / (1 + torch.exp(-gate)))
    assert of_gate is None


def test_the_deviation_of_a_layer_norm_is_a_constant_and_its_mean_is_not():
    x, norm = randn(2, 5), sharpen(nn.LayerNorm(5))
    deviation = (x.var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
    slope = norm.weight.detach() / deviation
    assert_same(gradient(norm, x)[0], slope - slope.mean(-1, keepdim=True))


ROOT_MEAN_SQUARES = {
    "rsqrt": lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6),
    "method": lambda x: x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt(),
    "sqrt": lambda x: x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6),
}


@pytest.mark.parametrize("norm", ROOT_MEAN_SQUARES.values(), ids=ROOT_MEAN_SQUARES)
def test_the_root_mean_square_of_a_norm_is_a_constant(norm):
    x = randn(3, 5)
    assert_same(gradient(norm, x)[0], (norm(x) / x), 1e-12)


def test_the_length_of_a_vector_is_a_constant():
    x = randn(3, 5)
    inverse = 1 / x.square().sum(-1, keepdim=True).sqrt()
    assert_same(gradient(lambda x: x * x.norm(dim=1, keepdim=True) ** -1, x)[0], inverse.expand(3, 5))
    assert_same(gradient(lambda x: x * torch.norm(x, dim=1, keepdim=True) ** -1, x)[0], inverse.expand(3, 5))


@pytest.mark.parametrize("quotient", [torch.div, torch.Tensor.div, lambda x, divisor: x / divisor])
def test_a_divisor_is_a_constant(quotient):
    x, divisor = randn(7), randn(7, seed=2)
    of_x, of_divisor = gradient(quotient, x, divisor)
    assert_same(of_x, 1 / divisor)
    assert of_divisor is None
    assert_same(gradient(lambda x: quotient(x, 4), x)[0], torch.full((7,), 0.25).double())


def test_equal_largest_tokens_share_a_maximum():
    x = torch.tensor([[[2.0, -1.0], [2.0, -3.0], [1.0, -2.0]]], dtype=torch.float64)
    visible = torch.tensor([[True, True, True]])
    given = gradient(lambda x: Pool("max", nn.Identity())(x, visible), x)[0]
    assert_same(given, torch.tensor([[[0.5, 1.0], [0.5, 0.0], [0.0, 0.0]]]).double())
    assert_same((given * x).sum(1), x.amax(1))


JOINED = {
    "cosine_similarity": lambda x: functional.cosine_similarity(x, randn(3, 4)),
    "normalize": functional.normalize,
    "rms_norm": lambda x: functional.rms_norm(x, (4,)),
    "scaled_dot_product_attention": lambda x: functional.scaled_dot_product_attention(x, x, x),
}


@pytest.mark.parametrize("name", JOINED)
def test_a_function_that_hides_its_steps_from_the_rules_is_refused(name):
    with pytest.raises(NotImplementedError, match=f"the steps of {name} must be written one by one"):
        gradient(JOINED[name], randn(3, 4))


# States


def test_watched_states_are_those_that_enter_the_blocks_and_can_be_replaced():
    model = bundled("digits").double()
    stacks, run = run_of(model)
    seen = []
    with torch.no_grad(), entering(stacks, lambda stack, layer, x: seen.append((stack, layer, x)) or x):
        plain = run()
    assert [(stack, layer) for stack, layer, _ in seen] == [(0, layer) for layer in range(4)]
    (first,) = first_states(stacks, run)
    assert torch.equal(first, seen[0][2])
    with torch.no_grad(), entering(stacks, lambda stack, layer, x: seen[3][2] if layer == 3 else torch.zeros_like(x)):
        assert torch.equal(run(), plain)
    with torch.no_grad(), entering(stacks, lambda stack, layer, x: x if layer else torch.zeros_like(x)):
        blank = run()
    assert math.isclose(float((blank[0] - blank[1]).abs().max()), 0.0, abs_tol=1e-12)
    assert (blank - plain).abs().max() > 1e-2
