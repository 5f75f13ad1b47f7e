"""Do maps name the evidence, on models of which it is known; docs/quality.md has the numbers of all methods."""

import numpy as np
import pytest
import torch

from benchmarks.quality import glyphs, images, measures, methods, ranks, sequences, spots, tags, texts
from benchmarks.quality.images import UNSEEN
from export.bundled import SOURCES
from export.packaged import MINILM
from export.plan import Source
from model.architectures.vit import vit

CLASSLESS = ("raw", "rollout", "norm")
"""Methods that know of no class."""


@pytest.fixture(scope="module", autouse=True)
def alike():
    """Train the same weights whenever this runs on one machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


# Spots: trained in seconds.


@pytest.fixture(scope="module")
def spotter(alike):
    return spots.spotter(seed=0)


def of_spots(source: Source, number: int):
    drawn = spots.spots(150, torch.Generator().manual_seed(UNSEEN), number)
    right, subject, evidence = images.known_truth(source, drawn, number)
    assert right >= 0.98
    return subject, evidence


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_relevance_and_libra_point_at_the_textured_patch_that_is_asked_for(spotter, number):
    found = images.located(spotter, *of_spots(spotter, number), ("relevance", "libra"))
    assert found["relevance"]["pointing"] >= 0.95
    assert found["libra"]["pointing"] >= 0.97
    assert found["libra"]["mass"] >= 0.8


@pytest.mark.slow
def test_of_two_textured_patches_methods_without_a_class_find_one_at_best(spotter):
    found = images.located(spotter, *of_spots(spotter, 2), CLASSLESS)
    for method in CLASSLESS:
        assert found[method]["pointing"] <= 0.5


@pytest.mark.slow
def test_relevance_and_libra_depend_on_the_weights(spotter):
    """Adebayo et al. 2018, section 3: the maps of a model that knows nothing are others."""
    subject, _ = of_spots(spotter, 1)
    found = images.likeness_to_random(
        spotter, subject, lambda: spots.spotting(vit(spots.SPOTS).eval()), ("relevance", "libra"), count=10
    )
    for values in found.values():
        assert abs(np.mean(values)) < 0.3


# Glyphs: trained in minutes. The command's table has three seeds.


@pytest.fixture(scope="module", params=[glyphs.SIGMOID, glyphs.SOFTMAX])
def reader(alike, request):
    return glyphs.reader(0, request.param)


@pytest.mark.slow  # it trains for minutes
def test_libra_points_at_the_glyph_that_is_asked_for(reader):
    for number in (1, 2) if reader.scores == glyphs.SIGMOID else (1,):
        drawn = glyphs.pictures(400, torch.Generator().manual_seed(UNSEEN), number)
        right, *asked = images.known_truth(reader, drawn, number)
        assert right >= 0.9
        found = images.located(reader, *asked, ("libra", "relevance", "rollout"))
        assert found["libra"]["pointing"] >= (0.97 if reader.scores == glyphs.SIGMOID else 0.9)
        assert found["libra"]["mass"] >= 0.8
        assert found["libra"]["mass"] > max(found[method]["mass"] for method in ("relevance", "rollout")) + 0.2


@pytest.mark.slow  # as above
def test_libra_points_at_the_glyph_that_the_answer_rests_on(reader):
    found = images.resting(reader, 400, ("libra",))
    assert found["resting"] >= 0.75
    assert found["methods"]["libra"]["pointing"] >= 0.97
    assert found["methods"]["libra"]["mass"] >= 0.8


# Sequences.


@pytest.mark.slow  # it trains for a minute
def test_a_reversal_is_aligned_by_the_rows_that_emit():
    source = sequences.reverser(seed=0)
    asked = sequences.of_targets(source, sequences.reversals(300, torch.Generator().manual_seed(UNSEEN)))
    assert asked.exact >= 0.98
    rows = sequences.by_row(source, asked)
    for method in ("raw", "norm"):
        assert min(rows[f"{method}, emit"]) < 0.1
        assert min(rows[f"{method}, input"]) > 0.5
    found = texts.alignment_table(source, asked, print, ("relevance", "libra"))
    assert found["methods"]["relevance"]["error"] < 0.3


@pytest.fixture(scope="module")
def dates():
    source = SOURCES["dates"]()
    return source, texts.asked_of("dates", source, 30)


def test_libra_aligns_dates_without_a_layer_to_choose(dates):
    found = texts.alignment_table(*dates, print, ("relevance", "libra"))
    assert found["exact"] >= 0.98
    assert found["methods"]["libra"]["error"] <= 0.01
    assert found["methods"]["relevance"]["error"] < 0.4


def test_a_date_is_aligned_by_the_rows_that_emit(dates):
    rows = sequences.by_row(*dates)
    for method in ("raw", "norm"):
        assert min(rows[f"{method}, emit"]) < 0.05
        assert min(rows[f"{method}, input"]) > 0.5


@pytest.mark.parametrize("name", ["dates-clm", pytest.param("dates-mlm", marks=pytest.mark.slow)])
def test_libra_finds_the_digit_of_the_written_date_that_a_language_model_copies(name):
    source = SOURCES[name]()
    found = texts.alignment_table(source, texts.asked_of(name, source, 30), print, ("rollout", "libra"))
    assert found["exact"] >= 0.95
    assert found["methods"]["libra"]["error"] <= 0.01
    assert found["methods"]["rollout"]["error"] > 0.1


# Tags.


def test_libra_finds_the_characters_of_a_part_of_a_date():
    found = tags.tag_table(SOURCES["dates-tags"](), print, 120, ("libra", "gradient x input", "random"))
    assert found["exact"] >= 0.97
    assert found["methods"]["libra"]["pointing"] >= 0.95
    assert found["methods"]["gradient x input"]["pointing"] < 0.8
    assert found["methods"]["random"]["pointing"] < 0.4


# Readings of a date.


def test_libra_finds_the_part_in_which_a_wrong_reading_differs():
    found = ranks.rank_table(SOURCES["dates-rank"](), print, 100, ("libra", "relevance", "random"))
    assert found["exact"] >= 0.96
    assert found["methods"]["libra"]["text"]["all"] >= 0.9
    assert found["methods"]["libra"]["query"]["all"] >= 0.8
    assert found["methods"]["relevance"]["text"]["all"] < 0.7
    assert found["methods"]["random"]["text"]["all"] < 0.4


# Sentences.


def test_what_two_sentences_share_carries_their_cosine():
    pytest.importorskip(MINILM)
    source = SOURCES["minilm"]()
    found = texts.sentence_table(source, print, ("rollout", "libra"))["methods"]
    assert found["libra"]["hottest"] >= 0.98
    assert found["libra"]["mass"] > found["rollout"]["mass"] + 0.3


# Digits.


@pytest.fixture(scope="module")
def digits():
    return images.digit_curves(SOURCES["digits"](), 24, ("raw", "rollout", "norm", "relevance", "libra", "random"))


@pytest.mark.parametrize("method", ["raw", "rollout", "norm", "relevance", "libra"])
def test_taking_what_a_map_of_a_digit_names_takes_the_digit(digits, method):
    areas = {name: [digits[one][name].mean() for one in (method, "random")] for name in ("deletion", "insertion")}
    assert areas["deletion"][0] < areas["deletion"][1] - 0.2
    assert areas["insertion"][0] > areas["insertion"][1] + 0.15


@pytest.mark.slow  # all held-out scans, 16 points of each
def test_integrated_gradients_find_what_the_answer_depends_on_better_than_rollout():
    areas = images.digit_curves(SOURCES["digits"](), None, ("rollout", "integrated"))
    less, half = measures.interval(areas["integrated"]["deletion"] - areas["rollout"]["deletion"])
    assert less + half < 0


def test_maps_of_a_batch_are_those_of_its_inputs():
    source = SOURCES["digits"]()
    pixels, labels = images.held_digits(3)
    for method in (*methods.METHODS, "gradient x input"):
        together = images.patch_maps(source, method, images.of_images(pixels, labels))
        for row in range(3):
            alone = images.patch_maps(source, method, images.of_images(pixels[row, None], labels[row, None]))
            np.testing.assert_allclose(together[row], alone[0], rtol=1e-3, atol=1e-5)
