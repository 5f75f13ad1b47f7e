import numpy as np
import pytest
from torch import nn

from model.parts.feed_forward import FeedForward, GatedFeedForward, QuickGELU
from tests.samples.attention_reference import assert_same, feed_forward, gelu, linear, randn, relu, sharpen, weights_of

X = randn(3, 5, 8)


@pytest.mark.parametrize(("activation", "bend"), [(nn.ReLU(), relu), (nn.GELU(), gelu)], ids=["relu", "gelu"])
def test_a_feed_forward_follows_its_equation(activation, bend):
    module, x = sharpen(FeedForward(6, 10, activation)), randn(2, 3, 6)
    assert_same(module(x), feed_forward(weights_of(module), "module", x.numpy(), bend))


def test_a_feed_forward_may_have_no_bias():
    module, x = sharpen(FeedForward(6, 10, nn.ReLU(), bias=False)), randn(2, 3, 6)
    assert_same(module(x), feed_forward(weights_of(module), "module", x.numpy(), relu))
    assert [name for name, _ in module.named_parameters()] == ["0.weight", "2.weight"]


def test_a_gated_feed_forward_is_swiglu():
    module = sharpen(GatedFeedForward(8, 6))
    w, x = weights_of(module), X.numpy()
    gate = linear(w, "module.gate", x)
    assert_same(module(X), linear(w, "module.output", gate / (1 + np.exp(-gate)) * linear(w, "module.up", x)))


@pytest.mark.parametrize(("bias", "output_bias", "held"), [(True, None, 3), (False, None, 0), (False, True, 1)])
def test_layers_of_a_gated_feed_forward_may_have_no_bias(bias, output_bias, held):
    module = GatedFeedForward(8, 6, bias=bias, output_bias=output_bias)
    assert sum(name.endswith("bias") for name, _ in module.named_parameters()) == held
    assert (module.output.bias is None) == (not held)


def test_quick_gelu_is_its_formula():
    assert_same(QuickGELU()(X), X.numpy() / (1 + np.exp(-1.702 * X.numpy())))
