"""Pooling by attention against torch's own attention."""

import torch
from torch import nn

from model.parts.attention import Context, MultiHeadAttention
from model.parts.feed_forward import FeedForward
from model.parts.pooling import AttentionPool
from tests.samples.attention_reference import assert_same, copy_attention, randn, sharpen


def test_a_pool_is_an_attention_of_its_probe_and_a_feed_forward_beside_it():
    pool = sharpen(AttentionPool(MultiHeadAttention(12, 3), FeedForward(12, 20, nn.GELU()), nn.LayerNorm(12)))
    theirs, x = nn.MultiheadAttention(12, 3, batch_first=True).double(), randn(2, 7, 12)
    copy_attention(pool.attention, theirs)
    found, weights = theirs(pool.probe.expand(2, -1, -1), x, x, average_attn_weights=False)
    vector, maps = pool(x)
    assert_same(vector, (found + pool.feed_forward(pool.norm(found)))[:, 0])
    assert_same(maps["attention"], weights)


def test_what_it_looks_at_can_be_recorded():
    pool, seen = AttentionPool(MultiHeadAttention(4, 2), nn.Identity(), nn.Identity()), []
    context = torch.zeros(1, 3, 4)

    def recall(remembered):
        seen.append(remembered)
        return remembered

    pool(context, Context(recall=recall))
    ((key, value),) = seen
    assert key.shape == value.shape == (1, 2, 3, 2)
