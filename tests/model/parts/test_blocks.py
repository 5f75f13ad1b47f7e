import numpy as np
import pytest
import torch
from torch import nn

from model.parts.attention import ALL_VISIBLE, Context, MultiHeadAttention, causal, only_these
from model.parts.blocks import (
    BranchformerBlock,
    BranchNormBlock,
    Decoder,
    EBranchformerBlock,
    MacaronBlock,
    ParallelBlock,
    PostNormBlock,
    PostNormDecoderBlock,
    PreNormBlock,
    PreNormDecoderBlock,
    Stack,
)
from model.parts.convolutions import ConvolutionalGatingMLP, DepthwiseMerge
from model.parts.feed_forward import FeedForward
from tests.samples.attention_reference import (
    assert_same,
    assert_same_maps,
    copy_block,
    decoder_block,
    encoder_block,
    feed_forward,
    gelu,
    layer_norm,
    linear,
    randn,
    relu,
    sharpen,
    weights_of,
)
from tests.samples.attention_reference import attention as attention_equation

WIDTH, HEADS, HIDDEN, TOKENS, KERNEL = 12, 3, 20, 7, 3
PADDED = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])  # (batch, token)
VISIBLE = {
    "everything": None,
    "what came before": causal(5),
    "what is no padding": PADDED[:, None, None, :],
    "both": causal(5) & PADDED[:, None, None, :],
}
ENCODER_BLOCKS = [(PreNormBlock, True), (PostNormBlock, False)]
DECODER_BLOCKS = [(PreNormDecoderBlock, True), (PostNormDecoderBlock, False)]


def norm():
    return nn.LayerNorm(WIDTH)


def attention():
    return MultiHeadAttention(WIDTH, HEADS)


def encoder_of(block, activation):
    return block(attention(), FeedForward(WIDTH, HIDDEN, activation), norm)


def decoder_of(block):
    return block(attention(), attention(), FeedForward(WIDTH, HIDDEN, nn.ReLU()), norm)


def shared(visible):
    """As arrays without an axis of heads have it: (query, key) or (batch, 1 or query, key)."""
    return visible if visible is None or visible.dim() == 2 else visible[:, 0]


def hidden(visible_name):
    """The same mask in torch's words, where True hides."""
    causal_mask, padding = ~causal(5), ~PADDED
    return {
        "everything": {},
        "what came before": {"src_mask": causal_mask},
        "what is no padding": {"src_key_padding_mask": padding},
        "both": {"src_mask": causal_mask, "src_key_padding_mask": padding},
    }[visible_name]


@pytest.mark.parametrize(("activation", "bend"), [(nn.ReLU(), relu), (nn.GELU(), gelu)], ids=["relu", "gelu"])
@pytest.mark.parametrize("visible", VISIBLE.values(), ids=VISIBLE)
@pytest.mark.parametrize(("block", "pre_norm"), ENCODER_BLOCKS)
def test_an_encoder_block_is_its_equation(block, pre_norm, visible, activation, bend):
    module, x = sharpen(encoder_of(block, activation)), randn(2, 5, WIDTH)
    given, maps = module(x, Context(visible))
    expected, weights = encoder_block(
        weights_of(module), "module", HEADS, x.numpy(), pre_norm=pre_norm, activation=bend, visible=shared(visible)
    )
    assert_same(given, expected)
    assert_same_maps(maps, {"attention": weights})
    assert maps["attention"].max() > 0.9


@pytest.mark.parametrize("visible", VISIBLE)
@pytest.mark.parametrize(("block", "pre_norm"), ENCODER_BLOCKS)
def test_an_encoder_block_is_the_layer_of_torch(block, pre_norm, visible):
    ours, x = sharpen(encoder_of(block, nn.ReLU())), randn(2, 5, WIDTH)
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=pre_norm, dtype=torch.float64
    )  # in training mode, where torch takes no shortcut
    copy_block(ours, theirs)
    assert_same(ours(x, Context(VISIBLE[visible]))[0], theirs(x, **hidden(visible)))


@pytest.mark.parametrize("memory_visible", [None, PADDED[:, None, None, :]], ids=["unpadded", "padded"])
@pytest.mark.parametrize(("block", "pre_norm"), DECODER_BLOCKS)
def test_a_decoder_block_is_its_equation(block, pre_norm, memory_visible):
    module, x, memory = sharpen(decoder_of(block)), randn(2, 4, WIDTH), randn(2, 5, WIDTH, seed=2)
    given, maps = module(x, Context(causal(4)), module.cross.remember(memory), Context(memory_visible))
    expected, own, cross = decoder_block(
        weights_of(module),
        "module",
        HEADS,
        x.numpy(),
        memory.numpy(),
        pre_norm=pre_norm,
        visible=causal(4),
        memory_visible=shared(memory_visible),
    )
    assert_same(given, expected)
    assert_same_maps(maps, {"attention": own, "cross": cross})


@pytest.mark.parametrize(("block", "pre_norm"), DECODER_BLOCKS)
def test_a_decoder_block_is_the_layer_of_torch(block, pre_norm):
    ours, x, memory = sharpen(decoder_of(block)), randn(2, 4, WIDTH), randn(2, 5, WIDTH, seed=2)
    theirs = nn.TransformerDecoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=pre_norm, dtype=torch.float64
    )
    copy_block(ours, theirs)
    given, _ = ours(x, Context(causal(4)), ours.cross.remember(memory), Context(PADDED[:, None, None, :]))
    assert_same(given, theirs(x, memory, tgt_mask=~causal(4), memory_key_padding_mask=~PADDED))


@pytest.mark.parametrize(("block", "pre_norm"), DECODER_BLOCKS)
def test_a_decoder_block_looks_at_what_is_recalled(block, pre_norm):
    module, x, memory = sharpen(decoder_of(block)), randn(2, 1, WIDTH), randn(2, 5, WIDTH, seed=2)
    offered = []
    recalled = (randn(2, HEADS, 3, WIDTH // HEADS, seed=3), randn(2, HEADS, 3, WIDTH // HEADS, seed=4))

    def recall(new):
        offered.append(new)
        return recalled

    everything = torch.ones(1, 3, dtype=torch.bool)
    _, maps = module(x, Context(everything, recall=recall), module.cross.remember(memory), ALL_VISIBLE)
    y = module.attention_norm(x) if pre_norm else x
    assert len(offered) == 1
    for new, expected in zip(offered[0], module.attention.remember(y), strict=True):
        assert_same(new, expected)
    assert_same(maps["attention"], module.attention.read(y, recalled, Context(everything))[1][""])


@pytest.mark.parametrize(("block", "pre_norm"), ENCODER_BLOCKS)
@pytest.mark.parametrize("last", [norm, nn.Identity], ids=["norm", "no norm"])
def test_an_encoder_is_its_blocks_in_order_and_then_its_norm(block, pre_norm, last):
    module, x = sharpen(Stack([encoder_of(block, nn.ReLU()) for _ in range(3)], last())), randn(2, 5, WIDTH)
    given, maps = module(x, Context(VISIBLE["what is no padding"]))
    w, expected, found = weights_of(module), x.numpy(), {}
    for index in range(3):
        expected, found[f"blocks.{index}.attention"] = encoder_block(
            w, f"module.blocks.{index}", HEADS, expected, pre_norm=pre_norm, activation=relu, visible=PADDED[:, None]
        )
    assert_same(given, layer_norm(w, "module.norm", expected) if last is norm else expected)
    assert_same_maps(maps, found)


@pytest.mark.parametrize(("block", "pre_norm"), DECODER_BLOCKS)
@pytest.mark.parametrize("last", [norm, nn.Identity], ids=["norm", "no norm"])
def test_a_decoder_is_its_blocks_in_order_and_then_its_norm(block, pre_norm, last):
    module = sharpen(Decoder([decoder_of(block) for _ in range(3)], last()))
    x, memory = randn(2, 4, WIDTH), randn(2, 5, WIDTH, seed=2)
    given, maps = module(x, Context(causal(4)), module.remember(memory), Context(PADDED[:, None, None, :]))
    w, expected, found = weights_of(module), x.numpy(), {}
    for index in range(3):
        path = f"blocks.{index}"
        expected, found[f"{path}.attention"], found[f"{path}.cross"] = decoder_block(
            w,
            f"module.{path}",
            HEADS,
            expected,
            memory.numpy(),
            pre_norm=pre_norm,
            visible=causal(4),
            memory_visible=PADDED[:, None],
        )
    assert_same(given, layer_norm(w, "module.norm", expected) if last is norm else expected)
    assert_same_maps(maps, found)


def test_a_decoder_gives_every_block_its_own_memory_and_recall():
    module = sharpen(Decoder([decoder_of(PreNormDecoderBlock) for _ in range(3)], nn.Identity()))
    memory = randn(2, 5, WIDTH, seed=2)
    remembered = module.remember(memory)
    for block, parts in zip(module.blocks, remembered, strict=True):
        for part, expected in zip(parts, block.cross.remember(memory), strict=True):
            assert_same(part, expected)
    called = []
    recalls = [lambda new, index=index: (called.append(index), new)[1] for index in range(3)]
    module(randn(2, 4, WIDTH), Context(causal(4)), remembered, ALL_VISIBLE, recalls)
    assert called == [0, 1, 2]


@pytest.mark.parametrize(("memories", "recalls"), [(1, 2), (3, 2), (2, 1), (2, 3)])
def test_a_decoder_refuses_memories_or_recalls_for_another_number_of_blocks(memories, recalls):
    module = sharpen(Decoder([decoder_of(PreNormDecoderBlock) for _ in range(2)], nn.Identity()))
    remembered = [module.blocks[0].cross.remember(randn(1, 5, WIDTH))] * memories
    with pytest.raises(ValueError, match="argument"):
        module(randn(1, 4, WIDTH), Context(causal(4)), remembered, ALL_VISIBLE, [only_these] * recalls)


@pytest.mark.parametrize("block", [PreNormBlock, PostNormBlock])
def test_permuting_the_tokens_of_an_encoder_permutes_its_outputs_and_both_axes_of_every_map(block):
    module, x = sharpen(Stack([encoder_of(block, nn.ReLU()) for _ in range(2)], norm())), randn(2, 5, WIDTH)
    order = torch.tensor([3, 0, 4, 1, 2])
    given, maps = module(x)
    permuted, permuted_maps = module(x[:, order])
    assert_same(permuted, given[:, order])
    assert_same_maps(permuted_maps, {name: found[:, :, order][:, :, :, order] for name, found in maps.items()})


@pytest.mark.parametrize("block", [PreNormBlock, PostNormBlock])
def test_padding_changes_nothing_for_the_tokens_before_it(block):
    module, x = sharpen(Stack([encoder_of(block, nn.ReLU()) for _ in range(2)], norm())), randn(2, 5, WIDTH)
    given, maps = module(x, Context(PADDED[:, None, None, :]))
    alone, maps_alone = module(x[1:, :3])
    assert_same(given[1:, :3], alone)
    for name, found in maps.items():
        assert_same(found[1:, :, :3, :3], maps_alone[name])
        assert (found[1, :, :, 3:] == 0).all()


def test_a_norm_is_made_afresh_for_every_place():
    block = decoder_of(PostNormDecoderBlock)
    assert len({id(parameter) for parameter in block.parameters()}) == 2 * (3 + 4 + 4 + 2)


def attentions(count):
    return [MultiHeadAttention(WIDTH, HEADS) for _ in range(count)]


def feed_forwards(count):
    return [FeedForward(WIDTH, HIDDEN, nn.GELU()) for _ in range(count)]


def branches(merge):
    return BranchformerBlock(*attentions(1), ConvolutionalGatingMLP(WIDTH, HIDDEN, KERNEL), merge, norm)


def depthwise(w, name, x):
    """A correlation a channel along the tokens, zeros beyond their ends."""
    side = KERNEL // 2
    padded = np.pad(x, ((0, 0), (side, side), (0, 0)))
    windows = np.stack([padded[:, start : start + x.shape[1]] for start in range(KERNEL)], -1)  # (b, t, c, k)
    return np.einsum("btck,ck->btc", windows, w[f"{name}.weight"][:, 0]) + w[f"{name}.bias"]


def gating(w, name, x):
    wide = gelu(linear(w, f"{name}.0", x))
    a, b = np.split(wide, 2, axis=-1)
    return linear(w, f"{name}.3", a * depthwise(w, f"{name}.2.convolution", layer_norm(w, f"{name}.2.norm", b)))


def parallel_equation(w, x):
    found = [
        attention_equation(w, f"module.attentions.{i}", HEADS, *[layer_norm(w, f"module.attention_norms.{i}", x)] * 2)
        for i in range(2)
    ]
    x = x + found[0][0] + found[1][0]
    more = [
        feed_forward(w, f"module.feed_forwards.{i}", layer_norm(w, f"module.feed_forward_norms.{i}", x), gelu)
        for i in range(2)
    ]
    return x + more[0] + more[1], {f"attentions.{i}": found[i][1] for i in range(2)}


def half_fed(w, part, x):
    return x + 0.5 * feed_forward(w, f"module.{part}", layer_norm(w, f"module.{part}_norm", x), gelu)


def macaron_equation(w, x):
    x = half_fed(w, "first", x)
    mixed, weights = attention_equation(w, "module.attention", HEADS, *[layer_norm(w, "module.attention_norm", x)] * 2)
    return half_fed(w, "second", x + mixed), {"attention": weights}


def both_branches(w, name, x):
    mixed, weights = attention_equation(
        w, f"{name}.attention", HEADS, *[layer_norm(w, f"{name}.attention_norm", x)] * 2
    )
    return np.concatenate((mixed, gating(w, f"{name}.gating", layer_norm(w, f"{name}.gating_norm", x))), -1), weights


def branchformer_equation(w, x):
    both, weights = both_branches(w, "module", x)
    return x + linear(w, "module.merge", both), {"attention": weights}


def e_branchformer_equation(w, x):
    x = half_fed(w, "first", x)
    y, weights = both_branches(w, "module.branches", x)
    merged = linear(w, "module.branches.merge.output", depthwise(w, "module.branches.merge.convolution", y) + y)
    return layer_norm(w, "module.norm", half_fed(w, "second", x + merged)), {"branches.attention": weights}


BLOCKS = {
    "parallel": (lambda: ParallelBlock(attentions(2), feed_forwards(2), norm), parallel_equation),
    "macaron": (lambda: MacaronBlock(*attentions(1), *feed_forwards(2), norm), macaron_equation),
    "branchformer": (lambda: branches(nn.Linear(2 * WIDTH, WIDTH)), branchformer_equation),
    "e-branchformer": (
        lambda: EBranchformerBlock(branches(DepthwiseMerge(WIDTH, KERNEL)), *feed_forwards(2), norm),
        e_branchformer_equation,
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_is_its_equation(name):
    make, equation = BLOCKS[name]
    module, x = sharpen(make()), randn(2, TOKENS, WIDTH)
    given, maps = module(x)
    expected, weights = equation(weights_of(module), x.numpy())
    assert_same(given, expected)
    assert_same_maps(maps, weights)


@pytest.mark.parametrize("visible", VISIBLE.values(), ids=VISIBLE)
def test_a_block_with_norms_behind_its_branches_follows_its_equation(visible):
    block, x = sharpen(BranchNormBlock(attention(), FeedForward(WIDTH, HIDDEN, nn.GELU()), norm)), randn(2, 5, WIDTH)
    given, maps = block(x, Context(visible))
    w = weights_of(block, "block")
    mixed, found = attention_equation(w, "block.attention", HEADS, x.numpy(), x.numpy(), shared(visible))
    expected = x.numpy() + layer_norm(w, "block.attention_norm", mixed)
    expected = expected + layer_norm(
        w, "block.feed_forward_norm", feed_forward(w, "block.feed_forward", expected, gelu)
    )
    assert_same(given, expected)
    assert_same_maps(maps, {"attention": found})
