import asyncio
import functools
import json

import pytest

from service.app import create_app
from service.http import repeated_requests
from service.options.generation import GenerateOptions
from service.repository.loading.load import load
from service.settings import Settings
from service.store import open_store
from tests.samples.full_queue import queue_filled
from tests.samples.in_process import inside


@pytest.fixture(autouse=True)
def each_request_is_judged_anew(monkeypatch):
    monkeypatch.setattr(repeated_requests, "SECONDS", 0)


def test_texts_that_a_full_queue_refuses_are_not_tokenized(artifacts, monkeypatch):
    """How long texts are is guessed by those that came before, so that a full queue refuses for next to nothing."""
    seen = []
    with inside(artifacts, request_seconds=3600) as (client, models):
        dates = models["dates"]
        tokenizer = dates.inputs.tokenizer
        encode = tokenizer.encode
        monkeypatch.setattr(tokenizer, "encode", lambda text, **options: seen.append(text) or encode(text, **options))
        ask = functools.partial(client.post, "/v1/models/dates/generate", json={"inputs": ["3 May 2021"] * 8})
        answer = ask()
        assert answer.status_code == 200
        assert seen.pop() == "3 May 2021"
        seen.clear()
        cost = 8 * (len("3 May 2021") + 2 + dates.limit(GenerateOptions(), 1) * dates.generation.num_beams)
        guessed = dates.likely_cost([{"source": tokenizer.estimated_tokens("3 May 2021")}] * 8, GenerateOptions())
        assert cost * 0.9 <= guessed <= cost
        with queue_filled(dates.prediction_budget, guessed - 1):
            refused = ask()
        assert (refused.status_code, seen) == (429, [])
        with queue_filled(dates.prediction_budget, cost):
            assert ask().status_code == 200
        assert dates.prediction_budget.held == 0


def test_alternatives_are_counted_before_anything_runs(artifacts):
    with inside(artifacts, max_answer_bytes=20_000) as (client, _):
        asked = {"inputs": ["3 May 2021"] * 2, "max_new_tokens": 8, "alternatives": 20}
        refused = client.post("/v1/models/dates/generate", json=asked)
        assert (refused.status_code, refused.json()["detail"]) == (
            413,
            "alternatives: at most 20000 bytes an answer, this one would have 25600; "
            "ask for fewer alternatives, max_new_tokens or inputs",
        )
        found = client.post("/v1/models/dates/generate", json={**asked, "alternatives": 15})
        assert found.status_code == 200
        (one, _) = (result["tokens"] for result in found.json()["results"])
        assert len(json.dumps([token["alternatives"] for token in one])) < 20_000


def test_words_to_avoid_become_tokens_once_a_request(artifacts, monkeypatch):
    asked = []
    body = {"inputs": ["3 May 2021", "4 May 2021"], "bad_words": ["7"], "top_k": 4, "num_return_sequences": 3}
    with inside(artifacts) as (client, models):
        tokenizer = models["dates"].target_tokenizer
        spellings = tokenizer.spellings
        monkeypatch.setattr(tokenizer, "spellings", lambda word: asked.append(word) or spellings(word))
        assert client.post("/v1/models/dates/generate", json=body).status_code == 200
    assert asked == ["7"]


def test_a_stream_with_steps_is_admitted_for_a_run_of_each_token(artifacts, monkeypatch):
    admitted = []
    body = {
        "inputs": "3 May 2021",
        "stream": True,
        "max_new_tokens": 8,
        "attention": {"method": "raw", "kind": "cross"},
    }
    with inside(artifacts) as (client, models):
        budget = models["dates"].attention_budget
        permit = budget.permit
        monkeypatch.setattr(budget, "permit", lambda cost, *more: admitted.append(cost) or permit(cost, *more))
        for steps in (False, True):
            answer = client.post(
                "/v1/models/dates/generate", json=body | {"attention": {**body["attention"], "steps": steps}}
            )
            assert answer.status_code == 200
            assert answer.text.count('"attention"') == 1 + answer.text.count("event: token") * steps
    once, with_steps = admitted
    assert with_steps == (1 + 8) * once


@pytest.mark.anyio
async def test_a_client_that_does_not_read_its_stream_holds_no_queue(artifacts):
    """A slow reader once held the queue's tokens and maps until its last event was sent, while the device idled."""
    settings = Settings(artifacts=artifacts)
    models = load(settings)
    dates = models["dates"]
    app = create_app(settings, models, open_store(settings))
    body = {"inputs": "3 May 2021", "stream": True, "attention": {"method": "raw", "kind": "cross", "steps": True}}
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST",
        "path": "/v1/models/dates/generate", "raw_path": b"/v1/models/dates/generate", "query_string": b"",
        "root_path": "", "scheme": "http", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        "headers": [(b"host", b"x"), (b"content-type", b"application/json")],
    }  # fmt: skip
    messages = [{"type": "http.request", "body": json.dumps(body).encode()}]
    reads, sent = asyncio.Event(), []

    async def receive():
        return messages.pop() if messages else await asyncio.Future()

    async def send(message):
        sent.append(message.get("body", b""))
        await reads.wait()

    async with app.router.lifespan_context(app):
        state = app.state.regard
        while not state.ready:  # noqa: ASYNC110 # no event tells
            await asyncio.sleep(0.01)
        answering = asyncio.create_task(app(scope, receive, send))
        while not (state.unread.held and dates.uses.idle.is_set()):
            assert not answering.done(), sent
            await asyncio.sleep(0.01)
        assert (dates.prediction_budget.held, dates.attention_budget.held) == (0, 0)
        assert sent == [b""], "nothing but the head was sent"
        reads.set()
        await answering
        assert b"event: done" in b"".join(sent)
        assert state.unread.held == 0
