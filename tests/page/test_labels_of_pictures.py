"""A model of pictures beside one of labels: what is typed becomes bars; each label shows its patches and words."""

import base64
import json

import numpy as np
import pytest

from tests.conftest import served
from tests.page.conftest import asked, settled, state_of, violations

ITEMS = "#answer .ranked button"
TYPED = ["a red seven", "a blue digit", "a white one"]
TEMPLATE = "This is a photo of {}."
RUBY = "all => all.map((one) => [one.firstChild.data, one.querySelector('rt').innerText])"
"""Words, and what stands below each."""


@pytest.fixture(scope="module")
def service(towers):
    """A service with these two models alone."""
    with served(towers) as client:
        yield client


def answered(service, labels):
    """Return what is answered of the first example: labels with their probabilities, best first."""
    picture = service.get("/v1/models/scenes-clip/examples/0").content
    answer = service.post(
        "/v1/models/scenes-clip/classify",
        params={"labels": ",".join(labels)},
        content=picture,
        headers={"Content-Type": "image/png"},
    )
    return answer.json()["results"][0]["labels"]


def said(service, label):
    """Return what each word of a label's sentence says the first example, as the service explains both sides."""
    picture = base64.b64encode(service.get("/v1/models/scenes-clip/examples/0").content).decode()
    look = {"method": "relevance", "target": label, "sides": "both"}
    body = {"images": [picture], "labels": TYPED, "template": TEMPLATE, "attention": look}
    answer = service.post("/v1/models/scenes-clip/classify", json=body).json()["results"][0]
    tokens, (map_,) = (answer["attention"]["against"][name] for name in ("tokens", "maps"))
    values = zip(tokens["source"], map_["values"][0][0], strict=True)
    return [value for token, value in values if token["span"]]


def words(page):
    """Return the words of the label that is looked at, and the number of each."""
    found = page.locator("#opposite ruby").evaluate_all(RUBY)
    return [text for text, _ in found], [float(number) for _, number in found]


def shown(page):
    """Return the labels of the answer in their order, and the lengths of their bars."""
    widths = page.locator(f"{ITEMS} .bar span").evaluate_all("all => all.map(({ style }) => parseFloat(style.width))")
    return page.locator(f"{ITEMS} > span:first-child").all_inner_texts(), widths


def test_labels_are_typed_and_each_that_is_pointed_at_shows_its_patches_and_its_words(go, service):
    page = go(model="scenes-clip")
    example = service.get("/v1/models/scenes-clip").json()["examples"][0]
    assert set(shown(page)[0]) == set(example["labels"]), "those of the example stand there at first"

    page.fill("[name=labels]", ", ".join(TYPED))
    page.locator("#labels button").click()
    settled(page)
    found = answered(service, TYPED)
    names, widths = shown(page)
    assert names == [one["label"] for one in found]
    assert np.allclose(widths, [100 * one["probability"] for one in found], atol=1e-3)
    assert state_of(page)["labels"].split("\n") == TYPED
    looked = [json.loads(one["against"]) for one in asked(page, "/v1/attention/") if "against" in one]
    assert looked[-1] == {"text": TEMPLATE.replace("{}", names[0])}, "the likeliest is looked at"
    assert " ".join(words(page)[0]).replace(" .", ".") == TEMPLATE.replace("{}", names[0])
    assert words(page)[1] == pytest.approx(said(service, names[0]), rel=6e-3, abs=1e-5)

    page.locator(ITEMS).nth(1).hover()
    page.wait_for_function("document.querySelectorAll('#answer .ranked button')[1].classList.contains('shown')")
    settled(page)
    page.wait_for_timeout(300)
    settled(page)
    looked = [json.loads(one["against"]) for one in asked(page, "/v1/attention/") if "against" in one]
    assert looked[-1] == {"text": TEMPLATE.replace("{}", names[1])}
    assert words(page)[1] == pytest.approx(said(service, names[1]), rel=6e-3, abs=1e-5), "of the one pointed at"

    page.locator(ITEMS).nth(1).click()
    page.locator("[name=apart]").check()
    settled(page)
    looked = [json.loads(one["against"]) for one in asked(page, "/v1/attention/") if "against" in one]
    assert looked[-1] == [{"text": TEMPLATE.replace("{}", one)} for one in (names[1], names[0])], "against the best"
    assert page.locator("#opposite").count() == 0, "that is of the likeness to one of them"
    assert page.locator("#picture canvas").count() > 0
    assert violations(page) == {}
