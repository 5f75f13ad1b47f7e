"""Gradient methods: what is asked of their graphs, and what is read of what these return."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from service.batching.fair_queue import NOBODY
from service.explanations.selection import Target
from service.inputs.model_input import ModelInput
from service.repository.explaining import gradients
from service.repository.explaining.gradients import (
    Explained,
    explain_scores,
    jobs_of,
    maps_of,
    maps_of_tokens,
    parts_of,
    path_of,
)
from service.repository.models.generator import Generator
from tests.samples.attention_queries import LAYERS, TOKENS, continuer, embedder, query_of, translator, vit

pytestmark = pytest.mark.anyio

PIXELS = ModelInput({"pixels": np.ones((4, 4, 1), np.uint8)}, {"image": TOKENS}, {})
RANDOM = np.random.default_rng(0)


class Model:
    """Stands in for a served model: its graphs return what it was given, one for each job."""

    def __init__(self, manifest, found):
        self.manifest, self.found, self.jobs = manifest, found, []

    async def explain_scores(self, method, jobs, caller):
        self.jobs += jobs
        return self.found[: len(jobs)]


def libra_of(score=1.0, kinds=("encoder",), layers=LAYERS, keys=TOKENS):
    """What a graph of libra returns: shares and biases that add up to a score at each layer."""
    shares = {kind: RANDOM.normal(size=(layers, keys)).astype(np.float32) for kind in kinds}
    biases = score - sum(own.sum(1) for own in shares.values())
    answer = {"logits": np.array([0.0, 1.0, 2.0]), "embeddings": np.ones(4, np.float32)}
    return {**answer, **shares, "biases": biases, "score": np.float32(score)}


def text_of(length):
    return ModelInput({"source": np.arange(length)}, {"source": length}, {"source": np.zeros(length, bool)})


def test_a_score_is_the_target_less_what_it_is_against_at_a_position():
    (job,) = jobs_of(vit(), PIXELS, query_of(method="libra", against={"index": 2}), Target(1, (), 4), None)
    assert {name: one.tolist() for name, one in job.controls.items()} == {"explained": 1, "against": 2, "position": 4}
    (job,) = jobs_of(vit(), PIXELS, query_of(method="libra"), Target(-1, ()), None)
    assert (job.controls["explained"], job.controls["against"], job.layers) == (-1, -1, ())


def test_relevance_is_told_its_rows_and_layers():
    query = query_of(method="relevance", layers=[2, 1])
    (job,) = jobs_of(vit(), PIXELS, query, Target(0, (3, 1)), None)
    assert (job.controls["rows"].tolist(), job.layers) == ([3, 1], (1, 2))


def test_a_path_has_points_between_its_ends_and_the_ends_themselves():
    query = query_of(method="integrated", steps=4)
    jobs = jobs_of(vit(), PIXELS, query, Target(0, ()), None, path_of(query))
    assert [float(job.controls["point"]) for job in jobs] == [0.125, 0.375, 0.625, 0.875, 1, 0]
    assert len(jobs) == query.runs
    assert all(job.controls["point"].dtype == np.float32 and job.controls["blank"] == 1 for job in jobs)
    assert not any(job.controls["baseline.pixels"].any() for job in jobs)


def test_an_embedding_is_compared_with_the_other():
    query = query_of(embedder(), method="libra", against={"text": "a"})
    (job,) = jobs_of(embedder(), text_of(3), query, Target(-1, ()), np.arange(4.0))
    assert job.controls["other"].tolist() == [0, 1, 2, 3]


async def test_runs_of_many_targets_wait_in_groups_and_come_back_in_order(monkeypatch):
    monkeypatch.setattr(gradients, "MOST_JOBS", 8)
    sizes = []

    class Counting(Model):
        async def explain_scores(self, method, jobs, caller):
            sizes.append(len(jobs))
            return [
                {"encoder": np.full(TOKENS, job.controls["explained"], float), "score": np.float32(0)} for job in jobs
            ]

    targets = [Target(number, ()) for number in range(5)]
    query = query_of(method="integrated", steps=2)
    found = await explain_scores(Counting(vit(), []), PIXELS, query, targets, NOBODY)
    assert sizes == [8, 8, 4]
    assert [one.values["encoder"][0, 0, 0] for one in found] == [0, 1, 2, 3, 4]
    sizes.clear()
    await explain_scores(Counting(vit(), []), PIXELS, query_of(method="integrated", steps=9), targets[:2], "batch")
    assert sizes == [11, 11]


@pytest.mark.parametrize("asked", [{}, {"steps": 16}])
async def test_a_path_whose_points_are_too_few_gets_three_times_as_many_and_the_first_count_among_them(asked):
    points = []

    class Bent(Model):
        async def explain_scores(self, method, jobs, caller):
            own = [float(job.controls["point"]) for job in jobs]
            points.extend(own)
            return [{"encoder": np.full(TOKENS, peak(one) / TOKENS), "score": np.float32(one == 1)} for one in own]

    def peak(point):
        return 20.0 * (abs(point - 0.5) < 1 / 40)  # which none of 16 points meets, and two of 48

    query = query_of(method="integrated", **asked)
    (one,) = await explain_scores(Bent(vit(), []), PIXELS, query, [Target(0, ())], NOBODY)
    middles = [point for point in points if point not in (0, 1)]
    steps = one.figures[0]["steps"]
    assert sorted(middles) == pytest.approx([(index + 0.5) / steps for index in range(steps)])
    expected = np.mean([peak(point) for point in middles])
    assert one.values["encoder"].sum() == pytest.approx(expected, rel=1e-6)
    found = one.figures[0]["completeness"]
    assert found["tokens"] == pytest.approx(expected, rel=1e-6)
    assert found["error"] == pytest.approx(expected - 1, rel=1e-5)
    assert found["relative_error"] == pytest.approx(abs(expected - 1), rel=1e-5)
    assert steps == asked.get("steps", 48)
    assert len(points) == query.runs


async def test_libra_returns_the_layers_asked_for_in_that_order_and_how_each_adds_up():
    found = libra_of(score=3.5)
    query = query_of(method="libra", layers=[2, 0])
    (one,) = await explain_scores(Model(vit(), [found]), PIXELS, query, [Target(1, ())], NOBODY)
    assert np.array_equal(one.values["encoder"], found["encoder"][[2, 0]][:, None])
    for layer, figures in zip((2, 0), one.figures, strict=True):
        conserved = figures["conserved"]
        assert conserved["tokens"] == pytest.approx(found["encoder"][layer].sum(), abs=1e-6)
        assert conserved["biases"] == pytest.approx(found["biases"][layer], abs=1e-6)
        assert conserved["tokens"] + conserved["biases"] == pytest.approx(conserved["score"], abs=1e-5)
    shown = maps_of(query, one, {"target": {"index": 1}})
    assert [own.entry["layer"] for own in shown] == [2, 0]
    assert shown[0].entry == {
        "name": "encoder", "kind": "encoder", "layer": 2, "heads": "sum", "normalized": False, "signed": True,
        "target": {"index": 1}, "conserved": one.figures[0]["conserved"],
    }  # fmt: skip
    assert (shown[0].rows, shown[0].values.shape) == (None, (1, 1, TOKENS))


async def test_what_adds_up_names_the_precision_of_its_graph_where_that_is_another():
    model = vit().model_copy(update={"precision": "int8", "explained": "fp32"})
    (one,) = await explain_scores(
        Model(model, [libra_of()]), PIXELS, query_of(method="libra"), [Target(1, ())], "batch"
    )
    assert one.figures[0]["conserved"]["precision"] == "fp32"


async def test_the_shares_of_all_kinds_add_up_whichever_are_shown():
    found = libra_of(kinds=("cross", "decoder"), layers=1)
    query = query_of(translator(), method="libra", kind="cross")
    (one,) = await explain_scores(Model(translator(), [found]), PIXELS, query, [Target(1, (2,))], "batch")
    conserved = one.figures[0]["conserved"]
    assert conserved["tokens"] == pytest.approx(found["cross"].sum() + found["decoder"].sum(), abs=1e-5)
    assert [own.kind.kind for own in maps_of_tokens(query, [one], [[{}]])] == ["cross"]


async def test_integrated_is_the_mean_over_the_path_and_says_how_far_it_is_from_complete():
    path = [{"encoder": RANDOM.normal(size=TOKENS).astype(np.float32), "score": np.float32(9)} for _ in range(3)]
    ends = [{"encoder": np.full(TOKENS, 99, np.float32), "score": np.float32(score)} for score in (5, 2)]
    query = query_of(method="integrated", steps=3)
    model = Model(vit(), [*path, *ends] * 2)
    one, other = await explain_scores(model, PIXELS, query, [Target(1, ()), Target(0, ())], NOBODY)
    assert np.array_equal(one.values["encoder"], other.values["encoder"])
    wanted = np.mean([own["encoder"] for own in path], 0)
    assert one.values["encoder"][0, 0] == pytest.approx(wanted, abs=1e-6)
    completeness = one.figures[0]["completeness"]
    assert (completeness["score"], completeness["baseline"]) == (5, 2)
    assert completeness["error"] == pytest.approx(wanted.sum() - 3, abs=1e-5)
    assert completeness["tokens"] == pytest.approx(wanted.sum(), abs=1e-5)
    (shown,) = maps_of(query, one, {})
    assert (shown.entry["steps"], shown.entry["baseline"], shown.entry["layer"]) == (3, "empty", None)
    assert [float(job.controls["explained"]) for job in model.jobs[::5]] == [1, 0]


async def test_relevance_of_an_embedding_is_the_mean_row_without_the_identity():
    rows = RANDOM.random((3, 3)).astype(np.float32)
    found = {"embeddings": np.ones(4), "encoder": rows}
    query = query_of(embedder(), method="relevance", against={"text": "a"})
    (one,) = await explain_scores(Model(embedder(), [found]), text_of(3), query, [Target(-1, (0, 1, 2))], "batch")
    assert one.values["encoder"][0, 0] == pytest.approx((rows - np.eye(3)).mean(0), abs=1e-6)
    (shown,) = maps_of(query, one, {})
    assert (shown.entry["queries"], shown.rows) == (None, None)
    asked = query_of(embedder(), method="relevance", against={"text": "a"}, queries=[0, 1, 2])
    (one,) = await explain_scores(Model(embedder(), [found]), text_of(3), asked, [Target(-1, (0, 1, 2))], "batch")
    (shown,) = maps_of(asked, one, {})
    assert np.array_equal(shown.values[0], rows)
    assert shown.rows == (0, 1, 2)
    assert "queries" not in shown.entry


async def test_a_mean_is_of_rows_without_what_each_of_them_starts_from(monkeypatch):
    rows, identity = RANDOM.random((2, 3, 3)).astype(np.float32)
    monkeypatch.setattr(gradients, "identity_rows", lambda *given: identity)
    found = {"embeddings": np.ones(4), "encoder": rows}
    query = query_of(embedder(), method="relevance", against={"text": "a"})
    (one,) = await explain_scores(Model(embedder(), [found]), text_of(3), query, [Target(-1, (0, 1, 2))], "batch")
    assert one.values["encoder"][0, 0] == pytest.approx((rows - identity).mean(0), abs=1e-6)


def explained(**values):
    """What was found of one layer, with these values of kinds."""
    return Explained(Target(5, (1,)), {kind: np.array([[own]], float) for kind, own in values.items()}, [{}], None)


def test_parts_are_sums_of_columns_and_shares_of_their_absolute_sum():
    one = explained(cross=[1, -3], decoder=[2, -1, 0])
    columns = {"source": ("cross", slice(None)), "prefix": ("decoder", slice(1, None)), "start": ("decoder", slice(1))}
    (parts,) = parts_of(one, columns)
    assert parts == {
        "source": {"sum": -2.0, "share": 4 / 7}, "prefix": {"sum": -1.0, "share": 1 / 7},
        "start": {"sum": 2.0, "share": 2 / 7},
    }  # fmt: skip
    (parts,) = parts_of(explained(cross=[0, 0], decoder=[0, 0, 0]), columns)
    assert [part["share"] for part in parts.values()] == [0, 0, 0]


def test_generated_tokens_are_rows_of_one_map_a_kind_and_layer():
    query = query_of(continuer(), method="libra", layers=[1, 2])
    values = [RANDOM.normal(size=(2, 1, 4)) for _ in range(3)]
    found = [
        Explained(Target(7, (row,), row, row), {"decoder": own}, [{"conserved": 1}, {"conserved": 2}], None)
        for row, own in enumerate(values)
    ]
    entries = [[{"position": row, "at": layer} for layer in (1, 2)] for row in range(3)]
    first, second = maps_of_tokens(query, found, entries)
    assert (first.values.shape, first.rows, first.entry["layer"], second.entry["layer"]) == ((1, 3, 4), (0, 1, 2), 1, 2)
    for index, shown in enumerate((first, second)):
        assert np.array_equal(shown.values[0], np.concatenate([own[index] for own in values]))
        assert shown.entry["targets"] == [{"position": row, "at": index + 1} for row in range(3)]


def test_the_rows_of_a_target_that_is_a_token_are_its_own():
    one = replace(explained(encoder=[1, 2, 3]), target=Target(4, (2,), 0, 0))
    mask = query_of(embedder().model_copy(update={"task": "fill-mask"}), method="libra")
    (shown,) = maps_of(mask, one, {})
    assert shown.rows == (2,)


@pytest.mark.parametrize("started", [True, False])
def test_a_prompt_has_a_start_token_only_if_its_tokenizer_put_one_there(started):
    source = text_of(4)
    source.special["source"][0] = started
    parts = Generator.parts(SimpleNamespace(continues=True), source)
    assert parts["source"] == ("decoder", slice(int(started), 4))
    assert parts["prefix"] == ("decoder", slice(4, None))
    assert parts.get("start") == (("decoder", slice(1)) if started else None)


def test_tokens_of_a_target_that_its_tokenizer_calls_special_are_so_as_its_start_and_its_end_are():
    """A language is such a token, behind the start."""
    start, language, word, end = 7, 5, 3, 9
    model = SimpleNamespace(
        start_token=lambda source: start,
        generation=SimpleNamespace(ends=(end,)),
        target_tokenizer=SimpleNamespace(is_special=lambda token: token == language),
        lengths=lambda cost, target: {"target": target},
    )
    fed = Generator.finished(model, text_of(2), [language, end, word, end], query_of(translator()))
    assert fed.arrays["target"].tolist() == [start, language, end, word]
    assert fed.special["target"].tolist() == [True, True, True, False]
    assert fed.arrays["answered"].tolist() == [3], "logits are read of the row that emits the last token"
