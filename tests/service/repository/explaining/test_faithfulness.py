"""Curves of deletion and insertion: what is taken away at each step, and how often a score is measured."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from contract.input_rules import ImageRule, TextRule
from contract.manifest import Kind
from service.errors import Unacceptable
from service.explanations.answer import AttentionMap
from service.explanations.evaluation import CURVE_NAMES, RANDOM, SEED, Score
from service.inputs.model_input import ModelInput, Picture, Token
from service.repository.explaining.faithfulness import Subject, count_scores, evaluate, kept, patches, tokens
from tests.samples.attention_queries import query_of

pytestmark = pytest.mark.anyio
WEIGHTS = np.array([5.0, -3.0, 0.5, 2.0, 0.0, 1.0, -1.0])


def image_kind(rows=2, columns=3, prefix=1):
    return Kind(
        name="encoder", kind="encoder", maps=("a.0",), heads=1, query="image", key="image", normalized=True,
        methods=("raw",), prefix=prefix, grid=(rows, columns),
    )  # fmt: skip


def image_rule(locate):
    return ImageRule(height=4, width=6, channels=1, locate=locate, mean=(0.5,), std=(0.5,))


def text_kind():
    return Kind(
        name="encoder", kind="encoder", maps=("a.0",), heads=1, query="source", key="source", normalized=True,
        methods=("raw",),
    )  # fmt: skip


class Counted:
    """Measures the sum of the weights of the parts that are there, and counts how often it is asked."""

    def __init__(self, weights):
        self.weights, self.asked = weights, Counter()

    async def __call__(self, item):
        there = item.arrays["source"].astype(bool)
        self.asked[there.tobytes()] += 1
        return float(self.weights[there].sum())


def subject_of(weights):
    """Return a subject whose parts are the columns of `source`: 1 where one is there, 0 where it was taken away."""

    def take_away(parts):
        return ModelInput({"source": parts.astype(np.int64)}, {}, {})

    measure = Counted(weights)
    return Subject(
        take_away(np.ones(len(weights), bool)), text_kind(), np.arange(len(weights)), take_away, measure,
        Score("probability", "", {"target": 0}),
    ), measure  # fmt: skip


async def curves_of(values, weights=WEIGHTS, names=CURVE_NAMES):
    subject, measure = subject_of(weights)
    found = await evaluate(subject, {"libra": np.asarray(values, float)}, names, 5, compared=False)
    return found.curves, measure


async def test_what_speaks_for_the_score_most_goes_first_and_what_speaks_against_it_last():
    curves, _ = await curves_of(WEIGHTS)
    order = [0, 3, 5, 2, 4, 6, 1]
    counts = [round(step / 10 * 7) for step in range(11)]
    for name, curve in curves["libra"].items():
        expected = [
            WEIGHTS[order[count:] if name == "deletion" else order[:count]].sum() for count in counts
        ]  # recomputed by hand: a signed order, not one by size
        assert curve == pytest.approx(expected)
    assert curves["libra"]["deletion"][2] == pytest.approx(WEIGHTS.sum() - WEIGHTS[0])


async def test_the_random_order_is_that_of_the_seed_and_the_same_for_both_curves():
    curves, _ = await curves_of(WEIGHTS)
    order = np.random.default_rng(SEED).permutation(7)
    for step, count in enumerate([round(step / 10 * 7) for step in range(11)]):
        assert curves[RANDOM]["deletion"][step] == pytest.approx(WEIGHTS[order[count:]].sum())
        assert curves[RANDOM]["insertion"][step] == pytest.approx(WEIGHTS[order[:count]].sum())


async def test_equal_values_go_in_the_random_order():
    """In the order of the input, a map that says nothing would name what is at the upper left."""
    curves, _ = await curves_of(np.zeros(7), names=("insertion",))
    assert curves["libra"]["insertion"].tolist() == curves[RANDOM]["insertion"].tolist()
    assert list(curves["libra"]) == ["insertion"]
    curves, _ = await curves_of([0, 0, 2, 0, 1, 0, 0], names=("insertion",))
    rest = [part for part in np.random.default_rng(SEED).permutation(7) if part not in (2, 4)]
    assert curves["libra"]["insertion"][6] == pytest.approx(WEIGHTS[[2, 4, *rest[:2]]].sum())


async def test_both_curves_begin_or_end_with_the_whole_input_and_with_nothing_of_it():
    curves, _ = await curves_of(-WEIGHTS)
    for own in curves.values():
        assert own["deletion"][0] == own["insertion"][-1] == WEIGHTS.sum()
        assert own["deletion"][-1] == own["insertion"][0] == 0


@pytest.mark.parametrize("count", [1, 2, 3, 10, 49])
@pytest.mark.parametrize("methods", [1, 3])
async def test_nothing_is_measured_twice_nor_more_often_than_was_admitted(count, methods):
    weights = np.random.default_rng(0).normal(size=count)
    subject, measure = subject_of(weights)
    found = {f"m{index}": np.random.default_rng(index + 1).normal(size=count) for index in range(methods)}
    await evaluate(subject, found, CURVE_NAMES, 5, compared=True)
    assert max(measure.asked.values()) == 1
    assert measure.asked.total() <= count_scores(methods + 1, CURVE_NAMES)
    if count == 49:
        assert measure.asked.total() >= count_scores(methods + 1, CURVE_NAMES) - 2
    assert count_scores(2, ["deletion"]) == 2 + 2 * 9


def test_each_step_takes_an_equal_share():
    order = np.random.default_rng(3).permutation(50)
    deleted = [(~kept(order, step, "deletion")).sum() for step in range(11)]
    inserted = [kept(order, step, "insertion").sum() for step in range(11)]
    assert deleted == inserted == list(range(0, 51, 5))
    assert (~kept(order, 4, "deletion") == kept(order, 4, "insertion")).all()


# what is taken away


@pytest.mark.parametrize(("size", "grid"), [((8, 12), (2, 3)), ((9, 14), (2, 3)), ((7, 7), (7, 7)), ((10, 10), (3, 3))])
def test_patches_become_black_and_no_other_pixel_does(size, grid):
    pixels = np.random.default_rng(0).integers(1, 256, (*size, 3), dtype=np.uint8)
    item = ModelInput({"pixels": pixels}, {"image": 1 + grid[0] * grid[1]}, {})
    columns, take_away = patches(item, image_kind(*grid), image_rule("middle"))
    assert columns.tolist() == list(range(1, 1 + grid[0] * grid[1]))
    parts = np.random.default_rng(1).random(len(columns)) < 0.5
    shown = take_away(parts).arrays["pixels"]
    assert shown.dtype == np.uint8
    high, wide = size[0] // grid[0], size[1] // grid[1]
    for y in range(size[0]):
        for x in range(size[1]):
            part = min(y // high, grid[0] - 1) * grid[1] + min(x // wide, grid[1] - 1)
            assert (shown[y, x] == (pixels[y, x] if parts[part] else 0)).all()
    assert (item.arrays["pixels"] == pixels).all()


def test_what_stands_beside_an_image_that_was_fitted_in_is_no_part_of_it():
    """Whether the graph is told of it or not."""
    pixels = np.full((4, 6, 1), 9, np.uint8)
    picture = Picture(pixels, (0.0, 0.0, 12.0, 8.0), width=6, height=8)  # the left half of the pixels
    seen = picture.visible_cells((2, 3))
    for more in ({"image_visible": seen}, {}):
        item = ModelInput({"pixels": pixels, **more}, {"image": 6}, {}, picture=picture)
        columns, take_away = patches(item, image_kind(prefix=0), image_rule("fit"))
        assert columns.tolist() == [0, 1, 3, 4]
        rest = take_away(np.array([True, False, False, False])).arrays
        assert rest["pixels"][::2, ::2, 0].tolist() == [[9, 0, 9], [0, 0, 9]]
        assert rest.keys() == item.arrays.keys()


SOURCE = np.array([2, 10, 11, 99, 12, 3])
SPECIAL = np.array([True, False, False, False, False, True])


def text_item(source=SOURCE, special=SPECIAL, masked=None):
    arrays = {
        "source": source,
        "source_visible": np.ones(len(source), bool),
        "source_types": np.arange(len(source)) % 2,
    }
    lengths = {"source": len(source)}
    if masked is not None:
        arrays["masked"], lengths["masked"] = np.array(masked), len(masked)
    words = [Token(int(index), str(index), None) for index in source]
    return ModelInput(arrays, lengths, {"source": special}, words)


def rule(**given):
    return TextRule(tokenizer="tokenizer.json", max_tokens=16, **given)


@pytest.mark.parametrize(
    ("given", "stand_in"), [({"mask": 99, "padding": 0}, 99), ({"padding": 0}, 0), ({"mask": 0, "padding": 5}, 0)]
)
def test_tokens_become_the_mask_token_or_that_which_fills_a_batch_and_special_ones_stay(given, stand_in):
    item = text_item()
    columns, take_away = tokens(item, text_kind(), rule(**given))
    assert columns.tolist() == [1, 2, 3, 4]
    rest = take_away(np.array([True, False, False, True]))
    assert rest.arrays["source"].tolist() == [2, 10, stand_in, stand_in, 12, 3]
    assert {name: array.tolist() for name, array in rest.arrays.items() if name != "source"} == {
        name: array.tolist() for name, array in item.arrays.items() if name != "source"
    }
    assert rest.lengths == item.lengths
    assert item.arrays["source"].tolist() == SOURCE.tolist()


def test_masks_that_are_to_be_filled_are_never_taken_away():
    columns, take_away = tokens(text_item(masked=[3]), text_kind(), rule(mask=99))
    assert columns.tolist() == [1, 2, 4]
    rest = take_away(np.zeros(3, bool))
    assert rest.arrays["source"].tolist() == [2, 99, 99, 99, 99, 3]
    assert rest.arrays["masked"].tolist() == [3]


def test_tokens_are_dropped_where_nothing_can_stand_for_them():
    columns, take_away = tokens(text_item(), text_kind(), rule())
    assert columns.tolist() == [1, 2, 3, 4]
    rest = take_away(np.array([False, True, False, True]))
    assert rest.arrays["source"].tolist() == [2, 11, 12, 3]
    assert rest.arrays["source_types"].tolist() == [0, 0, 0, 1]
    assert rest.arrays["source_visible"].tolist() == [True] * 4
    assert rest.lengths == {"source": 4}
    assert rest.special["source"].tolist() == [True, False, False, True]
    assert [token.index for token in rest.tokens] == [2, 11, 12, 3]


def test_what_a_decoder_is_fed_is_no_part_of_a_text_of_which_tokens_are_dropped():
    """It is made anew of what is left; where the decoder answers is a number, and no token."""
    item = text_item()
    fed = replace(item, arrays={**item.arrays, "target": SOURCE, "answered": np.array([5])})
    _, take_away = tokens(fed, text_kind(), rule())
    rest = take_away(np.array([False, True, False, True])).arrays
    assert rest["source"].tolist() == [2, 11, 12, 3]
    assert not {"target", "answered"} & rest.keys()


def test_where_all_tokens_could_be_dropped_the_last_one_stays():
    columns, take_away = tokens(text_item(special=np.zeros(6, bool)), text_kind(), rule())
    assert columns.tolist() == [0, 1, 2, 3, 4]
    assert take_away(np.zeros(5, bool)).arrays["source"].tolist() == [3]
    columns, _ = tokens(text_item(special=np.zeros(6, bool)), text_kind(), rule(padding=0))
    assert columns.tolist() == [0, 1, 2, 3, 4, 5], "one that is masked is still there"


@pytest.mark.parametrize(
    ("item", "given"),
    [(text_item(special=np.ones(6, bool)), {}), (text_item(SOURCE[:1], np.zeros(1, bool)), {}),
     (text_item(SOURCE[:3], SPECIAL[:3] | [False, True, False], masked=[2]), {"mask": 99})],
)  # fmt: skip
def test_a_text_without_a_token_to_take_away_is_refused(item, given):
    with pytest.raises(Unacceptable, match=r"^evaluate: needs a token that may be taken away, given none$"):
        tokens(item, text_kind(), rule(**given))


# what a map says of each part


def map_of(values, rows, kind):
    return AttentionMap(kind, {}, np.asarray(values, np.float32), rows)


def subject_at(position, kind, columns):
    score = Score("score", "", {})
    return Subject(
        text_item(), kind, np.array(columns), lambda _: text_item(), Counted(WEIGHTS), score, position=position
    )


def test_the_row_of_a_token_is_read_at_its_position():
    kind = text_kind()
    values = np.arange(24.0).reshape(1, 4, 6)
    subject = subject_at(3, kind, [1, 4])
    assert subject.values([map_of(values, (0, 2, 3, 5), kind)], query_of(method="raw")).tolist() == [13, 16]
    other = kind.model_copy(update={"kind": "cross"})
    mixed = [map_of(values, (0, 1, 2, 3), other), map_of(values[:, :1], (3,), kind)]
    assert subject.values(mixed, query_of(method="raw")).tolist() == [1, 4], "of its own kind"


def test_a_whole_answer_is_explained_by_the_only_row_wherever_it_is():
    kind = text_kind()
    for rows in ((0,), (5,), None):
        found = map_of(np.arange(6.0).reshape(1, 1, 6), rows, kind)
        assert subject_at(None, kind, [1, 4]).values([found], query_of(method="raw")).tolist() == [1, 4]


@pytest.mark.parametrize(
    ("rows", "position", "expected"), [((3,), 3, [1, 4, 3]), ((3,), None, [1, 4, 3]), (None, None, [2, 4, 3])]
)
def test_relevance_counts_without_the_identity_that_a_row_starts_from(rows, position, expected):
    kind = text_kind()
    found, subject = map_of([[[0, 1, 2, 2, 4, 3]]], rows, kind), subject_at(position, kind, [3, 4, 5])
    assert subject.values([found], query_of(method="relevance")).tolist() == expected
    assert subject.values([found], query_of(method="raw")).tolist() == [2, 4, 3]


@pytest.mark.parametrize("count", [0, 2])
def test_maps_of_which_not_one_explains_the_score_are_refused(count):
    kind = text_kind()
    found = [map_of(np.ones((1, 1, 6)), (3,), kind)] * count
    with pytest.raises(Unacceptable, match=r"^evaluate: needs one map of one row"):
        subject_at(3, kind, [1]).values(found, query_of(method="raw"))
    others = [((2, 1, 6), (3,)), ((1, 2, 6), (1, 2)), ((1, 1, 6), (0,))]  # heads; rows; that of the class token
    for wrong in (map_of(np.ones(shape), rows, kind) for shape, rows in others):
        with pytest.raises(Unacceptable, match=r"^evaluate: needs one map of one row"):
            subject_at(3, kind, [1]).values([wrong], query_of(method="raw"))


async def test_further_random_orders_have_seeds_of_their_own_and_change_nothing_of_the_first():
    subject, measure = subject_of(WEIGHTS)
    values = {"libra": np.zeros(len(WEIGHTS))}
    alone = await evaluate(subject, values, CURVE_NAMES, 5, compared=False)
    several = await evaluate(subject, values, CURVE_NAMES, 5, range(SEED, SEED + 3), compared=False)
    assert len(several.others) == 2
    for name in CURVE_NAMES:
        assert (several.curves[RANDOM][name] == alone.curves[RANDOM][name]).all()
        assert (several.curves["libra"][name] == alone.curves["libra"][name]).all()
        for seed, other in zip((1, 2), several.others, strict=True):
            order = np.random.default_rng(seed).permutation(len(WEIGHTS))
            assert other[name].tolist() == [WEIGHTS[kept(order, step, name)].sum() for step in range(11)]
    assert measure.asked.total() <= count_scores(2, CURVE_NAMES) + count_scores(4, CURVE_NAMES)
    shown = several.json()["curves"][0]["random"]
    assert [shown["seed"], *(one["seed"] for one in shown["others"])] == [0, 1, 2]
    assert "others" not in alone.json()["curves"][0]["random"]
