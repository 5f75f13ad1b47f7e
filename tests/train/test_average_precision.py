"""Average precision as COCO measures it, on cases that are worked out by hand."""

import numpy as np
import pytest

from train.average_precision import Found, average_precision, overlap

HERE, THERE, FAR = (0.0, 0.0, 10.0, 10.0), (20.0, 0.0, 30.0, 10.0), (80.0, 80.0, 90.0, 90.0)


@pytest.mark.parametrize(
    ("other", "share"),
    [
        (HERE, 1.0),
        (THERE, 0.0),
        ((5.0, 0.0, 15.0, 10.0), 50 / 150),
        ((2.0, 2.0, 8.0, 8.0), 0.36),
        ((10.0, 0.0, 20.0, 10.0), 0.0),
        ((3.0, 3.0, 3.0, 3.0), 0.0),
    ],
)
def test_the_overlap_of_two_boxes_is_a_share_of_what_they_cover(other, share):
    assert overlap(HERE, other) == overlap(other, HERE) == pytest.approx(share)


def test_nothing_has_no_overlap_with_nothing():
    assert overlap((1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0)) == 0


def test_all_found_is_1_and_nothing_found_is_0():
    truth = [[(7, HERE), (1, THERE)], [(7, FAR)]]
    found = [[Found(7, 0.9, HERE), Found(1, 0.8, THERE)], [Found(7, 0.7, FAR)]]
    assert average_precision(found, truth, 0.5) == 1
    assert average_precision([[], []], truth, 0.5) == 0


def test_precision_falls_with_what_is_wrong_before_what_is_right():
    # ranked: right, wrong, right, of two true boxes: precision 1 up to recall 1/2, then 2/3
    found = [[Found(7, 0.9, HERE), Found(7, 0.8, FAR), Found(7, 0.7, THERE)]]
    truth = [[(7, HERE), (7, THERE)]]
    recalls = np.linspace(0, 1, 101)
    assert average_precision(found, truth, 0.5) == pytest.approx(np.where(recalls <= 0.5, 1, 2 / 3).mean())


def test_precision_at_a_recall_is_the_best_at_that_recall_or_beyond():
    found = [[Found(7, 0.9, FAR), Found(7, 0.8, HERE), Found(7, 0.7, THERE)]]
    assert average_precision(found, [[(7, HERE), (7, THERE)]], 0.5) == pytest.approx(2 / 3)


def test_a_box_is_found_once():
    found = [[Found(7, 0.9, HERE), Found(7, 0.8, HERE)]]
    assert average_precision(found, [[(7, HERE), (7, THERE)]], 0.5) == pytest.approx(51 / 101)


def test_a_detection_of_another_image_or_class_finds_nothing():
    truth = [[(7, HERE)], []]
    assert average_precision([[], [Found(7, 0.9, HERE)]], truth, 0.5) == 0
    assert average_precision([[Found(1, 0.9, HERE)], []], truth, 0.5) == 0


def test_classes_count_alike_whatever_their_number():
    truth = [[(7, HERE), (7, THERE), (1, FAR)]]
    assert average_precision([[Found(1, 0.9, FAR)]], truth, 0.5) == 0.5


def test_a_detection_must_overlap_by_as_much_as_is_asked():
    found, truth = [[Found(7, 0.9, (5.0, 0.0, 15.0, 10.0))]], [[(7, HERE)]]
    assert average_precision(found, truth, 1 / 3) == 1
    assert average_precision(found, truth, 0.34) == 0
