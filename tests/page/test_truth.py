"""What the page says is what is: colours of a legend, verdicts about a map, and whose row is seen."""

import numpy as np
import pytest
from PIL import Image

from tests.page.conftest import canvas_of, settled

GREY = 150
PIXEL = """([name, across, down]) => {
  const canvas = document.querySelector(name)
  return [...canvas.getContext('2d').getImageData(across * canvas.width, down * canvas.height, 1, 1).data].slice(0, 3)
}"""


def image(side=64):
    return {
        "width": side,
        "height": side,
        "orientation": 1,
        "box": {"left": 0, "top": 0, "right": side, "bottom": side},
    }


@pytest.mark.parametrize("colormap", ["viridis", "magma", "gray"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("grey", [True, False])
def test_a_pixel_under_a_value_has_the_legends_colour_of_it(view, colormap, signed, grey):
    values = np.array([[0, 0.25, 0.5], [0.75, 1, 0.1]], np.float32) * (np.where(np.eye(2, 3), -1, 1) if signed else 1)
    values = values.astype(np.float32)
    source = {"width": 64, "height": 64, "pixels": np.full((64, 64, 4), (GREY, GREY, GREY, 255), np.uint8)}
    style = {"signed": signed, "top": 1, "colormap": colormap, "opacity": 0.8}
    view.show("Picture", image=image(), source=source, cells=values.ravel(), rows=2, columns=3, low=0, label="",
              smooth=False, grey=grey, **style)  # fmt: skip
    seen = [
        view.page.evaluate(PIXEL, ["canvas", (column + 0.5) / 3, (row + 0.5) / 2])
        for row in (0, 1)
        for column in range(3)
    ]
    view.show("Legend", over={"image": image(), "source": source, "grey": grey}, low=0, **style)
    for value, colour in zip(values.ravel().tolist(), seen, strict=True):
        place = (value + 1) / 2 if signed else value
        legend = view.page.evaluate(PIXEL, [".legend canvas", min(place, 0.999), 0.5])
        assert np.abs(np.array(legend) - colour).max() <= 4, value


@pytest.mark.parametrize(("model", "methods"), [("captions-soft", ["raw"]), ("scenes-detr", ["raw", "libra"])])
def test_a_grey_photo_has_the_legends_colours_whatever_the_model(go, tmp_path, model, methods):
    Image.new("RGB", (320, 320), (GREY, GREY, GREY)).save(tmp_path / "grey.png")
    for method in methods:
        page = go(model=model, method=method, smooth="", full="1", threshold="0" if model == "scenes-detr" else "")
        page.set_input_files("#choose-file", tmp_path / "grey.png")
        settled(page)
        heat = canvas_of(page.locator("#picture canvas").first)
        legend = canvas_of(page.locator(".legend canvas").first).reshape(-1, 3)
        places = [
            heat[row * heat.shape[0] // 16, column * heat.shape[1] // 16] for row in (1, 7, 13) for column in (1, 7, 13)
        ]
        assert max(np.abs(legend - one).max(1).min() for one in places) <= 4, method


# Verdicts

FRACTIONS = [at / 10 for at in range(11)]


def evaluation(own, randoms):
    first, *others = ({"seed": seed, "probabilities": [area] * 11, "area": area} for seed, area in enumerate(randoms))
    curve = {"name": "deletion", "probabilities": np.linspace(1, 2 * own - 1, 11).tolist(), "area": own}
    return {"target": 7, "measure": "probability", "fractions": FRACTIONS,
            "curves": [{**curve, "random": {**first, "others": others}}]}  # fmt: skip


@pytest.mark.parametrize(
    ("own", "randoms", "said"),
    [
        (0.55, [0.6, 0.7, 0.8], "less is better, so the map is better than each random order."),
        (0.65, [0.6, 0.7, 0.8], "no difference."),
        (0.9, [0.6, 0.7, 0.8], "the map is worse than each random order."),
        (0.595, [0.6, 0.7, 0.8], "no difference."),
    ],
)
def test_a_map_is_better_only_if_it_is_better_than_each_random_order(view, own, randoms, said):
    view.show("Curves", evaluation=evaluation(own, randoms), label="7")
    words = view.page.locator("figcaption").inner_text()
    assert words.endswith(said)
    assert "in 3 random orders (the band) 0.6 to 0.8" in words
    band = view.page.locator("path.band").get_attribute("d")
    assert "42.0" in band  # the highest, 0.8
    assert "74.0" in band  # the lowest, 0.6


def test_an_evaluation_is_beside_several_random_orders(go):
    page = go(model="digits")
    page.click("#evaluation summary")
    page.wait_for_selector("#evaluation figcaption")
    assert "5 random orders" in page.inner_text("#evaluation figcaption >> nth=0")


# Whose row


def test_the_row_that_is_seen_first_is_the_masks_and_the_score_is_named(go):
    page = go(model="dates-mlm", method="raw")
    assert page.inner_text("#look .readout").startswith("“[MASK]”")
    page = go(model="dates-mlm")
    best = page.inner_text("#answer .labels li >> nth=0").split()[0]
    page.click("#evaluation summary")
    page.wait_for_selector("#evaluation figcaption")
    assert f"the probability of “{best}”" in page.inner_text("#evaluation figcaption >> nth=0")


def test_a_crop_that_moves_as_patches_are_covered_is_said(go):
    page = go(model="digits", method="raw", covered="7,8,9", compare="input")
    assert "the model takes another part of the picture" in page.inner_text("#look .readout")
    page = go(model="scenes-detr", covered="0", compare="input")
    assert "another part of the picture" not in page.inner_text("#look .readout")
