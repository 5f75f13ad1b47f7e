import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import jaccard_score, roc_auc_score
from torch.nn import functional as F

from model.architectures.vit import DIGITS_MEAN, DIGITS_STD, vit
from model.catalogue import build, bundled
from model.parts.heads import FirstState
from tests.samples.attention_reference import gelu, linear, softmax, weights_of
from tests.train.conftest import same
from train.data.handwritten_digits import FIELD, SIDE, pixels, scans, strokes
from train.fit import Run
from train.recipes import dino
from train.recipes.dino import (
    CENTRE_MOMENTUM,
    CONFIG,
    FOREGROUND_MASS,
    LOCAL_SIDE,
    STUDENT_TEMPERATURE,
    TEACHER_MOMENTUM,
    TEACHER_TEMPERATURE,
    Dino,
    Head,
    baselines,
    distillation,
    embed,
    foreground,
    ink,
    inked_patches,
    maps_of,
    momentum,
    nearest,
    on_ink,
    say,
    sharpened,
    view,
)

TINY = replace(CONFIG, width=8, layers=1, heads=2, hidden=8)


@pytest.fixture
def small():
    """A student and a teacher of a few numbers in float64, no longer alike."""
    torch.manual_seed(0)
    module = Dino(vit(TINY, FirstState()), Head(8, 12, 6, 10)).double()
    for parameter in module.student.parameters():
        parameter.data += torch.randn_like(parameter) / 4
    module.centre += torch.randn_like(module.centre)
    return module


def numbers(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def views():
    torch.manual_seed(1)
    return [
        torch.randn(3, 1, side, side, dtype=torch.float64) for side in (SIDE, SIDE, LOCAL_SIDE, LOCAL_SIDE, LOCAL_SIDE)
    ]


def test_the_teacher_is_centred_and_sharpened():
    said, centre = numbers(4, 9), numbers(9)
    ours = sharpened(torch.tensor(said), torch.tensor(centre), 0.05)
    np.testing.assert_allclose(ours.numpy(), softmax((said - centre) / 0.05), atol=1e-12)


def test_the_loss_is_the_cross_entropy_of_every_pair_of_different_views():
    targets, answers = softmax(numbers(2, 4, 9)), numbers(5, 4, 9)
    pairs = [
        -(target[row] * np.log(softmax(answers[other][row] / STUDENT_TEMPERATURE))).sum()
        for one, target in enumerate(targets)
        for other in range(5)
        if one != other
        for row in range(4)
    ]
    ours = distillation(tuple(map(torch.tensor, targets)), list(map(torch.tensor, answers)))
    assert len(pairs) == 2 * 4 * 4
    assert ours.item() == pytest.approx(np.mean(pairs), rel=1e-12)


def test_the_teachers_momentum_rises_to_one_along_a_cosine():
    steps = np.linspace(0, 1, 11)
    expected = 1 - (1 - TEACHER_MOMENTUM) * (np.cos(np.pi * steps) + 1) / 2
    assert [momentum(step) for step in steps] == pytest.approx(expected, rel=1e-12)
    assert (momentum(0), momentum(1)) == (TEACHER_MOMENTUM, 1)


def test_the_teacher_follows_the_student_and_nothing_else_moves(small):
    before = [parameter.clone().numpy() for parameter in small.teacher.parameters()]
    students = [parameter.detach().clone().numpy() for parameter in small.student.parameters()]
    small.taken += 2
    small.follow(10)
    rate = 1 - (1 - TEACHER_MOMENTUM) * (math.cos(math.pi * 0.2) + 1) / 2
    for now, was, student in zip(small.teacher.parameters(), before, students, strict=True):
        np.testing.assert_allclose(now.numpy(), rate * was + (1 - rate) * student, atol=1e-14)
    for now, was in zip(small.student.parameters(), students, strict=True):
        np.testing.assert_array_equal(now.detach().numpy(), was)
    assert small.taken == 3


def test_a_step_compares_the_global_views_of_the_teacher_with_all_of_the_student(small):
    given, centre = views(), small.centre.numpy().copy()
    with torch.no_grad():
        teacher = say(small.teacher, torch.cat(given[:2])).numpy().reshape(2, 3, 10)
        student = [say(small.student, torch.cat(some)).numpy().reshape(-1, 3, 10) for some in (given[:2], given[2:])]
    small.taken += 1
    loss = small.loss(given, 10)
    targets = [softmax((said - centre) / TEACHER_TEMPERATURE) for said in teacher]
    logs = [np.log(softmax(said / STUDENT_TEMPERATURE)) for said in np.concatenate(student)]
    pairs = [-(targets[one] * logs[other]).sum(-1).mean() for one in range(2) for other in range(5) if one != other]
    assert loss.item() == pytest.approx(np.mean(pairs), rel=1e-10)
    mean = teacher.mean((0, 1))
    np.testing.assert_allclose(small.centre, CENTRE_MOMENTUM * centre + (1 - CENTRE_MOMENTUM) * mean, atol=1e-12)
    loss.backward()
    assert all(parameter.grad is not None for parameter in small.student.parameters())
    assert all(parameter.grad is None for parameter in small.teacher.parameters())


def test_the_last_layer_stays_as_it_is_at_first(small):
    small.loss(views(), 1000).backward()
    assert small.student["head"].prototypes.grad is None
    assert small.student["head"].mlp[0].weight.grad is not None


def test_the_head_answers_cosines_between_the_bottleneck_and_the_prototypes():
    torch.manual_seed(0)
    head = Head(8, 12, 6, 10).double()
    x = numbers(5, 8)
    weights = weights_of(head)
    for layer in (0, 3, 6):
        x = linear(weights, f"module.mlp.{layer}", x)
        if layer < 6:
            x = gelu((x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5))
    prototypes = head.prototypes.detach().numpy()
    cosines = x @ prototypes.T / np.linalg.norm(x, axis=1)[:, None] / np.linalg.norm(prototypes, axis=1)
    ours = head(torch.tensor(numbers(5, 8)))
    np.testing.assert_allclose(ours.detach().numpy(), cosines, atol=1e-12)
    assert torch.equal(head(torch.tensor(numbers(5, 8)), frozen=True), ours)


def test_a_smaller_view_is_embedded_as_by_a_network_of_its_size_with_positions_in_between(small):
    network = small.student["backbone"]
    whole, *_, part = views()
    assert torch.equal(embed(network, whole), network(whole)[0])
    same = vit(replace(TINY, image=(LOCAL_SIDE, LOCAL_SIDE)), FirstState()).double()
    tensors = network.state_dict()
    first, grid = tensors["positions.weight"].split((1, 49))
    between = F.interpolate(grid.reshape(7, 7, 8).permute(2, 0, 1)[None], (4, 4), mode="bicubic")[0]
    tensors["positions.weight"] = torch.cat((first, between.permute(1, 2, 0).reshape(16, 8)))
    same.load_state_dict(tensors)
    torch.testing.assert_close(embed(network, part), same(part)[0], rtol=0, atol=1e-12)


def test_a_view_is_a_square_within_the_field_of_the_side_that_was_drawn(monkeypatch):
    monkeypatch.setattr(dino, "augment", lambda field: field)
    torch.manual_seed(0)
    ramp = ((torch.arange(FIELD) + 0.5) / FIELD).expand(FIELD, FIELD)
    fields = torch.stack((ramp, ramp.T)).repeat(200, 1, 1)[:, None]
    torch.testing.assert_close(view(fields, (1.0, 1.0), SIDE), pixels(fields), rtol=0, atol=1e-5)
    shown = view(fields, (0.35, 0.6), LOCAL_SIDE) * DIGITS_STD + DIGITS_MEAN
    assert shown.shape == (400, 1, LOCAL_SIDE, LOCAL_SIDE)
    across, down = shown[::2, 0, 0], shown[1::2, 0, :, 0]
    for edge in (across, down):
        sides = (edge[:, -1] - edge[:, 0]) * LOCAL_SIDE / (LOCAL_SIDE - 1)
        assert 0.345 < sides.min() < 0.38
        assert 0.57 < sides.max() < 0.605
        assert edge[:, 0].min() < 0.05
        assert edge[:, -1].max() > 0.95


def test_views_of_a_field_differ(split):
    torch.manual_seed(0)
    one, other = (view(split[0][:4], dino.GLOBAL_SHARES, SIDE) for _ in range(2))
    assert ((one - other).flatten(1).abs().mean(1) > 0.05).all()


def test_the_nearest_vote_by_their_cosines():
    known, labels, given = numbers(60, 5), np.arange(60) % 4, numbers(7, 5)
    expected = []
    for tensor in given:
        cosines = known @ tensor / np.linalg.norm(known, axis=1) / np.linalg.norm(tensor)
        votes = np.zeros(4)
        for index in np.argsort(-cosines)[:20]:
            votes[labels[index]] += np.exp(cosines[index] / 0.07)
        expected.append(votes.argmax())
    ours = nearest(torch.tensor(known), torch.tensor(labels), torch.tensor(given))
    assert ours.tolist() == expected
    assert len(set(expected)) > 1


def test_the_foreground_is_the_fewest_patches_that_hold_the_mass():
    weights = softmax(3 * numbers(3, 2, 49))
    ours = foreground(torch.tensor(weights) * 0.7).numpy()  # what the class token keeps to itself does not count
    for map_, kept in zip(weights.reshape(6, 49), ours.reshape(6, 49), strict=True):
        heaviest = np.sort(map_)[::-1]
        count = 1 + int((heaviest.cumsum() < FOREGROUND_MASS).sum())
        assert kept.sum() == count
        assert map_[kept].min() == heaviest[count - 1]


def test_maps_are_measured_by_where_the_ink_is():
    inked = torch.zeros(2, 49, dtype=torch.bool)
    inked[0, :10], inked[1, 20:24] = True, True
    measures = {
        "all of it": inked.double(),
        "none of it": (~inked).double(),
        "flat": torch.full((2, 49), 0.3, dtype=torch.float64),
        "drawn": torch.tensor(softmax(2 * numbers(2, 49))),
    }
    shares = np.array([10 / 49, 4 / 49])
    assert on_ink(measures["all of it"], inked)[:3] == pytest.approx((1, 1, 1))
    assert on_ink(measures["none of it"], inked)[:3] == pytest.approx((0, 0, 0))
    assert on_ink(measures["flat"], inked)[:3] == pytest.approx((shares.mean(), 0.5, shares.mean()))
    drawn, weights = on_ink(measures["drawn"], inked), measures["drawn"].numpy()
    mask = inked.numpy()
    expected = [
        (
            one[ink].sum() / one.sum(),
            roc_auc_score(ink, one),
            float(ink[one.argmax()]),
            jaccard_score(ink, foreground(torch.tensor(one)).numpy()),
        )
        for one, ink in zip(weights, mask, strict=True)
    ]
    assert drawn == pytest.approx(np.mean(expected, axis=0))
    assert 0.05 < drawn[3] < 0.6


def test_a_patch_with_a_pixel_of_ink_holds_ink():
    field = torch.zeros(1, 1, FIELD, FIELD)
    field[0, 0, 16:24, 24:26] = 1  # rows 8 to 12, column 12 of the picture: the third row of patches, the fourth column
    assert inked_patches(field).nonzero().tolist() == [[0, 2 * 7 + 3]]


def test_baselines_see_the_brightness_the_middle_or_nothing(split):
    found = baselines(F.interpolate(split[2], (SIDE, SIDE), mode="area"))
    assert found["flat map"].std() == 0
    assert (found["centred Gaussian"] == found["centred Gaussian"][:1]).all()
    grid = found["centred Gaussian"][0].reshape(7, 7)
    assert torch.equal(grid, grid.flip(0))
    assert torch.equal(grid, grid.T)
    assert grid[3, 3] == 1
    assert grid[3, 0] == pytest.approx(math.exp(-2))
    field = split[2][:1]
    bright = F.interpolate(field, (SIDE, SIDE), mode="area")[0, 0, 8:12, 12:16].mean()
    assert found["brightness"][0, 2 * 7 + 3] == pytest.approx(float(bright))


def test_maps_are_the_class_token_s(split):
    network = bundled("digits-dino")
    with torch.no_grad():
        found = maps_of(network, pixels(split[2][:3]))
        _, maps = network(pixels(split[2][:3]))
    last = maps["encoder.blocks.3.attention"].numpy()
    np.testing.assert_allclose(found["head 4"], last[:, 3, 0, 1:], atol=1e-7)
    np.testing.assert_allclose(found["mean of the heads"], last[:, :, 0, 1:].mean(1), atol=1e-7)
    joint = np.eye(50)
    for layer in range(4):
        mixed = maps[f"encoder.blocks.{layer}.attention"].numpy().mean(1) + np.eye(50)
        joint = mixed / mixed.sum(-1, keepdims=True) @ joint
    np.testing.assert_allclose(found["rollout"], joint[:, 0, 1:], atol=1e-6)


def test_ink_is_what_is_bright():
    field = torch.zeros(1, 1, FIELD, FIELD)
    field[0, 0, 10:30, 20:24] = 0.8
    field[0, 0, 40:50, 40:50] = 0.1
    expected = torch.zeros(1, SIDE, SIDE, dtype=torch.bool)
    expected[0, 5:15, 10:12] = True
    assert torch.equal(ink(field), expected)


@pytest.fixture
def few(monkeypatch, split):
    """The recipe on few images, so that it takes a second."""
    drawn = strokes(20, seed=0)
    monkeypatch.setattr(dino, "strokes", lambda count, seed: drawn)
    monkeypatch.setattr(dino, "scans", lambda: split)
    monkeypatch.setattr(dino, "SCANS_PER_BATCH", 3)
    monkeypatch.setattr(dino, "STROKES_PER_BATCH", 1)


def test_training_returns_the_teacher_and_what_it_is_worth(few, split):
    model, figure = dino.train("digits-dino", Run(3))
    assert model.state_dict().keys() == build("digits-dino").state_dict().keys()
    ours = dino.measured(model, *split)
    torch.manual_seed(0)
    begun = build("digits-dino")
    torch.nn.init.normal_(begun.positions.weight, std=dino.POSITIONS_DEVIATION)
    theirs = dino.measured(begun, *split)
    assert figure == f"{ours}; as it began, {theirs} (40 held-out scans)"
    assert not model.training
    moved = (model.positions.weight - begun.positions.weight).abs().max()
    assert 0 < moved < 2e-4  # as the teacher does, while the student takes steps of a thousandth
    assert same(model, dino.train("digits-dino", Run(3))[0])
    assert not same(model, dino.train("digits-dino", Run(3, seed=1))[0])


def test_a_run_that_was_interrupted_keeps_its_teacher_and_its_centre(few, resumed):
    whole, _ = dino.train("digits-dino", Run(4))
    assert same(whole, resumed(dino, "digits-dino"))


@pytest.mark.slow  # every scan is embedded, and its maps are measured
def test_the_bundled_weights_know_held_out_digits_by_their_neighbours():
    said = dino.measured(bundled("digits-dino"), *scans())
    accuracy, mass, area, hit, overlap = (float(number) for number in re.findall(r"\d+\.\d+", said))
    assert accuracy >= 95
    assert "head 4 of the last layer" in said
    assert (mass, area, hit, overlap) == pytest.approx((0.991, 0.943, 1.0, 0.387), abs=0.02)
