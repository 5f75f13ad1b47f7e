import pytest
import torch
from torch import nn

from model.attention import MultiHeadAttention, causal
from model.blocks import (
    Decoder,
    Encoder,
    PostNormDecoderBlock,
    PostNormEncoderBlock,
    PreNormDecoderBlock,
    PreNormEncoderBlock,
    only_these,
)
from model.parts import FeedForward
from tests.model.reference import (
    assert_same,
    assert_same_maps,
    copy_block,
    decoder_block,
    encoder_block,
    gelu,
    layer_norm,
    randn,
    relu,
    sharpen,
    weights_of,
)

WIDTH, HEADS, HIDDEN = 12, 3, 20
PADDED = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])  # (batch, token)
VISIBLE = {
    "everything": None,
    "what came before": causal(5),
    "what is no padding": PADDED[:, None, None, :],
    "both": causal(5) & PADDED[:, None, None, :],
}
ENCODER_BLOCKS = [(PreNormEncoderBlock, True), (PostNormEncoderBlock, False)]
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
    given, maps = module(x, visible)
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
    assert_same(ours(x, VISIBLE[visible])[0], theirs(x, **hidden(visible)))


@pytest.mark.parametrize("memory_visible", [None, PADDED[:, None, None, :]], ids=["unpadded", "padded"])
@pytest.mark.parametrize(("block", "pre_norm"), DECODER_BLOCKS)
def test_a_decoder_block_is_its_equation(block, pre_norm, memory_visible):
    module, x, memory = sharpen(decoder_of(block)), randn(2, 4, WIDTH), randn(2, 5, WIDTH, seed=2)
    given, maps = module(x, module.cross.remember(memory), causal(4), memory_visible, only_these)
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
    given, _ = ours(x, ours.cross.remember(memory), causal(4), PADDED[:, None, None, :], only_these)
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
    _, maps = module(x, module.cross.remember(memory), everything, None, recall)
    y = module.attention_norm(x) if pre_norm else x
    assert len(offered) == 1
    for new, expected in zip(offered[0], module.attention.remember(y), strict=True):
        assert_same(new, expected)
    assert_same(maps["attention"], module.attention.read(y, recalled, everything)[1][""])


@pytest.mark.parametrize(("block", "pre_norm"), ENCODER_BLOCKS)
@pytest.mark.parametrize("last", [norm, nn.Identity], ids=["norm", "no norm"])
def test_an_encoder_is_its_blocks_in_order_and_then_its_norm(block, pre_norm, last):
    module, x = sharpen(Encoder([encoder_of(block, nn.ReLU()) for _ in range(3)], last())), randn(2, 5, WIDTH)
    given, maps = module(x, VISIBLE["what is no padding"])
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
    given, maps = module(x, module.remember(memory), causal(4), PADDED[:, None, None, :])
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
    module(randn(2, 4, WIDTH), remembered, causal(4), None, recalls)
    assert called == [0, 1, 2]


@pytest.mark.parametrize(("memories", "recalls"), [(1, 2), (3, 2), (2, 1), (2, 3)])
def test_a_decoder_refuses_memories_or_recalls_for_another_number_of_blocks(memories, recalls):
    module = sharpen(Decoder([decoder_of(PreNormDecoderBlock) for _ in range(2)], nn.Identity()))
    remembered = [module.blocks[0].cross.remember(randn(1, 5, WIDTH))] * memories
    with pytest.raises(ValueError, match="argument"):
        module(randn(1, 4, WIDTH), remembered, causal(4), None, [only_these] * recalls)


@pytest.mark.parametrize("block", [PreNormEncoderBlock, PostNormEncoderBlock])
def test_permuting_the_tokens_of_an_encoder_permutes_its_outputs_and_both_axes_of_every_map(block):
    module, x = sharpen(Encoder([encoder_of(block, nn.ReLU()) for _ in range(2)], norm())), randn(2, 5, WIDTH)
    order = torch.tensor([3, 0, 4, 1, 2])
    given, maps = module(x, None)
    permuted, permuted_maps = module(x[:, order], None)
    assert_same(permuted, given[:, order])
    assert_same_maps(permuted_maps, {name: found[:, :, order][:, :, :, order] for name, found in maps.items()})


@pytest.mark.parametrize("block", [PreNormEncoderBlock, PostNormEncoderBlock])
def test_padding_changes_nothing_for_the_tokens_before_it(block):
    module, x = sharpen(Encoder([encoder_of(block, nn.ReLU()) for _ in range(2)], norm())), randn(2, 5, WIDTH)
    given, maps = module(x, PADDED[:, None, None, :])
    alone, maps_alone = module(x[1:, :3], None)
    assert_same(given[1:, :3], alone)
    for name, found in maps.items():
        assert_same(found[1:, :, :3, :3], maps_alone[name])
        assert (found[1, :, :, 3:] == 0).all()


def test_a_norm_is_made_afresh_for_every_place():
    block = decoder_of(PostNormDecoderBlock)
    assert len({id(parameter) for parameter in block.parameters()}) == 2 * (3 + 4 + 4 + 2)
