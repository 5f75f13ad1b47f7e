"""Eight bits served: an input's answer and maps are the same, alone and beside others."""

import asyncio

import numpy as np
import pytest
from PIL import Image

from contract.artifact import read_artifact
from export import pipeline
from export.pipeline import export
from service.batching.fair_queue import NOBODY
from service.explanations.query import resolve
from service.inputs.model_input import Picture
from service.options.attention import AttentionOptions
from service.options.base import parse
from service.repository.loading.load import load
from service.repository.registry import Registry
from service.runtime.device import Device
from service.settings import Settings
from service.telemetry.metrics import Metrics
from tests.samples.export_models import VIT, classifier
from tests.samples.traces import traces_kept

pytestmark = pytest.mark.anyio

RNG = np.random.default_rng(0)
HEIGHT, WIDTH = VIT.image
IMAGES = [RNG.integers(0, top, (HEIGHT, WIDTH, 1), np.uint8) for top in (16, 256, 64, 128, 32, 256)]
"""Images of several contrasts: what quantizes one to 8 bits is not what quantizes another."""


@pytest.fixture(params=["row", "input", "fixed"])
def folder(request, tmp_path, monkeypatch):
    (images := tmp_path / "images").mkdir()
    for index, image in enumerate(IMAGES):
        Image.fromarray(image[..., 0]).save(images / f"{index}.png")
    tokens = 1 if request.param == "input" else 128
    monkeypatch.setattr(pipeline, "INPUT_SCALE_TOKENS", tokens)
    calibrate = images if request.param == "fixed" else None
    with traces_kept():
        made = export(classifier(), "1", tmp_path / "artifacts", "int8", force=True, calibrate=calibrate)
    assert read_artifact(made).manifest.scales == request.param
    return tmp_path / "artifacts"


@pytest.mark.parametrize("cores", [1, 3])
async def test_an_answer_and_its_maps_are_the_same_alone_and_beside_others(folder, cores):
    settings, device = Settings(artifacts=folder, threads=1), Device(cores)
    models = Registry(load(settings), settings, device, Metrics())
    served = models["small"]
    box = (0, 0, WIDTH, HEIGHT)
    items = [served.inputs.image_input(Picture(image, box, WIDTH, HEIGHT)) for image in IMAGES]
    options = parse(AttentionOptions, {"method": "raw", "layers": "all", "queries": "all"}, strings=False)
    query = resolve(options, served.manifest)
    sizes, run = [], served.sessions["predict"].run

    def noted(feed):
        sizes.append(len(feed["pixels"]))
        return run(feed)

    served.sessions["predict"].run = noted
    alone = [await served.predict(item, NOBODY) for item in items]
    sizes.clear()
    together = await asyncio.gather(*(served.predict(item, NOBODY) for item in items))
    bits = 1e-6 if served.manifest.scales == "fixed" else 0  # batches change the order of sums of floats
    np.testing.assert_allclose(together, alone, rtol=bits, atol=bits)
    assert (max(sizes) == 1) == (served.manifest.scales == "input")
    maps = [await served.attend(item, query, NOBODY) for item in items]
    beside = await asyncio.gather(*(served.attend(item, query, NOBODY) for item in items))
    for one, other, answer in zip(maps, beside, alone, strict=True):
        np.testing.assert_allclose(one.prediction, other.prediction, rtol=bits, atol=bits)
        np.testing.assert_allclose(one.prediction, answer, atol=1e-5)
        np.testing.assert_allclose(one.maps[0].values, other.maps[0].values, rtol=bits, atol=bits)
    await models.close()
    device.close()
