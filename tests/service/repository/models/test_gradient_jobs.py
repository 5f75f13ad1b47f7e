"""Items of the lanes of gradient methods: what shares a batch, how a batch is stacked, and what each gets back."""

from dataclasses import replace

import numpy as np

from contract.manifest import Graph, Port
from service.inputs.model_input import ModelInput
from service.repository.models.gradient_jobs import GradientJob, split, stacked

RELEVANCE = Graph(
    file="relevance.onnx", sha256="0" * 64, bytes=1,
    inputs=tuple(Port(name=name, dtype="int64", axes=("batch",)) for name in ("explained", "rows", "encoder.layers")),
    outputs=(
        Port(name="logits", dtype="float32", axes=("batch", 3)),
        Port(name="encoder", dtype="float32", axes=("batch", "rows", "source")),
        Port(name="score", dtype="float32", axes=("batch",)),
    ),
)  # fmt: skip


def job(length, rows=(0,), layers=(0, 1), **controls):
    item = ModelInput({"source": np.arange(length)}, {"source": length}, {})
    given = {"explained": np.array(2), "rows": np.array(rows), **controls}
    return GradientJob(item, given, layers)


def test_jobs_of_similar_length_with_similarly_many_rows_and_equal_layers_share_a_batch():
    assert job(5).bucket == job(8).bucket
    assert job(5, range(5)).bucket == job(8, range(8)).bucket
    assert job(8).bucket != job(9).bucket
    assert job(5, (0,)).bucket != job(5, range(5)).bucket
    assert job(5, layers=(0,)).bucket != job(5).bucket
    assert hash(job(5).bucket) == hash(job(6).bucket)


def test_controls_are_stacked_and_those_that_are_lists_padded():
    jobs = [job(3, (0, 1, 2)), job(2, (1, 0))]
    feed = stacked(jobs, RELEVANCE)
    assert feed["explained"].tolist() == [2, 2]
    assert feed["explained"].dtype == np.int64
    assert feed["rows"].tolist() == [[0, 1, 2], [1, 0, 0]]
    assert feed["encoder.layers"].tolist() == [0, 1]
    points = stacked([job(3, point=np.float32(one)) for one in (0.25, 0.75)], RELEVANCE)["point"]
    assert (points.tolist(), points.dtype) == ([0.25, 0.75], np.float32)
    pictures = stacked([job(3, **{"baseline.pixels": np.zeros((4, 4, 1), np.uint8)})] * 2, RELEVANCE)
    assert pictures["baseline.pixels"].shape == (2, 4, 4, 1)


def test_each_gets_its_own_rows_and_keys_without_the_padding_of_its_batch():
    jobs = [job(3, (0, 1, 2)), replace(job(2, (1,)), answers=True)]
    values = np.arange(2 * 3 * 3, dtype=np.float32).reshape(2, 3, 3)
    out = {"logits": np.eye(2, 3), "encoder": values, "score": np.array([0.5, 1.5])}
    first, second = split(jobs, RELEVANCE, out)
    assert np.array_equal(first["encoder"], values[0])
    assert np.array_equal(second["encoder"], values[1, :1, :2])
    assert (float(first["score"]), float(second["score"])) == (0.5, 1.5)
    assert second["logits"].tolist() == [0, 1, 0]


def test_a_method_without_rows_takes_none():
    item = job(3).item
    (found,) = split([GradientJob(item, {"explained": np.array(0)})], RELEVANCE, {
        "logits": np.zeros((1, 3)), "encoder": np.zeros((1, 1, 3)), "score": np.zeros(1),
    })  # fmt: skip
    assert found["encoder"].shape == (1, 3)
    assert GradientJob(item, {}).bucket == GradientJob(item, {"explained": np.array(0)}).bucket


def test_the_ends_of_a_path_run_apart_from_what_lies_between():
    buckets = [job(3, point=np.float32(one)).bucket for one in (0, 0.25, 0.75, 1)]
    assert buckets[0] == buckets[3] != buckets[1] == buckets[2] == job(3).bucket


def test_only_jobs_that_want_the_answer_keep_it_and_none_keeps_the_batch():
    """Logits over a vocabulary, of every target of a text, would fill the memory."""
    out = {"logits": np.ones((2, 3)), "encoder": np.ones((2, 1, 4)), "score": np.ones(2)}
    first, second = split([job(3), replace(job(4), answers=True)], RELEVANCE, out)
    assert (first.keys(), second.keys()) == ({"encoder", "score"}, {"logits", "encoder", "score"})
    assert not any(np.shares_memory(found, out[name]) for one in (first, second) for name, found in one.items())
