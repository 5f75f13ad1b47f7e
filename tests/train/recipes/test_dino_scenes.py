import numpy as np
import pytest
import torch

from model.catalogue import build, bundled
from tests.train.conftest import same
from train.data.grounds import SIDE
from train.data.handwritten_digits import scans, strokes
from train.fit import Run
from train.recipes import dino_scenes
from train.recipes.dino import baselines, maps_of, nearest, on_ink
from train.recipes.dino_scenes import (
    begun,
    contrasts,
    inputs_of,
    maps_of_pictures,
    measured,
    plain,
    scenes,
    student_view,
)


@pytest.fixture
def few(monkeypatch, split):
    """The recipe on few images, so that it takes seconds."""
    drawn, (known, labels, held, held_labels) = strokes(20, seed=0), split
    split = known[:24], labels[:24], held[:8], held_labels[:8]
    monkeypatch.setattr(dino_scenes, "strokes", lambda count, seed: drawn)
    monkeypatch.setattr(dino_scenes, "scans", lambda: split)
    monkeypatch.setattr(dino_scenes, "SCANS_PER_BATCH", 3)
    monkeypatch.setattr(dino_scenes, "STROKES_PER_BATCH", 1)


def test_training_begins_with_the_smaller_network_s_weights_and_its_places_in_the_middle():
    network, small = begun("scenes-dino"), bundled("digits-dino")
    for name, tensor in small.state_dict().items():
        if name != "positions.weight":
            assert torch.equal(network.state_dict()[name], tensor), name
    places, theirs = network.positions.weight.detach(), small.positions.weight.detach()
    assert torch.equal(places[0], theirs[0])
    grid, middle = places[1:].reshape(12, 12, -1), theirs[1:].reshape(7, 7, -1)
    assert torch.equal(grid[3:10, 3:10], middle)
    assert torch.equal(grid[0, 0], middle[0, 0])
    assert torch.equal(grid[11, 5], middle[6, 2])
    assert torch.equal(grid[5, 11], middle[2, 6])


@pytest.mark.slow
def test_the_network_it_begins_with_knows_digits_alone_in_the_middle():
    known, labels, held, held_labels = (some[:300] for some in scans())
    with torch.no_grad():
        references, given = (begun("scenes-dino")(inputs_of(plain(some)))[0] for some in (known, held))
    assert (nearest(references, labels, given) == held_labels).double().mean() > 0.7


def test_a_plain_digit_is_bright_on_black_and_in_the_middle(split):
    torch.manual_seed(0)
    pictures = plain(split[2])
    assert pictures.shape == (40, 1, SIDE, SIDE)
    assert pictures[:, :, :8].max() == pictures[..., -8:].max() == 0
    assert pictures.amax((1, 2, 3)).min() > 0.7
    assert torch.equal(pictures, plain(split[2]))
    nudged = plain(split[2], 0.1)
    assert not torch.equal(pictures, nudged)


def test_the_student_sees_plain_digits_at_first_and_scenes_at_last(split):
    torch.manual_seed(0)
    easy = student_view(split[0], 0.0)
    assert easy[:, :, :4].max() < 0.2  # the noise of an augmented field ends at its edge
    hard = student_view(split[0], 1.0)
    assert hard[:, 0, :2].std((1, 2)).min() > 0.005  # every one has a ground
    assert hard.min() >= 0
    assert hard.max() <= 1
    some = student_view(split[0], 0.5)
    grounded = some[:, 0, 0].std(1) > 0.005
    assert 0.25 < grounded.double().mean() < 0.75


def test_scenes_are_the_same_for_a_seed_and_say_where_the_ink_is(split):
    torch.manual_seed(3)
    state = torch.get_rng_state()
    pictures, inked = scenes(split[2], 7)
    assert torch.equal(state, torch.get_rng_state())
    again, other = scenes(split[2], 7), scenes(split[2], 8)
    assert torch.equal(pictures, again[0])
    assert torch.equal(inked, again[1])
    assert not torch.equal(pictures, other[0])
    assert inked.shape == (40, 144)
    assert inked.double().mean(1).min() > 0.03
    assert inked.double().mean(1).max() < 0.5
    apart = contrasts(pictures)["contrast with the picture"]
    assert apart[inked].mean() > 1.5 * apart[~inked].mean()


def test_contrasts_are_a_patch_s_distance_from_the_median_and_its_deviation():
    pictures = torch.rand(3, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    found = contrasts(pictures)
    patches = pictures.numpy().reshape(3, 12, 4, 12, 4).transpose(0, 1, 3, 2, 4).reshape(3, 144, 16)
    medians = np.sort(pictures.numpy().reshape(3, -1))[:, (SIDE * SIDE - 1) // 2]  # torch's: the lower of two
    np.testing.assert_allclose(found["contrast with the picture"], abs(patches.mean(-1) - medians[:, None]), atol=1e-6)
    np.testing.assert_allclose(found["contrast within a patch"], patches.std(-1), atol=1e-5)


def test_many_pictures_are_measured_as_few_are(monkeypatch, split):
    network, (pictures, _) = begun("scenes-dino"), scenes(split[2][:7], 0)
    monkeypatch.setattr(dino_scenes, "AT_ONCE", 3)
    with torch.no_grad():
        found, expected = maps_of_pictures(network, pictures), maps_of(network, inputs_of(pictures))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_training_returns_the_teacher_and_what_it_is_worth(few):
    model, figure = dino_scenes.train("scenes-dino", Run(3))
    assert model.state_dict().keys() == build("scenes-dino").state_dict().keys()
    assert figure == f"{measured(model)}; as it began, {measured(begun('scenes-dino'))}"
    assert not model.training
    moved = (model.positions.weight - begun("scenes-dino").positions.weight).abs().max()
    assert 0 < moved < 2e-4  # as the teacher does, while the student takes steps of a thousandth
    assert same(model, dino_scenes.train("scenes-dino", Run(3))[0])


def test_the_teacher_sees_plain_digits_and_the_student_what_is_harder_and_harder(few, monkeypatch):
    shares, nudges = [], []
    view, alone = dino_scenes.student_view, dino_scenes.plain

    def watched(field, share):
        shares.append(share)
        return view(field, share)

    def seen(field, nudge=0.0):
        nudges.append(nudge)
        return alone(field, nudge)

    monkeypatch.setattr(dino_scenes, "student_view", watched)
    monkeypatch.setattr(dino_scenes, "plain", seen)
    monkeypatch.setattr(dino_scenes, "measured", lambda network: "")
    dino_scenes.train("scenes-dino", Run(5))
    assert shares == pytest.approx([0, 0, 0.45, 0.45, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9])
    assert nudges == [dino_scenes.NUDGE] * 5


def test_a_run_that_was_interrupted_goes_on_as_it_was(few, monkeypatch, resumed):
    monkeypatch.setattr(dino_scenes, "measured", lambda network: "")
    whole, _ = dino_scenes.train("scenes-dino", Run(4))
    assert same(whole, resumed(dino_scenes, "scenes-dino"))


def test_what_the_bundled_network_looks_at_is_the_digit():
    """By rollout, better than by brightness or by the middle."""
    pictures, inked = scenes(scans()[2][:120], 5)
    with torch.no_grad():
        found = maps_of_pictures(bundled("scenes-dino"), pictures)["rollout"]
    others = baselines(pictures)
    _, area, hit, _ = on_ink(found, inked)
    assert area > 0.9
    assert hit > 0.95
    for other in ("brightness", "centred Gaussian"):
        _, its_area, its_hit, _ = on_ink(others[other], inked)
        assert area > its_area + 0.05
        assert hit > its_hit + 0.2
