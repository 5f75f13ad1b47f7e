import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from model.architectures.vit import DIGITS_BOX, DIGITS_MEAN, DIGITS_STD
from model.catalogue import bundled
from train.data.handwritten_digits import FIELD, INK_SHARE, SIDE, augment, fields, pixels, scans, strokes

RECTANGLES = {  # top, bottom, left, right in a field: ink of one brightness
    "high, in a corner": (2, 30, 3, 15),
    "wide, at the other": (40, 54, 10, 50),
    "in the middle": (18, 38, 18, 38),
}


@pytest.fixture(scope="module")
def split():
    return scans()


def rectangle(top, bottom, left, right):
    image = np.zeros((FIELD, FIELD))
    image[top:bottom, left:right] = 1.0
    return image


def bounds(field):
    """Top, bottom, left and right of what is brighter than half."""
    rows, columns = (field[0] > 0.5).any(1).nonzero()[:, 0], (field[0] > 0.5).any(0).nonzero()[:, 0]
    return rows[0].item(), rows[-1].item() + 1, columns[0].item(), columns[-1].item() + 1


@pytest.mark.parametrize("edges", RECTANGLES.values(), ids=RECTANGLES)
def test_a_field_centres_the_ink_with_its_longer_side_filling_the_box(edges):
    field = fields(rectangle(*edges)[None])[0]
    assert field.shape == (1, FIELD, FIELD)
    top, bottom, left, right = bounds(field)
    height, width = edges[1] - edges[0], edges[3] - edges[2]
    scale = FIELD * DIGITS_BOX / SIDE / max(height, width)
    assert abs(top + bottom - FIELD) <= 1
    assert abs(left + right - FIELD) <= 1
    assert abs((bottom - top) - height * scale) <= 2
    assert abs((right - left) - width * scale) <= 2


def test_a_field_does_not_depend_on_where_the_ink_was():
    mark = np.random.default_rng(0).uniform(0.5, 1.0, (20, 12))
    images = np.zeros((3, FIELD, FIELD))
    for image, (top, left) in zip(images, [(4, 4), (30, 40), (18, 22)], strict=True):
        image[top : top + 20, left : left + 12] = mark
    one, *others = fields(images)
    for other in others:
        torch.testing.assert_close(other, one, rtol=0, atol=1e-4)


def test_fields_stay_upright_and_unmirrored():
    image = rectangle(10, 40, 10, 16)
    image[34:40, 10:30] = 1.0  # an L
    field = fields(image[None])[0, 0]
    middle = FIELD // 2
    ink = [field[rows, columns].mean() for rows in (slice(middle), slice(middle, None))
           for columns in (slice(middle), slice(middle, None))]  # fmt: skip
    assert min(ink[0], ink[2], ink[3]) > 2 * ink[1]


def test_faint_ink_does_not_move_the_box():
    image = rectangle(10, 40, 10, 22)
    image[50:54, 50:54] = INK_SHARE - 0.1
    assert bounds(fields(image[None])[0]) == bounds(fields(rectangle(10, 40, 10, 22)[None])[0])


def test_the_network_takes_means_of_two_by_two_normalised():
    field = torch.rand(3, 1, FIELD, FIELD, generator=torch.Generator().manual_seed(0))
    means = field.numpy().reshape(3, 1, SIDE, 2, SIDE, 2).mean((3, 5))
    torch.testing.assert_close(pixels(field), torch.tensor((means - DIGITS_MEAN) / DIGITS_STD), rtol=0, atol=1e-5)


def test_mean_and_deviation_are_about_those_of_the_training_scans(split):
    shown = pixels(split[0])
    assert abs(shown.mean()) < 0.3
    assert abs(shown.std() - 1) < 0.3


def test_every_scan_is_either_for_training_or_held_out(split):
    train, train_labels, held, held_labels = split
    assert (train.shape, held.shape) == ((1437, 1, FIELD, FIELD), (360, 1, FIELD, FIELD))
    everything = load_digits()
    counts = torch.tensor(np.bincount(everything.target))
    assert torch.equal(train_labels.bincount() + held_labels.bincount(), counts)
    assert ((held_labels.bincount() - counts / 5).abs() <= 1).all()
    apart = torch.cdist(held.flatten(1), train.flatten(1)).min(1).values
    assert apart.min() > 0.5


def test_every_field_keeps_its_label(split):
    everything = load_digits()
    label_of = {
        field.numpy().tobytes(): label
        for field, label in zip(fields(everything.images / 16), everything.target.tolist(), strict=True)
    }
    for some, labels in (split[:2], split[2:]):
        assert [label_of[field.numpy().tobytes()] for field in some] == labels.tolist()


def test_the_split_never_changes(split):
    for tensor, again in zip(split, scans(), strict=True):
        assert torch.equal(tensor, again)


def test_drawn_digits_are_fields_with_labels_in_turn():
    drawn, labels = strokes(25, seed=5)
    assert drawn.shape == (25, 1, FIELD, FIELD)
    assert ((drawn >= 0) & (drawn <= 1)).all()
    assert labels.tolist() == [index % 10 for index in range(25)]
    for field in drawn:
        top, bottom, left, right = bounds(field)
        assert max(bottom - top, right - left) == pytest.approx(FIELD * DIGITS_BOX / SIDE, abs=2)


def test_drawn_digits_depend_on_the_seed_alone():
    one, same, other = strokes(3, seed=5)[0], strokes(3, seed=5)[0], strokes(3, seed=6)[0]
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_augmenting_varies_every_field_and_keeps_its_place_in_the_batch():
    torch.manual_seed(0)
    blank, block = torch.zeros(1, FIELD, FIELD), torch.tensor(rectangle(16, 40, 20, 36), dtype=torch.float32)[None]
    given = torch.stack((blank, block, blank, block, block))
    before = given.clone()
    varied = augment(given)
    assert torch.equal(given, before)
    assert varied.shape == given.shape
    assert ((varied >= 0) & (varied <= 1)).all()
    assert not torch.equal(varied[1], varied[3])
    assert not torch.equal(varied[3], varied[4])
    corner, centre = varied[:, 0, :8, :8].mean((1, 2)), varied[:, 0, 24:32, 24:32].mean((1, 2))
    assert (centre - corner > 0.4).tolist() == [False, True, False, True, True]


def test_augmenting_leaves_digits_that_the_bundled_model_can_read(split):
    torch.manual_seed(0)
    model = bundled("digits")
    with torch.no_grad():
        right = (model(pixels(augment(split[2])))[0].argmax(1) == split[3]).double().mean()
    assert right > 0.9
