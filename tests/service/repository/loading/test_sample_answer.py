"""The sample that a model answers before it is served."""

import numpy as np
import pytest

from contract.artifact import read_artifact
from service.explanations.score import baselines_of
from service.inputs import text_inputs
from service.repository.loading import sample_answer
from service.repository.loading.sample_answer import answer_sample
from service.repository.models.tasks import TASKS
from service.settings import Settings


@pytest.fixture(params=["digits", "dates", "captions-soft"])
def served(request, artifacts, captions):
    folder = (captions if request.param == "captions-soft" else artifacts) / request.param / "1"
    artifact = read_artifact(folder)
    return TASKS[artifact.manifest.task](artifact, "cpu", Settings())


def test_a_sound_model_runs_every_role_and_shows_every_method(served, monkeypatch):
    ran, shown = set(), []
    show = sample_answer._show
    monkeypatch.setattr(sample_answer, "_show", lambda answer: (shown.append(answer.query.method), show(answer)))
    for role, session in served.sessions.items():
        for function in (session.run, session.bind):

            def noted(*arguments, role=role, function=function):
                ran.add(role)
                return function(*arguments)

            monkeypatch.setattr(session, function.__name__, noted)
    answer_sample(served)
    assert ran == served.sessions.keys()
    assert set(shown) == {method for kind in served.manifest.attention for method in kind.methods}
    assert shown.count("integrated") == len(baselines_of(served.manifest))


def test_methods_are_left_out_once_it_took_long_enough(served, monkeypatch):
    shown = []
    monkeypatch.setattr(sample_answer, "ENOUGH_SECONDS", 0.0)
    monkeypatch.setattr(sample_answer, "_show", shown.append)
    answer_sample(served)
    assert shown == []


def test_an_answer_that_is_not_finite_is_no_answer(served, monkeypatch):
    session = served.sessions["predict" if "predict" in served.sessions else "attention"]
    run = session.run
    monkeypatch.setattr(
        session, "run", lambda feed: {name: array * np.float32("nan") for name, array in run(feed).items()}
    )
    with pytest.raises(Exception, match="finite"):
        answer_sample(served)


def test_a_tokenizer_without_the_sample_texts_is_asked_for_its_own_entries(artifacts, monkeypatch):
    artifact = read_artifact(artifacts / "dates" / "1")
    monkeypatch.setattr(text_inputs, "SAMPLE_TEXTS", ("",))
    answer_sample(TASKS[artifact.manifest.task](artifact, "cpu", Settings()))
