import numpy as np

from model.parts.norms import LayerScale
from tests.samples.attention_reference import assert_same, randn


def test_layer_scale_weighs_each_channel_and_begins_where_it_is_told():
    part, x = LayerScale(12, 0.1), randn(2, 7, 12)
    assert_same(part.double()(x), 0.1 * x, 1e-7)
    part.weight.data = randn(12, seed=2)
    assert_same(part(x).detach(), x.numpy() @ np.diag(part.weight.detach().numpy()))
