"""The methods against the papers' equations in float64, and what must hold of them whatever the numbers."""

import math

import numpy as np
import pytest
import torch

from model.methods import explanations
from tests.samples import explanations_reference as reference
from tests.samples.attention_reference import assert_same

BATCH, HEADS, TOKENS = 3, 4, 7
RNG = np.random.default_rng(5)


def close(given, wanted, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(given), np.asarray(wanted), rtol=0, atol=tolerance)


def tensors(*arrays):
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]


def maps(layers=3, tokens=TOKENS, seed=0):
    """Fused maps of several layers, whose rows sum to one."""
    return [reference.draw(BATCH, tokens, tokens, seed=seed + layer) for layer in range(layers)]


def every(layers):
    return torch.ones(len(layers), dtype=torch.bool)


def rolled(layers, included=None, rows=None):
    chosen = every(layers) if included is None else torch.tensor(included)
    rows = range(layers[0].shape[-1]) if rows is None else rows
    return explanations.rollout(tensors(*layers), chosen, torch.tensor(list(rows))).numpy()


def evidence(layers=3, queries=TOKENS, keys=TOKENS, seed=0):
    """Layers of Ā: nonnegative, whose rows sum to anything, a few to nothing."""
    rng = np.random.default_rng(seed)
    found = [np.maximum(rng.normal(size=(BATCH, queries, keys)), 0) for _ in range(layers)]
    for layer in found:
        layer[:, -2:] = 0
    return found


# Rollout


@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
def test_rollout_is_the_product_of_the_mixed_maps(fusion):
    layers = [reference.fused(reference.draw(BATCH, HEADS, TOKENS, TOKENS, seed=seed), fusion) for seed in range(4)]
    close(rolled(layers), reference.rollout(layers))


def test_rollout_returns_the_rows_asked_for_in_their_order():
    layers = maps()
    close(rolled(layers, rows=[5, 0, 5]), reference.rollout(layers)[:, [5, 0, 5]])


@pytest.mark.parametrize("included", [[True, False, True], [False, True, True], [False, False, False]])
def test_a_layer_left_out_of_rollout_counts_as_the_identity(included):
    layers = maps()
    chosen = [layer for layer, kept in zip(layers, included, strict=True) if kept]
    wanted = reference.rollout(chosen) if chosen else np.broadcast_to(np.eye(TOKENS), layers[0].shape)
    close(rolled(layers, included), wanted)


@pytest.mark.parametrize("scale", [1.0, 0.2, 3.0])
def test_rows_of_rollout_sum_to_one_whatever_those_of_the_fused_maps_do(scale):
    close(rolled([layer * scale for layer in maps()]).sum(-1), np.ones((BATCH, TOKENS)))


def test_rollout_of_identities_is_the_identity():
    eyes = [np.broadcast_to(np.eye(TOKENS), (BATCH, TOKENS, TOKENS))] * 5
    close(rolled(eyes), eyes[0])


@pytest.mark.parametrize("depth", [1, 2, 6])
def test_rollout_of_uniform_attention_has_its_closed_form(depth):
    """(U + I) / 2 with U² = U is 2^-L I + (1 - 2^-L) U."""
    uniform = np.full((BATCH, TOKENS, TOKENS), 1 / TOKENS)
    wanted = 2.0**-depth * np.eye(TOKENS) + (1 - 2.0**-depth) * uniform
    close(rolled([uniform] * depth), wanted)


def test_rollout_of_renamed_tokens_is_the_renamed_rollout():
    layers, order = maps(), np.random.default_rng(1).permutation(TOKENS)
    close(rolled([layer[:, order][:, :, order] for layer in layers]), rolled(layers)[:, order][:, :, order])


def test_rollout_of_causal_maps_looks_at_nothing_later():
    layers = [np.tril(layer) for layer in maps()]
    found = rolled([layer / layer.sum(-1, keepdims=True) for layer in layers])
    assert (np.triu(found, 1) == 0).all()


def test_padded_keys_have_no_part_in_the_rollout_of_others():
    layers = maps()
    for layer in layers:
        layer[:, :, 4:] = 0
    assert (rolled(layers)[:, :4, 4:] == 0).all()


@pytest.mark.parametrize("axes", [(), (HEADS,)])
def test_a_mean_of_rows_may_be_of_some_tokens_alone(axes):
    drawn = reference.draw(BATCH, *axes, TOKENS, TOKENS)
    among = np.random.default_rng(3).random((BATCH, TOKENS)) < 0.5
    among[:, 0] = True
    assert len(set(among.sum(1).tolist())) > 1
    rows = torch.tensor([-1])
    found = explanations.mean_of_rows(torch.from_numpy(drawn), rows, torch.from_numpy(among)).numpy()
    layers = maps()
    rolled_out = explanations.rollout(tensors(*layers), every(layers), rows, torch.from_numpy(among))
    whole = reference.rollout(layers)
    for index, own in enumerate(among):
        close(found[index], drawn[index][..., own, :].mean(-2, keepdims=True))
        close(rolled_out[index], whole[index][own].mean(0, keepdims=True))


def test_rollout_of_a_batch_is_that_of_each_image():
    layers = maps()
    together = rolled(layers)
    for image in range(BATCH):
        close(together[[image]], rolled([layer[[image]] for layer in layers]))


# Discarding


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_discarding_sets_the_smallest_entries_of_each_image_to_zero(ratio):
    layer = reference.draw(BATCH, TOKENS, TOKENS)
    found = explanations.discard(torch.from_numpy(layer), torch.tensor(ratio, dtype=torch.float64)).numpy()
    close(found, reference.discarded(layer, math.floor(ratio * TOKENS**2)), 0)


def test_the_first_key_is_never_discarded():
    layer = reference.draw(BATCH, TOKENS, TOKENS)
    layer[:, :, 0] = 1e-9 * (1 + np.arange(TOKENS))
    found = explanations.discard(torch.from_numpy(layer), torch.tensor(0.9, dtype=torch.float64)).numpy()
    close(found[:, :, 0], layer[:, :, 0], 0)
    # they are counted among the smallest all the same
    assert (found == 0).sum() == BATCH * (math.floor(0.9 * TOKENS**2) - TOKENS)


def test_of_equal_entries_the_earlier_are_discarded():
    layer = torch.full((2, 4, 4), 0.25, dtype=torch.float64)
    found = explanations.discard(layer, torch.tensor(6 / 16, dtype=torch.float64)).numpy()
    wanted = np.full((4, 4), 0.25)
    wanted[0, 1:] = wanted[1, 1] = 0  # of the first six, two are of the first key
    close(found, np.stack([wanted] * 2), 0)


def test_discarding_counts_for_each_image_of_a_batch():
    layer = reference.draw(BATCH, TOKENS, TOKENS)
    layer[1] *= 1e-3  # all of it smaller than anything of the others
    ratio = torch.tensor(0.4, dtype=torch.float64)
    together = explanations.discard(torch.from_numpy(layer), ratio).numpy()
    for image in range(BATCH):
        close(together[[image]], explanations.discard(torch.from_numpy(layer[[image]]), ratio), 0)
        assert (together[image] == 0).sum() > 0.2 * TOKENS**2


# Norms


@pytest.mark.parametrize("keys", [TOKENS, 3])
def test_norms_are_those_of_the_vectors_that_are_added(keys):
    weights, value = reference.draw(BATCH, HEADS, TOKENS, keys), RNG.normal(size=(BATCH, HEADS, keys, 5))
    output = RNG.normal(size=(HEADS * 5, 11))
    f = np.einsum("bhjd,hdw->bhjw", value, output.reshape(HEADS, 5, 11))
    naive = np.linalg.norm(np.einsum("bhij,bhjw->bijw", weights, f), axis=-1)
    close(reference.norms(weights, value, output), naive)
    close(explanations.norms(*tensors(weights, value, output)), naive)


def test_heads_that_cancel_add_nothing_and_no_nan():
    """Gram matrices square, and a square root of what rounding leaves below zero would be NaN."""
    weights = np.repeat(reference.draw(BATCH, 1, TOKENS, TOKENS), 2, axis=1)
    value = np.repeat(RNG.normal(size=(BATCH, 1, TOKENS, 5)), 2, axis=1)
    half = RNG.normal(size=(5, 11))
    found = explanations.norms(*tensors(weights, value, np.concatenate((half, -half))))
    close(found, np.zeros((BATCH, TOKENS, TOKENS)), 1e-6)


def test_norms_are_homogeneous_in_values_and_of_one_head_are_its_weights_times_lengths():
    weights, value = reference.draw(BATCH, 1, TOKENS, TOKENS), RNG.normal(size=(BATCH, 1, TOKENS, 5))
    output = RNG.normal(size=(5, 11))
    once = explanations.norms(*tensors(weights, value, output)).numpy()
    close(once, weights[:, 0] * np.linalg.norm(value[:, 0] @ output, axis=-1)[:, None])
    close(explanations.norms(*tensors(weights, -3 * value, output)), 3 * once)


# Relevance


def test_negative_evidence_goes_before_heads_are_averaged():
    weights, gradient = reference.draw(BATCH, HEADS, TOKENS, TOKENS), RNG.normal(size=(BATCH, HEADS, TOKENS, TOKENS))
    found = explanations.relevance_of(*tensors(weights, gradient))
    close(found, reference.positive(weights, gradient))
    after = np.maximum((weights * gradient).mean(1), 0)
    assert np.abs(found.numpy() - after).max() > 0.01


@pytest.mark.parametrize("included", [None, [0, 2], [1], []])
def test_relevance_is_carried_through_the_layers_asked_for(included):
    layers = evidence()
    chosen = torch.tensor([included is None or index in included for index in range(3)])
    rows = torch.tensor([[6, 0], [2, 2], [4, 1]])
    wanted = reference.relevance(layers, included)[np.arange(BATCH)[:, None], rows.numpy()]
    close(explanations.relevance(tensors(*layers), chosen, rows), wanted)


def test_relevance_without_evidence_is_the_identity():
    layers = [np.zeros((BATCH, TOKENS, TOKENS))] * 3
    rows = torch.arange(TOKENS).expand(BATCH, -1)
    close(explanations.relevance(tensors(*layers), every(layers), rows), np.stack([np.eye(TOKENS)] * BATCH), 0)


def test_relevance_of_one_layer_is_homogeneous_in_the_gradient():
    """A = (I + Ā) for one layer, and Ā is linear in what the logit is multiplied with."""
    weights, gradient = reference.draw(BATCH, HEADS, TOKENS, TOKENS), RNG.normal(size=(BATCH, HEADS, TOKENS, TOKENS))
    once, scaled = (explanations.relevance_of(*tensors(weights, gradient * scale)).numpy() for scale in (1, 1024))
    close(scaled, 1024 * once, 0)
    rows = torch.arange(TOKENS).expand(BATCH, -1)
    eye = np.eye(TOKENS)
    one, other = (
        explanations.relevance(tensors(layer), every([layer]), rows).numpy() - eye for layer in (once, scaled / 1024)
    )
    close(one, other, 0)


def test_relevance_of_renamed_tokens_is_the_renamed_relevance():
    layers, order = evidence(), np.random.default_rng(1).permutation(TOKENS)
    rows = torch.arange(TOKENS).expand(BATCH, -1)
    before = explanations.relevance(tensors(*layers), every(layers), rows).numpy()
    renamed = [layer[:, order][:, :, order] for layer in layers]
    close(explanations.relevance(tensors(*renamed), every(layers), rows), before[:, order][:, :, order])


def test_bimodal_relevance_is_that_of_the_equations():
    source = 5
    encoder = evidence(2, source, source, seed=1)
    decoder, cross = evidence(3, seed=2), evidence(3, TOKENS, source, seed=3)
    own, across = explanations.bimodal_relevance(tensors(*encoder), tensors(*decoder), tensors(*cross))
    wanted_own, wanted_across = reference.bimodal(encoder, decoder, cross)
    close(own, wanted_own, 1e-10)
    close(across, wanted_across, 1e-10)
    assert np.abs(wanted_across).max() > 1


def test_a_row_without_evidence_is_the_identity_s_and_is_no_nan():
    given = np.zeros((BATCH, TOKENS, TOKENS))
    given[:, 0, 3], given[:, 0, 0] = 2.0, 0.5
    found = explanations.self_normalized(torch.from_numpy(given)).numpy()
    close(found, reference.shares(given))
    close(found[:, 1:], np.stack([np.eye(TOKENS)[1:]] * BATCH), 0)
    close(found[:, 0, [0, 3]], np.full((BATCH, 2), (1.2, 0.8)))
    nothing = [np.zeros((BATCH, TOKENS, TOKENS))] * 2
    own, across = explanations.bimodal_relevance(tensors(*nothing), tensors(*nothing), tensors(*nothing))
    close(own, np.stack([np.eye(TOKENS)] * BATCH), 0)
    close(across, nothing[0], 0)


@pytest.mark.parametrize(
    ("total", "share"), [(1e-20, 1.0), (1e-29, 1.0), (1e-30, 1.0), (5e-31, 0.5), (1e-33, 1e-3), (1e-97, 0.0)]
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_sum_that_single_floats_cannot_carry_fades_to_the_identity_without_a_jump(total, share, dtype):
    row = torch.tensor([0.25, 0.0, 0.75], dtype=torch.float64) * total
    given = torch.stack((row, torch.zeros(3), torch.ones(3)))[None].to(dtype)
    found = explanations.self_normalized(given)[0, 0]
    close(found.double(), np.array([1 + 0.25 * share, 0, 0.75 * share]), 1e-6)


def test_relevance_that_is_small_next_to_the_identity_keeps_its_shares_in_single_floats():
    """R - I of R = I + X loses X below 6e-8 x 1: sums of 1e-4, which trained models have, were off by 1e-4."""
    encoder, decoder, cross = ([layer * 1e-6 for layer in evidence(2, seed=seed)] for seed in (1, 2, 3))
    wanted = reference.bimodal(encoder, decoder, cross)
    single = [[torch.from_numpy(layer).float() for layer in kind] for kind in (encoder, decoder, cross)]
    found = explanations.bimodal_relevance(*single)
    np.testing.assert_allclose(found[1].numpy(), wanted[1], rtol=2e-6)


def test_bimodal_relevance_takes_the_type_of_what_it_is_given():
    layers = [torch.rand(1, 2, 2, dtype=torch.float32)] * 2
    for found in explanations.bimodal_relevance(layers, layers, layers):
        assert found.dtype == torch.float32


# Diagnostics


def test_entropy_is_that_of_the_definition_and_zeros_have_no_part():
    weights = reference.draw(BATCH, HEADS, TOKENS, TOKENS)
    weights[:, :, :, 3:5] = 0
    close(explanations.entropy(torch.from_numpy(weights)), reference.entropy(weights))
    assert np.isfinite(reference.entropy(weights)).all()


@pytest.mark.parametrize("keys", [1, 2, 50])
def test_entropy_of_uniform_attention_is_ln_n_and_of_a_single_key_zero(keys):
    close(
        explanations.entropy(torch.full((1, 2, 3, keys), 1 / keys, dtype=torch.float64)),
        np.full((1, 2, 3), np.log(keys)),
    )
    one = torch.nn.functional.one_hot(torch.tensor([[[0, keys - 1]]]), keys).double()
    close(explanations.entropy(one), np.zeros((1, 1, 2)), 0)


def places(grid, patch):
    return torch.tensor([[y * patch[0], x * patch[1]] for y in range(grid[0]) for x in range(grid[1])]).double()


@pytest.mark.parametrize(
    ("grid", "patch", "prefix"), [((2, 3), (4, 4), 1), ((3, 2), (4.0, 2.5), 2), ((1, 4), (7, 7), 0)]
)
def test_distance_is_the_mean_of_those_to_the_patches_looked_at(grid, patch, prefix):
    tokens = prefix + grid[0] * grid[1]
    weights = reference.draw(BATCH, HEADS, tokens, tokens)
    found = explanations.distance(torch.from_numpy(weights), places(grid, patch), prefix)
    close(found, reference.distance(weights, grid, patch, prefix))
    assert (found[:, :, :prefix] == 0).all()


def test_distance_of_the_identity_is_zero():
    weights = torch.eye(7, dtype=torch.float64).expand(1, 2, 7, 7)
    close(explanations.distance(weights, places((2, 3), (4, 4)), 1), np.zeros((1, 2, 7)), 0)


def test_distance_of_uniform_attention_is_the_mean_distance_of_pairs():
    at = places((3, 4), (5, 5)).numpy()
    pairs = [math.dist(one, other) for one in at for other in at]
    weights = torch.full((1, 1, 13, 13), 1 / 13, dtype=torch.float64)
    found = explanations.distance(weights, torch.from_numpy(at), 1)[:, :, 1:]
    close(found.mean(-1), np.full((1, 1), np.mean(pairs)))


def test_a_patch_that_looks_only_at_the_prefix_is_no_nan():
    weights = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
    weights[..., 0] = 1
    close(explanations.distance(weights, places((2, 2), (4, 4)), 1), np.zeros((1, 1, 5)), 0)


@pytest.mark.parametrize(
    "included", [(True, True, True, True), (True, False, False, False), (False, False, True, True)]
)
def test_parallel_attentions_are_one_layer_of_their_sum(included):
    """x + A₁x + A₂x in every layer, less what is not included; a layer of nothing included is none."""
    maps = [torch.from_numpy(reference.draw(2, 5, 5, seed=seed)) for seed in range(4)]
    layers, counted = explanations.add_parallel(maps, torch.tensor(included), 2)
    assert counted.tolist() == [any(included[:2]), any(included[2:])]
    for first, layer in zip((0, 2), layers, strict=True):
        expected = sum(maps[first + side].numpy() * included[first + side] for side in range(2))
        assert_same(layer, expected)
    assert explanations.add_parallel(maps, torch.tensor(included), 1)[0] == maps


def test_shares_are_distributions_of_how_large_weights_are():
    weights = torch.tensor([[0.2, -0.6, 0.2], [0.0, 0.0, 0.0], [0.1, 0.3, 0.6]], dtype=torch.float64)
    assert_same(explanations.shares(weights), np.array([[0.2, 0.6, 0.2], [0, 0, 0], [0.1, 0.3, 0.6]]))
