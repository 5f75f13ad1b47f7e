import copy
import json

import pytest

from contract.manifest import Manifest
from service.explanations.usual import usual
from tests.samples.manifest_documents import IMAGE


def manifest(*methods, task="image-classification", family="vit", measure=None, grid=True, **values):
    document = copy.deepcopy(IMAGE) | {"task": task, "family": family}
    kind = document["attention"][0]
    kind["methods"] = list(methods)
    kind["grid"] = [2, 2] if grid else None
    best = {"method": next(iter(values)), "measure": measure, "values": values} if values else None
    return Manifest.model_validate_json(json.dumps(document | {"best": best}))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (manifest("raw"), "raw"),
        (manifest("raw", "rollout", "norm"), "rollout"),
        (manifest("raw", "rollout", "libra"), "libra"),
        (manifest("raw", "libra", measure="deletion area, lower is better", libra=0.1, raw=0.3), "libra"),
        (manifest("raw", "libra", measure="insertion area, higher is better", raw=0.3, libra=0.1), "raw"),
    ],
)
def test_the_usual_method_is_the_one_that_measured_best_or_the_first_that_explains(given, shown):
    assert usual(given) == {"method": shown}


def test_of_an_embedding_it_needs_no_second_input():
    every = ("raw", "rollout", "norm", "libra")
    values = {"libra": 0.1, "raw": 0.3, "rollout": 0.2, "norm": 0.4}
    task = "feature-extraction"
    assert usual(manifest(*every, task=task)) == {"method": "rollout"}
    assert usual(manifest(*every, task=task, measure="deletion, lower is better", **values)) == {"method": "rollout"}
    assert usual(manifest(*every, task=task, measure="insertion", **values)) == {"method": "norm"}
    assert usual(manifest("norm", "libra", task=task, measure="insertion", libra=0.1)) == {"method": "norm"}


def test_of_a_dinov2_that_was_not_measured_it_is_rollout_without_sinks():
    every, task = ("raw", "rollout"), "feature-extraction"
    found = usual(manifest(*every, family="dinov2", task=task))
    assert found == {"method": "rollout", "sinks": "out", "discard": 0.9}
    assert usual(manifest(*every, family="dinov2", task=task, measure="area", raw=1.0)) == {"method": "raw"}
    assert usual(manifest("raw", family="dinov2", task=task)) == {"method": "raw"}
    assert usual(manifest(*every, family="dinov2", task=task, grid=False)) == {"method": "rollout"}
