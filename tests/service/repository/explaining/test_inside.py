"""What is inside a layer, in a batch of inputs of several lengths."""

import numpy as np
import pytest

from contract.artifact import read_artifact
from contract.manifest import INSIDE
from service.repository.explaining.inside import with_target
from service.repository.models.gradient_jobs import GradientJob
from service.repository.models.tasks import TASKS
from service.settings import Settings


@pytest.fixture(scope="module")
def served(complete):
    artifact = read_artifact(complete / "dates" / "1")
    return TASKS[artifact.manifest.task](artifact, "cpu", Settings())


def test_numbers_in_a_batch_are_those_of_each_input_alone(served):
    jobs = []
    for text, target, query, key in (("3/4/99", [31, 32, 33], 1, 0), ("march the third 1999", [31, 34, 35, 36], 3, 2)):
        item, axes = with_target(served, served.inputs.text_input(text, truncate=False), text, target)
        assert axes.keys() == {"source", "target", "target_input"}
        jobs.append(GradientJob(item, {"query": np.array(query), "key": np.array(key)}, (1,)))
    together = served.run_gradient("inside", jobs)
    for job, one in zip(jobs, together, strict=True):
        (alone,) = served.run_gradient("inside", [job])
        assert one.keys() == {f"{kind.name}.{what}" for kind in served.manifest.attention for what in INSIDE}
        for name, array in one.items():
            assert array.shape == alone[name].shape
            assert np.allclose(array, alone[name], atol=1e-5), name
        keys = {kind.name: job.item.lengths[kind.key] for kind in served.manifest.attention}
        assert {name: one[f"{name}.weights"].shape[-1] for name in keys} == keys
        assert one["cross.weights"].sum(-1) == pytest.approx(1, abs=1e-6)
