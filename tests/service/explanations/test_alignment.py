import numpy as np
import pytest

from service.explanations.alignment import first_frames, path, smoothed


def looks(starts, frames, heads=3, seed=0):
    """Weights of heads that look at each token's frames, with noise."""
    draw = np.random.default_rng(seed)
    ends = [*starts[1:], frames]
    weights = draw.random((heads, len(starts), frames)) * 0.3
    for token, (start, end) in enumerate(zip(starts, ends, strict=True)):
        weights[:, token, start:end] += 1
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def test_tokens_begin_where_their_frames_do():
    starts = [0, 12, 30, 31 + 9, 75]
    found = first_frames(looks(starts, 100))
    assert np.abs(np.subtract(found, starts)).max() <= 2


def test_a_path_is_the_cheapest_of_all():
    costs = np.random.default_rng(1).normal(size=(3, 4))

    def best(row, column):
        if (row, column) == (0, 0):
            return costs[0, 0]
        before = [best(*one) for one in ((row - 1, column - 1), (row - 1, column), (row, column - 1)) if min(one) >= 0]
        return costs[row, column] + min(before)

    tokens, frames = path(costs)
    assert (tokens[0], frames[0], tokens[-1], frames[-1]) == (0, 0, 2, 3)
    assert costs[tokens, frames].sum() == pytest.approx(best(2, 3))
    steps = np.diff(tokens) + np.diff(frames)
    assert set(steps.tolist()) <= {1, 2}


def test_medians_are_of_seven_frames_mirrored_at_the_ends():
    values = np.random.default_rng(2).normal(size=(2, 11))
    padded = np.concatenate([values[:, 3:0:-1], values, values[:, -2:-5:-1]], axis=1)
    wanted = np.stack([np.median(padded[:, place : place + 7], axis=1) for place in range(11)], axis=1)
    np.testing.assert_allclose(smoothed(values), wanted)
    assert smoothed(values[:, :3]) is not None


def test_one_frame_or_no_token_is_enough():
    assert first_frames(np.ones((2, 1, 1), np.float32)) == [0]
    assert first_frames(np.zeros((2, 0, 9), np.float32)) == []
    assert first_frames(np.zeros((2, 2, 0), np.float32)) == [0, 0]
    assert len(first_frames(np.ones((2, 5, 3), np.float32))) == 5


@pytest.mark.families
@pytest.mark.parametrize("seed", range(8))
def test_frames_are_those_of_the_reference_library(seed):
    import torch
    from transformers.models.whisper import generation_whisper as reference

    draw = np.random.default_rng(seed)
    starts = np.sort(draw.choice(150, 14, replace=False)).tolist()
    weights = looks(starts, 160, heads=6, seed=seed)
    standard = torch.tensor(weights)
    standard = (standard - standard.mean(-2, keepdim=True)) / standard.std(-2, keepdim=True, unbiased=False)
    matrix = reference._median_filter(standard[None], 7).mean(1)[0]
    tokens, frames = reference._dynamic_time_warping(-matrix.double().numpy())
    jumps = np.pad(np.diff(tokens), (1, 0), constant_values=1).astype(bool)
    wanted = frames[jumps]
    assert np.abs(np.subtract(first_frames(weights), wanted)).max() <= 1
