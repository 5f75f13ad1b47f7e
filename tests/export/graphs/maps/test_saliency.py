"""The saliency graph, made node by node, against the paper in numpy."""

import copy

import numpy as np
import onnxruntime as ort
import pytest
import torch

from contract.input_rules import ImageRule
from contract.manifest import SHOWN, Kind, Port
from export.checks.comparison import Ledger
from export.checks.trials import Trial
from export.checks.verify_saliency import verify_saliency
from export.errors import MethodError
from export.graphs.maps.saliency import saliency_graph
from export.plan import Plan
from export.tasks.ports import in_colour
from export.tasks.windows import windowed_image_model
from export.traced.images import SalientCells
from model.architectures.swin import SwinConfig, swin
from tests.samples.export_models import windowed
from tests.samples.saliency_reference import drawn, reference


def planned(height, width, grid, *, shown=False):
    rule = ImageRule(height=height, width=width, channels=3, locate="middle", mean=(0.5,) * 3, std=(0.5,) * 3)
    kind = Kind(
        name="encoder", kind="encoder", methods=("raw",), maps=("a",), heads=1, query="image", key="image",
        normalized=True, prefix=2, suffix=1, grid=grid,
    )  # fmt: skip
    inputs = [Port(name="pixels", dtype="uint8", axes=("batch", height, width, 3))]
    inputs += [Port(name=SHOWN, dtype="int64", axes=("batch", 2))] * shown
    output = Port(name="encoder", dtype="float32", axes=("batch", kind.length))
    return Plan("saliency", SalientCells(rule, kind), tuple(inputs), (output,), 0, answers=0)


@pytest.mark.parametrize(
    ("height", "width", "grid", "shown"),
    [
        (64, 64, (8, 8), None),
        (17, 40, (2, 5), None),
        (140, 129, (10, 9), None),
        (130, 145, (9, 10), (130, 77)),
        (96, 80, (6, 5), (50, 71)),
    ],
)
def test_the_graph_computes_what_the_paper_says(height, width, grid, shown):
    plan = planned(height, width, grid, shown=bool(shown))
    pictures = [drawn(seed, height, width) for seed in (0, 1, 2)]
    feed = {"pixels": np.stack(pictures).transpose(0, 2, 3, 1).astype(np.uint8)}
    sides = [shown, (height, width), (height // 2, width - 1)] if shown else [None] * 3
    if shown:
        feed[SHOWN] = np.array(sides)
    (found,) = ort.InferenceSession(saliency_graph(plan, 20).SerializeToString()).run(None, feed)
    (defined,) = plan.module(*map(torch.from_numpy, feed.values()))
    assert not found[:, [0, 1, -1]].any()
    for ours, exact, side, picture in zip(found[:, 2:-1], defined[:, 2:-1].numpy(), sides, pictures, strict=True):
        wanted = reference(picture, grid, side).reshape(-1)
        np.testing.assert_allclose(exact, wanted, rtol=0, atol=1e-9)
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-5 * wanted.max())


def test_peaks_of_two_by_two_pixels_are_one_each():
    plan, picture = planned(128, 128, (4, 4)), np.zeros((1, 128, 128, 3), np.uint8)
    for place, (y, x) in enumerate(np.ndindex(4, 4)):
        picture[0, 32 * y + 8 : 32 * y + 24, 32 * x + 8 : 32 * x + 24] = 200 if place % 5 else (90, 200, 200)
    (found,) = ort.InferenceSession(saliency_graph(plan, 20).SerializeToString()).run(None, {"pixels": picture})
    wanted = reference(picture[0].transpose(2, 0, 1), (4, 4)).reshape(-1)
    assert wanted.max() > 0.001
    np.testing.assert_allclose(found[0, 2:-1], wanted, rtol=0, atol=1e-5)


def test_another_graph_than_the_definition_is_no_saliency():
    plan, ledger = planned(64, 64, (8, 8)), Ledger()
    rounds = [(Trial({"batch": 1}, 2, False), Trial({"batch": 2}, 1, False))]

    def verified(graph):
        verify_saliency(plan, lambda _: ort.InferenceSession(graph.SerializeToString()), rounds, ledger)
        return ledger.worst["saliency: encoder"]

    assert verified(saliency_graph(plan, 20)) < 1e-6
    other = copy.deepcopy(plan)
    other.module.saliency.get_buffer("smooth").mul_(1.01)
    with pytest.raises(MethodError, match="saliency: encoder: must agree within"):
        verified(saliency_graph(other, 20))


def test_a_stage_of_windows_has_it_by_the_patches_of_the_first():
    config = SwinConfig((32, 64), 3, (4, 4), width=16, depths=(2, 2), heads=(2, 2), window=4, ratio=2, classes=3)
    rule = ImageRule(height=32, width=64, channels=3, locate="middle", mean=(0.5,) * 3, std=(0.5,) * 3)
    said = {"family": "swin", "task": "image-classification", "labels": ("a", "b", "c"), "made_by": {}}
    source = windowed_image_model("colour", swin(config), config, rule=rule, **said)
    assert [kind.name for kind in source.attention if "saliency" in kind.methods] == ["stage1"]
    assert source.plan("saliency").outputs[0].axes == ("batch", 8 * 16)
    left = source.without("saliency")
    assert not left.has("saliency")
    assert not windowed().has("saliency")


def test_a_small_picture_has_none():
    kind = Kind(name="a", kind="encoder", methods=(), maps=("a",), heads=1, query="image", key="image", normalized=True)
    rule = {"channels": 3, "locate": "middle", "mean": (0.5,) * 3, "std": (0.5,) * 3, "width": 64}
    assert in_colour(kind, ImageRule(height=16, **rule)).methods == ()
    assert in_colour(kind, ImageRule(height=17, **rule)).methods == ("saliency",)
