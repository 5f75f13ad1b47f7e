import numpy as np

from model.parts.norms import JointNorm, LayerScale
from tests.samples.attention_reference import assert_same, randn, sharpen


def test_layer_scale_weighs_each_channel_and_begins_where_it_is_told():
    part, x = LayerScale(12, 0.1), randn(2, 7, 12)
    assert_same(part.double()(x), 0.1 * x, 1e-7)
    part.weight.data = randn(12, seed=2)
    assert_same(part(x).detach(), x.numpy() @ np.diag(part.weight.detach().numpy()))


def test_a_joint_norm_is_of_all_heads_of_a_token():
    part, x = sharpen(JointNorm(3, 4, 0.1)), randn(2, 3, 5, 4)
    given, weight = part(x).detach(), part.norm.weight.detach().numpy().reshape(3, 4)
    for text, token in ((0, 0), (1, 4)):
        heads = x[text, :, token].numpy()
        assert_same(given[text, :, token], heads / np.sqrt((heads**2).mean() + 0.1) * weight)
