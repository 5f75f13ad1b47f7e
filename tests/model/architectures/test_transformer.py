from dataclasses import replace

import pytest
import torch
from torch import nn

from model.architectures.t5 import T5Config, t5
from model.architectures.transformer import PADDING_OFFSET, TransformerConfig, bart, marian, vaswani
from model.parts.attention import MultiHeadAttention, causal
from model.parts.positions import sinusoids
from model.parts.stacks import POST_NORM, PRE_NORM, StackSizes
from tests.samples.attention_reference import assert_same, assert_same_maps, copy_block, randn, sharpen

WIDTH, HEADS, HIDDEN, LAYERS, VOCABULARY = 16, 4, 24, 2, 13
STACK = StackSizes(LAYERS, HEADS, HIDDEN)
SMALL = TransformerConfig(VOCABULARY, length=20, width=WIDTH, encoder=STACK, decoder=STACK)
APART = replace(SMALL, target_vocabulary=VOCABULARY)


def untied(wiring):
    head = nn.Linear(WIDTH, VOCABULARY, bias=False)
    return marian(APART, wiring, scale=WIDTH**0.5, head=head)


def relative(*, own):
    """A T5 in which distances of these texts share buckets, of a table or of one a layer."""
    sizes = {"key_width": WIDTH // HEADS, "buckets": 8, "farthest": 5, "own": own}
    return t5(T5Config(VOCABULARY, length=20, width=WIDTH, encoder=STACK, decoder=STACK, **sizes))


VASWANI = {
    "pre-norm, tied": lambda: vaswani(SMALL, PRE_NORM),
    "pre-norm, untied": lambda: untied(PRE_NORM),
    "post-norm, tied": lambda: vaswani(SMALL),
    "post-norm, untied": lambda: untied(POST_NORM),
}
MODELS = VASWANI | {"T5": lambda: relative(own=False), "T5, a table a layer": lambda: relative(own=True)}
SOURCE_LENGTHS = (7, 3, 5, 1, 6)
TARGET_LENGTHS = (4, 6, 1, 5, 2)


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def model(request):
    return sharpen(request.param())


def tokens(*shape, seed=0):
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def shown(lengths):
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # (batch, longest)


def batch(seed=0):
    """Five sources and targets of mixed lengths; what lies on padding is no special token."""
    source = tokens(5, max(SOURCE_LENGTHS), seed=seed)
    return source, shown(SOURCE_LENGTHS), tokens(5, max(TARGET_LENGTHS), seed=seed + 1)


def row(maps, index):
    """The maps of one row of a batch, cut to its lengths."""
    sizes = {
        "encoder": (SOURCE_LENGTHS[index], SOURCE_LENGTHS[index]),
        "attention": (TARGET_LENGTHS[index], TARGET_LENGTHS[index]),
        "cross": (TARGET_LENGTHS[index], SOURCE_LENGTHS[index]),
    }
    cut = {}
    for name, found in maps.items():
        query, key = sizes["encoder" if name.startswith("encoder.") else name.rpartition(".")[2]]
        cut[name] = found[index : index + 1, :, :query, :key]
    return cut


def reference(model):
    """An nn.Transformer with the same weights.

    Left alone, torch would end both stacks in a norm after post-norm blocks too, which the paper does not.
    """
    pre_norm = isinstance(model.encoder.norm, nn.LayerNorm)
    sizes = {"dropout": 0.0, "batch_first": True, "norm_first": pre_norm, "dtype": torch.float64}
    encoder_layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, **sizes)
    decoder_layer = nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, **sizes)
    ends = [nn.LayerNorm(WIDTH, dtype=torch.float64) if pre_norm else None for _ in range(2)]
    theirs = nn.Transformer(
        custom_encoder=nn.TransformerEncoder(encoder_layer, LAYERS, ends[0], enable_nested_tensor=False),
        custom_decoder=nn.TransformerDecoder(decoder_layer, LAYERS, ends[1]),
        d_model=WIDTH,
        nhead=HEADS,
        batch_first=True,
    )
    for stack, copy in ((model.encoder, theirs.encoder), (model.decoder, theirs.decoder)):
        for block, layer in zip(stack.blocks, copy.layers, strict=True):
            copy_block(block, layer)
        if pre_norm:
            copy.norm.load_state_dict(stack.norm.state_dict())
    return theirs


def caches(batch, capacity, seed):
    """Empty caches as a step may find them: full of what was there before."""
    shape = (batch, HEADS, capacity, WIDTH // HEADS)
    return [
        (100 * randn(*shape, seed=seed + block), 100 * randn(*shape, seed=-seed - block)) for block in range(LAYERS)
    ]


@pytest.mark.parametrize("model", VASWANI.values(), ids=VASWANI, indirect=True)
def test_the_logits_are_those_of_torch_with_causal_and_padding_masks(model):
    source, visible, target = batch()
    theirs = reference(model)
    rows = model.source.positions.table
    decoded = theirs(
        model.source.tokens.weight[source] * WIDTH**0.5 + rows[: source.shape[1]],
        model.target.tokens.weight[target] * WIDTH**0.5 + rows[: target.shape[1]],
        tgt_mask=~causal(target.shape[1]),
        src_key_padding_mask=~visible,
        memory_key_padding_mask=~visible,
    )
    assert_same(model(source, visible, target)[0], decoded @ model.head.weight.T)


def test_a_batch_of_mixed_lengths_is_its_rows_one_by_one_without_padding(model):
    source, visible, target = batch()
    logits, maps = model(source, visible, target)
    for index, (read, written) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS, strict=True)):
        one, one_maps = model(
            source[index : index + 1, :read], visible[index : index + 1, :read], target[index : index + 1, :written]
        )
        assert_same(logits[index : index + 1, :written], one)
        assert_same_maps(row(maps, index), one_maps)


def test_a_padded_key_weighs_exactly_nothing_in_encoder_and_cross_maps(model):
    source, visible, target = batch()
    _, maps = model(source, visible, target)
    for name, found in maps.items():
        if not name.endswith("attention") or name.startswith("encoder"):
            hidden = found.masked_select(~visible[:, None, None, :])
            assert len(hidden)
            assert (hidden == 0).all()


def test_every_row_of_every_map_is_a_distribution_and_targets_do_not_look_ahead(model):
    source, visible, target = batch()
    _, maps = model(source, visible, target)
    for name, found in maps.items():
        assert (found >= 0).all()
        assert_same(found.sum(-1), torch.ones(found.shape[:-1], dtype=torch.float64))
        if name.startswith("decoder") and name.endswith("attention"):
            assert (found.triu(1) == 0).all()


def test_what_lies_on_padding_is_not_read(model):
    source, visible, target = batch()
    logits, _ = model(source, visible, target)
    other, _ = model(torch.where(visible, source, (source + 5) % VOCABULARY), visible, target)
    assert_same(other, logits)


@pytest.mark.parametrize("changed", range(1, 6))
def test_a_later_target_token_does_not_change_earlier_rows(model, changed):
    source, visible, target = batch()
    other = target.clone()
    other[:, changed] = (other[:, changed] + 1) % VOCABULARY
    (before, maps), (after, other_maps) = model(source, visible, target), model(source, visible, other)
    assert_same(after[:, :changed], before[:, :changed])
    assert ((after - before)[:, changed].abs().amax(-1) > 1e-3).all()
    for name, found in maps.items():
        query = slice(None) if name.startswith("encoder") else slice(changed)
        assert_same(other_maps[name][:, :, query], found[:, :, query])


@pytest.mark.parametrize("capacity", [6, 9])
def test_decoding_step_by_step_gives_the_rows_of_a_full_pass(model, capacity):
    source, visible, target = batch()
    logits, maps = model(source, visible, target)
    memory, encoder_maps = model.encode(source, visible)
    assert_same_maps(encoder_maps, {name: found for name, found in maps.items() if name.startswith("encoder.")})
    past = caches(5, capacity, seed=50)
    for position in range(target.shape[1]):
        here, past, found = model.step(target[:, position], torch.full((5,), position), past, memory, visible)
        assert_same(here, logits[:, position])
        assert found.keys() | encoder_maps.keys() == maps.keys()
        for name, step_map in found.items():
            query = maps[name][:, :, position : position + 1]
            if name.endswith("attention"):
                assert step_map.shape == (5, HEADS, 1, capacity)
                assert (step_map[..., position + 1 :] == 0).all()
                assert_same(step_map[..., : target.shape[1]], query)
            else:
                assert_same(step_map, query)


def test_rows_of_one_batch_may_be_at_different_positions(model):
    source, visible, target = batch()
    logits, maps = model(source, visible, target)
    memory, _ = model.encode(source, visible)
    past, delays, capacity = caches(5, 8, seed=60), torch.tensor([0, 2, 1, 3, 0]), 8
    compared = 0
    for now in range(9):
        position = (now - delays).clamp(0, 5)  # a row that waits, or is done, writes the same slot again
        here, past, found = model.step(target[torch.arange(5), position], position, past, memory, visible)
        for index, place in enumerate(position.tolist()):
            assert_same(here[index], logits[index, place])
            for name, step_map in found.items():
                expected = maps[name][index, :, place]
                assert_same(step_map[index, :, 0, : expected.shape[-1]], expected)
                if name.endswith("attention"):
                    assert step_map.shape[-1] == capacity
                    assert (step_map[index, :, 0, place + 1 :] == 0).all()
        compared += len(set(position.tolist())) > 1
    assert compared > 5


def test_a_step_fills_one_slot_and_leaves_the_cache_it_was_given_alone(model):
    source, visible, target = batch()
    memory, _ = model.encode(source, visible)
    past, position = caches(5, 6, seed=70), torch.tensor([0, 3, 5, 1, 3])
    before = [tuple(part.clone() for part in pair) for pair in past]
    _, present, _ = model.step(target[:, 0], position, past, memory, visible)
    written = torch.arange(6) == position[:, None]  # (batch, capacity)
    assert len(present) == LAYERS
    for old, kept, new in zip(past, before, present, strict=True):
        for old_part, kept_part, new_part in zip(old, kept, new, strict=True):
            assert torch.equal(old_part, kept_part)
            assert torch.equal((new_part != old_part).any(-1), written[:, None].expand(5, HEADS, 6))


def test_there_is_one_map_for_every_attention_module_under_its_path(model):
    source, visible, target = batch()
    _, maps = model(source, visible, target)
    modules = dict(model.named_modules())
    assert all(isinstance(modules[name], MultiHeadAttention) for name in maps)
    assert maps.keys() == {name for name, module in modules.items() if isinstance(module, MultiHeadAttention)}
    assert len(maps) == 3 * LAYERS


def test_tied_embeddings_are_one_parameter_with_one_name():
    model = vaswani(SMALL)
    assert model.source.tokens.weight is model.target.tokens.weight is model.head.weight
    names = [name for name, parameter in model.named_parameters() if parameter.shape == (VOCABULARY, WIDTH)]
    assert names == ["source.tokens.weight"]


def test_untied_embeddings_are_three_parameters():
    model = untied(POST_NORM)
    names = [name for name, parameter in model.named_parameters() if parameter.shape == (VOCABULARY, WIDTH)]
    assert names == ["source.tokens.weight", "target.tokens.weight", "head.weight"]
    assert (model.source.tokens.weight != model.target.tokens.weight).all()


def test_fresh_embeddings_have_unit_variance_once_they_are_scaled():
    model = vaswani(replace(SMALL, vocabulary=1000, width=64))
    index = torch.zeros(1000, dtype=torch.long)
    embedded = model.source(torch.arange(1000)[None], index) - model.source.positions(index)
    assert abs(embedded.std() - 1) < 0.02


def test_the_sinusoids_are_not_among_the_weights(model):
    assert not [name for name in model.state_dict() if "positions" in name]


def test_a_bart_learns_positions_and_normalises_embeddings_on_each_side():
    model = sharpen(bart(SMALL, POST_NORM, scale=3.0))
    assert model.source.tokens is model.target.tokens
    assert model.head.weight is model.source.tokens.weight
    assert model.head.bias is not None
    index, given = torch.arange(4), tokens(2, 4)
    for side in (model.source, model.target):
        summed = side.tokens.weight[given] * 3 + side.positions.weight[PADDING_OFFSET + index]
        assert_same(side(given, index), side.norm(summed))
    assert (model.source.positions.weight != model.target.positions.weight).all()
    assert (model.source.norm.weight != model.target.norm.weight).all()
    assert len(model.source.positions.weight) == PADDING_OFFSET + SMALL.length


def test_a_marian_has_sines_before_cosines_and_one_embedding_unless_the_target_has_its_own_vocabulary():
    model = marian(SMALL, POST_NORM, scale=1.0)
    assert model.source is model.target
    assert model.head.weight is model.target.tokens.weight
    assert model.head.bias is not None
    assert torch.equal(model.source.positions.table, sinusoids(SMALL.length, WIDTH, interleaved=False))
    model = marian(replace(SMALL, target_vocabulary=17), POST_NORM, scale=1.0)
    assert model.source.tokens.weight.shape == (VOCABULARY, WIDTH)
    assert model.head.weight is model.target.tokens.weight
    assert model.head.weight.shape == (17, WIDTH)
