import functools

from fastapi.testclient import TestClient

from service.app import create_app
from service.options import GenerateOptions
from service.repository.registry import load
from service.settings import Settings
from service.store import open_store


def test_texts_that_a_full_queue_refuses_are_not_tokenized(artifacts, monkeypatch):
    """How long texts are is guessed by those that came before, so that a full queue refuses for next to nothing."""
    settings, seen = Settings(artifacts=artifacts), []
    models = load(settings)
    dates = models["dates"]
    tokenizer = dates.inputs.tokenizer
    encode = tokenizer.encode
    monkeypatch.setattr(tokenizer, "encode", lambda text, **options: seen.append(text) or encode(text, **options))
    with TestClient(create_app(settings, models, open_store(settings))) as client:
        while client.get("/health/ready").status_code != 200:
            pass
        ask = functools.partial(client.post, "/v1/models/dates/generate", json={"inputs": ["3 May 2021"] * 8})
        answer = ask()
        assert answer.status_code == 200
        assert seen.pop() == "3 May 2021"
        seen.clear()
        cost = 8 * (len("3 May 2021") + 2 + dates.limit(GenerateOptions(), 1) * dates.generation.num_beams)
        guessed = dates.likely_cost([{"source": tokenizer.estimated_tokens("3 May 2021")}] * 8, GenerateOptions())
        assert cost * 0.9 <= guessed <= cost
        with dates.prediction_budget.permit(dates.prediction_budget.limit - guessed + 1):
            refused = ask()
        assert (refused.status_code, seen) == (429, [])
        with dates.prediction_budget.permit(dates.prediction_budget.limit - cost):
            assert ask().status_code == 200
        assert dates.prediction_budget.held == 0
