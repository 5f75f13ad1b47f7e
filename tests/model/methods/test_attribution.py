"""Balanced gradient x input against the same shares found forwards, without a gradient, both in float64."""

import functools
from dataclasses import replace

import pytest
import torch
from torch import nn

from model.architectures.gpt import GPTConfig, gpt
from model.architectures.text_encoder import TextEncoderConfig, text_encoder
from model.architectures.transformer import TransformerConfig, bart, marian, vaswani
from model.architectures.vit import ViTConfig, vit
from model.methods.attribution import libra
from model.parts.attention import MultiHeadAttention, scaled_dot_product, soft
from model.parts.attention_variants import Additive, AxialAttention, Bilinear, Hard, ReAttention, dot_product
from model.parts.blocks import (
    BranchformerBlock,
    EBranchformerBlock,
    MacaronBlock,
    ParallelBlock,
    PostNormBlock,
    PreNormBlock,
)
from model.parts.convolutions import ConvolutionalGatingMLP, DepthwiseMerge
from model.parts.feed_forward import ACTIVATIONS, FeedForward, GatedFeedForward
from model.parts.heads import (
    POOLS,
    DistilledClassifier,
    EachLinear,
    FirstAndMeanClassifier,
    FirstClassifier,
    FirstDense,
    FirstLinear,
    FirstState,
    MaskedWords,
    Pool,
    SparseWords,
    Unit,
    word_parts,
)
from model.parts.norms import LayerScale
from model.parts.stacks import POST_NORM, PRE_NORM, StackSizes
from tests.samples.attention_reference import assert_same, randn, sharpen
from tests.samples.shares_reference import decoded, filled, of_tokens, pooled, through, unit, weighed

WIDTH, HEADS, HIDDEN, CLASSES, VOCABULARY, KERNEL = 12, 3, 20, 5, 11, 3
IMAGE = ViTConfig((6, 8), 1, (2, 2), WIDTH, layers=2, heads=HEADS, hidden=HIDDEN, classes=CLASSES)
TEXT = TextEncoderConfig(VOCABULARY, length=9, width=WIDTH, layers=2, heads=HEADS, hidden=HIDDEN, types=2)
STACK = StackSizes(2, HEADS, HIDDEN)
PAIR = TransformerConfig(VOCABULARY, length=9, width=WIDTH, encoder=STACK, decoder=STACK)
GPT_SMALL = GPTConfig(VOCABULARY, length=9, width=WIDTH, layers=2, heads=HEADS, hidden=HIDDEN)
PIXELS = randn(3, 1, 6, 8)
TOKENS = torch.randint(VOCABULARY, (3, 6), generator=torch.Generator().manual_seed(3))
LENGTHS = torch.tensor([6, 4, 1])
SHOWN = torch.arange(6) < LENGTHS[:, None]
TYPES = (torch.arange(6) > 2).long().expand(3, -1)
ROWS = torch.arange(3)
TARGETS = torch.tensor([1, 4, 0])
norm = functools.partial(nn.LayerNorm, WIDTH)


def states_of(stacks, run):
    """Run a model; return what enters each block of each stack, and the maps."""
    found = [[] for _ in stacks]
    hooks = [
        block.register_forward_pre_hook(lambda _, given, own=own: own.append(given[0]))
        for stack, own in zip(stacks, found, strict=True)
        for block in stack.blocks
    ]
    with torch.no_grad():
        answer, maps = run()
    for hook in hooks:
        hook.remove()
    return found, answer, maps


def assert_each_layer(model, stack, run, head, target):
    """Hold libra against the shares at each layer of a stack. Of states, `head` and `target` make a score (batch)."""
    (states,), answer, maps = states_of([stack], run)
    given = libra(model, [stack], lambda: target(run()[0]))
    assert_same(given.score, target(answer))
    for layer, state in enumerate(states):
        of_layer = zip(maps.items(), map(int, (name.split(".blocks.")[1].split(".")[0] for name in maps)), strict=True)
        later = iter([one for (_, one), at in of_layer if at >= layer])
        (shares,) = of_tokens(state)
        with torch.no_grad():
            for block in list(stack.blocks)[layer:]:
                shares = through(block, shares, later)
            shares = head(through(stack.norm, shares))
        assert_same(shares.sum(0), answer)
        *tokens, biases = target(shares)
        assert_same(given.tokens[0][layer], torch.stack(tokens, 1), 1e-9)
        assert_same(given.biases[layer], biases.sum(), 1e-9)
    assert (given.tokens[0][0] - given.tokens[0][-1]).abs().max() > 1e-3 or len(states) == 1


def chosen(logits):
    """Return the logits of the targets, of logits (..., batch, classes)."""
    return logits[..., ROWS, TARGETS]


def assert_vit(model, head=None, target=chosen):
    model = sharpen(model)
    head = head or functools.partial(through, model.head)
    assert_each_layer(model, model.encoder, lambda: model(PIXELS), head, target)


def feed_forward(activation="gelu"):
    return FeedForward(WIDTH, HIDDEN, ACTIVATIONS[activation]())


def attention(score=scaled_dot_product, select=soft):
    return MultiHeadAttention(WIDTH, HEADS, score=score, select=select)


def branches(merge):
    return BranchformerBlock(attention(), ConvolutionalGatingMLP(WIDTH, HIDDEN, KERNEL), merge, norm)


BLOCKS = {
    **{
        f"{wiring.__name__}, {name}": lambda wiring=wiring, name=name: wiring(attention(), feed_forward(name), norm)
        for wiring in (PreNormBlock, PostNormBlock)
        for name in ACTIVATIONS
    },
    "gated": lambda: PreNormBlock(attention(), GatedFeedForward(WIDTH, HIDDEN), norm, lambda: LayerScale(WIDTH)),
    "parallel": lambda: ParallelBlock([attention(), attention()], [feed_forward(), feed_forward("silu")], norm),
    "macaron": lambda: MacaronBlock(attention(), feed_forward(), feed_forward("relu"), norm),
    "branchformer": lambda: branches(nn.Linear(2 * WIDTH, WIDTH)),
    "e-branchformer": lambda: EBranchformerBlock(
        branches(DepthwiseMerge(WIDTH, KERNEL)), feed_forward(), feed_forward("silu"), norm
    ),
    "dot": lambda: PreNormBlock(attention(dot_product), feed_forward(), norm),
    "bilinear": lambda: PreNormBlock(attention(Bilinear(HEADS, WIDTH // HEADS)), feed_forward(), norm),
    "additive": lambda: PreNormBlock(attention(Additive(HEADS, WIDTH // HEADS)), feed_forward(), norm),
    "hard": lambda: PreNormBlock(attention(select=Hard()), feed_forward(), norm),
    "re-attention": lambda: PreNormBlock(attention(select=ReAttention(HEADS)), feed_forward(), norm),
    "axial": lambda: PreNormBlock(AxialAttention(WIDTH, HEADS, 0, IMAGE.grid, prefix=1), feed_forward(), norm),
}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_libra_of_a_block_is_what_each_token_gave(block):
    assert_vit(vit(IMAGE, blocks=[block(), block()]))


IMAGE_HEADS = {
    "class token": lambda: FirstLinear(WIDTH, CLASSES),
    "distilled": lambda: DistilledClassifier(WIDTH, CLASSES),
    "class token and mean": lambda: FirstAndMeanClassifier(WIDTH, CLASSES, 4),
}


@pytest.mark.parametrize("head", IMAGE_HEADS.values(), ids=IMAGE_HEADS)
def test_libra_of_images_goes_through_their_head_and_to_every_token_of_the_prefix(head):
    assert_vit(vit(replace(IMAGE, distillation_tokens=1, registers=2), head()))


OTHER = randn(3, WIDTH, seed=8)


def test_libra_of_the_cosine_of_a_class_tokens_state_takes_its_length_as_a_constant():
    model = sharpen(vit(IMAGE, FirstState()))
    other = OTHER / OTHER.norm(dim=1, keepdim=True)

    def similarity(vectors):
        return (vectors / vectors.norm(dim=-1, keepdim=True) * other).sum(-1)

    (states,), answer, maps = states_of([model.encoder], lambda: model(PIXELS))
    given = libra(model, [model.encoder], lambda: similarity(model(PIXELS)[0]))
    with torch.no_grad():
        shares = unit(through(model.head, through(model.encoder, of_tokens(states[0])[0], iter(maps.values()))))
    *tokens, biases = (shares * other).sum(-1)
    assert_same(given.tokens[0][0], torch.stack(tokens, 1), 1e-9)
    assert_same(given.biases[0], biases.sum(), 1e-9)
    assert_same(given.score, nn.functional.cosine_similarity(answer, OTHER))


def assert_text(head, share, target, *asked):
    """Hold libra of a text encoder with padding against the shares; `share` passes them through the head."""
    model = sharpen(text_encoder(TEXT, head))
    assert_each_layer(model, model.encoder, lambda: model(TOKENS, SHOWN, TYPES, *asked), share, target)
    found = libra(model, [model.encoder], lambda: target(model(TOKENS, SHOWN, TYPES, *asked)[0]))
    assert (found.tokens[0][0][~SHOWN] == 0).all()  # padding gives nothing


TEXT_HEADS = {
    "pooler": lambda: FirstDense(WIDTH, CLASSES, nn.Tanh()),
    "classes": lambda: FirstClassifier(WIDTH, CLASSES, nn.Tanh()),
    "classes, relu": lambda: FirstClassifier(WIDTH, CLASSES, nn.ReLU()),
}


@pytest.mark.parametrize("head", TEXT_HEADS.values(), ids=TEXT_HEADS)
def test_libra_of_texts_goes_through_their_head(head):
    head = head()
    assert_text(head, functools.partial(through, head), chosen)


@pytest.mark.parametrize("length", ["unit", "own"])
@pytest.mark.parametrize("pooling", POOLS)
def test_libra_of_an_embedding_goes_through_its_pool(pooling, length):
    def share(states):
        found = pooled(pooling, states, SHOWN)
        return unit(found) if length == "unit" else found

    assert_text(
        Pool(pooling, Unit() if length == "unit" else nn.Identity()), share, lambda vectors: (vectors * OTHER).sum(-1)
    )


def test_libra_of_masked_words_goes_through_their_head():
    masked = torch.tensor([[0, 4], [2, 0], [0, 0]])
    activation, places = nn.GELU(), torch.tensor([1, 0, 1])
    head = MaskedWords(word_parts(WIDTH, VOCABULARY, activation, norm()))
    assert_text(
        head, lambda states: filled(head, states, masked), lambda logits: logits[..., ROWS, places, TARGETS], masked
    )


@pytest.mark.parametrize("logs", [1, 2])
@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_libra_of_a_word_s_weight_goes_through_its_logarithms(pooling, logs):
    head = SparseWords(word_parts(WIDTH, VOCABULARY, nn.GELU(), norm()), pooling, logs)
    assert_text(head, lambda states: weighed(head, states, SHOWN), lambda weights: weights[..., ROWS, TARGETS])


def test_libra_of_a_token_s_label_goes_through_their_head():
    head, places = EachLinear(WIDTH, CLASSES), torch.tensor([4, 2, 0])
    assert_text(head, functools.partial(through, head), lambda logits: logits[..., ROWS, places, TARGETS])


def test_libra_of_a_continued_text_goes_to_the_tokens_before_it():
    model, places = sharpen(gpt(GPT_SMALL)), torch.tensor([5, 3, 0])

    def target(logits):
        return logits[..., ROWS, places, TARGETS]

    assert_each_layer(model, model.decoder, lambda: model(TOKENS), functools.partial(through, model.head), target)
    found = libra(model, [model.decoder], lambda: target(model(TOKENS)[0]))
    later = torch.arange(6) > places[:, None]
    assert (found.tokens[0][0][later] == 0).all()
    assert (found.tokens[0][0][~later] != 0).all()


PAIRS = {
    "vaswani, post-norm": lambda: vaswani(PAIR, POST_NORM),
    "vaswani, pre-norm": lambda: vaswani(PAIR, PRE_NORM),
    "vaswani, bilinear": lambda: vaswani(PAIR, PRE_NORM, Bilinear),
    "bart": lambda: bart(replace(PAIR, activation="gelu"), POST_NORM, scale=2.0),
    "marian": lambda: marian(replace(PAIR, activation="silu"), POST_NORM, scale=3.0),
}


@pytest.mark.parametrize("compose", PAIRS.values(), ids=PAIRS)
def test_libra_of_a_generated_token_goes_to_the_source_and_to_the_target_before_it(compose):
    model = sharpen(compose())
    target = TOKENS.flip(0, 1)[:, :4]
    places = torch.tensor([3, 0, 2])

    def run():
        return model(TOKENS, SHOWN, target)

    stacks = [model.encoder, model.decoder]
    states, answer, maps = states_of(stacks, run)
    given = libra(model, stacks, lambda: run()[0][ROWS, places, TARGETS])
    with torch.no_grad():
        source, prefix = of_tokens(states[0][0], states[1][0])
        maps = iter(maps.values())
        memory = through(model.encoder, source, maps)
        shares = through(model.head, decoded(model.decoder, prefix, memory, maps))
    assert_same(shares.sum(0), answer)
    *tokens, biases = shares[:, ROWS, places, TARGETS]
    tokens = torch.stack(tokens, 1)
    assert_same(given.tokens[0][0], tokens[:, :6], 1e-9)
    assert_same(given.tokens[1][0], tokens[:, 6:], 1e-9)
    assert_same(given.biases[0], biases.sum(), 1e-9)
    assert (given.tokens[0][0][~SHOWN] == 0).all()
    assert (given.tokens[1][0][torch.arange(4) > places[:, None]] == 0).all()


class Channels(nn.Module):
    """A block with no bias but those of a norm of channels, if it has one."""

    def __init__(self, norm):
        super().__init__()
        self.norm, self.linear = norm(TOKENS.shape[1]), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return x + self.linear(self.norm(x))


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, functools.partial(nn.BatchNorm1d, affine=False), nn.Identity])
def test_libra_adds_up_to_the_score_with_measured_means_and_without_any_bias(norm):
    stack = nn.Module()
    stack.blocks = nn.Sequential(Channels(norm), Channels(norm))
    model = sharpen(nn.ModuleDict({"encoder": stack}).double().eval())
    for name, buffer in model.named_buffers():
        if buffer.dtype.is_floating_point:
            buffer.copy_(randn(*buffer.shape).abs() + len(name))
    weights = randn(3, TOKENS.shape[1], WIDTH)
    x = randn(3, TOKENS.shape[1], WIDTH)
    found = libra(model, [stack], lambda: (stack.blocks(x) * weights).sum((1, 2)))
    for tokens, biases in zip(found.tokens[0], found.biases, strict=True):
        assert_same(tokens.sum() + biases, found.score.sum())
    assert norm is not nn.Identity or found.biases == [0, 0]
    assert not any(buffer.requires_grad for buffer in model.buffers())
