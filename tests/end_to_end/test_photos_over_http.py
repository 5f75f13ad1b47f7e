"""A real DINOv2, exported whole, asked about photographs over HTTP."""

import base64
import io

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from contract.artifact import read_artifact
from export.examples import PHOTOS
from tests.samples.in_process import in_process

pytestmark = pytest.mark.slow

PATH = "/v1/models/photos"
COSINE = 0.5316
"""Of the astronaut and the rocket."""


@pytest.fixture(scope="module")
def client(photos):
    with in_process(photos, request_seconds=300) as client:  # on a busy machine
        yield client


def encoded(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


@pytest.fixture(scope="module")
def pictures():
    return {file.stem: Image.open(file).convert("RGB") for file in PHOTOS}


def look(client, image, **attention):
    answer = client.post(f"{PATH}/attention", json={"images": [encoded(image)], "attention": attention})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]["attention"]


def test_every_method_is_near_its_definition(photos):
    verified = read_artifact(photos / "photos" / "1").manifest.verified
    for method in ("rollout", "relevance", "libra", "integrated", "similar"):
        assert verified[f"{method}: encoder"] < 1e-5, method


def test_libra_adds_up_to_the_likeness_of_two_photographs(client, pictures):
    against = {"image": encoded(pictures["rocket"])}
    (shown,) = look(client, pictures["astronaut"], method="libra", against=against)["maps"]
    found = shown["conserved"]
    assert found["score"] == pytest.approx(COSINE, abs=1e-3)
    assert found["tokens"] + found["biases"] == pytest.approx(found["score"], abs=1e-4)


def test_integrated_gradients_say_how_much_they_miss(client, pictures):
    asked = {"method": "integrated", "against": {"image": encoded(pictures["rocket"])}}
    (shown,) = look(client, pictures["astronaut"], **asked)["maps"]
    assert shown["steps"] == 48  # since 16 points are too few
    assert shown["completeness"]["relative_error"] > 0.05


def test_rollout_without_sinks_is_another_one(client, pictures):
    plain, without = (look(client, pictures["cat"], method="rollout", sinks=how) for how in ("keep", "out"))
    first, second = (np.array(one["maps"][0]["values"]) for one in (plain, without))
    assert np.abs(first - second).max() > 0.01
    (sinks,) = look(client, pictures["cat"], diagnostics=True)["diagnostics"]
    assert {(sink["layer"], sink["head"]) for sink in sinks["sinks"]} == {(0, 5)}


@pytest.mark.parametrize("light", [0.5, 1.5])
def test_a_part_is_found_again_in_another_light(client, pictures, light):
    found = []
    for picture in pictures.values():
        changed = ImageEnhance.Brightness(picture).enhance(light)
        maps = look(client, picture, method="similar", against={"image": encoded(changed)})["against"]["maps"]
        likeness = np.array(maps[0]["values"])[0, 1:, 1:]
        found.append(likeness.argmax(1) == np.arange(256))
    assert np.mean(found) >= 0.95
