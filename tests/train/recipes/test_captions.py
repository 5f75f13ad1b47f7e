"""What a captioner is trained on, and how hard attention learns from it."""

import torch

from model.architectures.captioner import CAPTIONS_MEAN, CAPTIONS_STD
from model.vocabularies import PAD, encode_words
from tests.train.conftest import squares
from train.data.scenes import SIDE, on_box, scene
from train.recipes.captions import Drawn, tensors


def test_words_are_those_of_the_digits():
    generator = torch.Generator().manual_seed(2)
    some = [scene(*squares(), generator) for _ in range(5)]
    pixels, target = tensors(some)
    assert pixels.shape == (5, 1, SIDE, SIDE)
    assert abs((pixels[0] * CAPTIONS_STD + CAPTIONS_MEAN - some[0].picture).max().item()) < 1e-6
    for row, one in zip(target, some, strict=True):
        assert row[row != PAD].tolist() == encode_words(one.digits)


def test_a_cell_is_on_a_digit_if_it_touches_its_box():
    box = torch.tensor([9, 20, 22, 33])  # columns 1 and 2, rows 2 to 4
    assert [place for place in range(64) if on_box(place, box)] == [17, 18, 25, 26, 33, 34]


def test_places_are_drawn_by_their_shares_and_noted_where_they_are_used():
    torch.manual_seed(0)
    shares = torch.tensor([0.1, 0.2, 0.7]).expand(4000, 1, 1, 3)
    drawn = Drawn()
    drawn.chance = 1.0
    chosen = drawn(shares)
    assert set(chosen.unique().tolist()) == {0.0, 1.0}
    assert (chosen.mean(0)[0, 0] - shares[0, 0, 0]).abs().max() < 0.03
    assert torch.allclose(drawn.logs[0], (chosen * shares).sum(-1)[:, 0, 0].log())
    entropy = -(shares[0] * shares[0].log()).sum()
    assert torch.allclose(drawn.entropies[0], entropy.expand(4000))
    drawn.chance = 0.0
    assert torch.equal(drawn(shares), shares)
    assert not drawn.logs[1].any()


def test_the_reward_moves_shares_towards_the_place_that_pays():
    """REINFORCE with a baseline on one cell that pays: its share grows, by the logarithms that `Drawn` notes alone."""
    torch.manual_seed(0)
    scores = torch.zeros(1, 1, 1, 4, requires_grad=True)
    drawn, baseline = Drawn(), 0.0
    drawn.chance = 1.0
    optimizer = torch.optim.SGD([scores], lr=1.0)
    for _ in range(60):
        chosen = drawn(scores.softmax(-1).expand(64, 1, 1, 4))
        reward = chosen[:, 0, 0, 2]
        loss = -((reward - baseline) * drawn.logs[-1]).mean()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert scores.softmax(-1)[0, 0, 0, 2] > 0.9
