"""The asynchronous twin: it has every method of the other, and answers the same."""

import inspect
import json

import anyio
import httpx
import numpy as np
import pytest
import regard
from PIL import Image
from regard import AsyncModel, AsyncStream, Model, Stream

from tests.client.conftest import SEVEN, answer, detected, detector, filed, looked, mapped, problem, told
from tests.samples.in_process import in_process

pytestmark = pytest.mark.anyio

DATE = "3/23/21"


def public(kind):
    methods = inspect.getmembers(kind, lambda one: inspect.isfunction(one) or isinstance(one, property))
    return {name: one for name, one in methods if not name.startswith("_")}


@pytest.mark.parametrize(
    ("one", "twin"),
    [(regard.Service, regard.AsyncService), (Model, AsyncModel), (Stream, AsyncStream)],
)
def test_the_twin_has_every_method_with_the_same_options(one, twin):
    ours, theirs = public(one), public(twin)
    assert ours.keys() == theirs.keys()
    for name, method in theirs.items():
        if not isinstance(method, property):
            names = list(inspect.signature(method).parameters)
            assert names == list(inspect.signature(ours[name]).parameters), name


async def test_answers_are_those_of_the_other(address, digits, dates):
    async with regard.AsyncService(address) as service:
        assert {one.name for one in await service.models()} == {"digits", "dates"}
        twin = await service.model("digits")
        found = await twin.classify(SEVEN)
        assert found.labels == digits.classify(SEVEN).labels
        assert [one.labels for one in await twin.classify_batch([SEVEN] * 2)] == [found.labels] * 2
        assert (await twin(SEVEN)).labels == found.labels
        look = await twin.look(found, "rollout")
        wanted = digits.attention(SEVEN, method="rollout").attention
        np.testing.assert_allclose(look.maps[0].values, wanted.maps[0].values, atol=1e-6)
        np.testing.assert_allclose(look.heat(), wanted.heat(), atol=1e-6)
        assert (await twin.image(found, "rollout", width=200)).width == 200
        alone = await twin.attention(SEVEN, method="rollout")
        np.testing.assert_allclose(alone.attention.maps[0].values, wanted.maps[0].values, atol=1e-6)
        assert len(await twin.attention_batch([SEVEN] * 3)) == 3
        writer = await service.model("dates")
        assert (await writer.generate(DATE)).text == dates.generate(DATE).text
        assert [one.text for one in await writer.generate_batch([DATE])] == ["2021-03-23"]


async def test_objects_are_detected_by_the_twin_too():
    results = [{"objects": [detected(3)]}]
    with told(answer(200, json.dumps({"id": "i", "results": results}).encode())) as (url, _):
        async with regard.AsyncService(url) as service:
            twin = AsyncModel(service._transport, detector())
            assert (await twin.detect(SEVEN, threshold=0.5)).objects[0].box.right == 5.5
            assert [one.objects[0].object for one in await twin.detect_batch([SEVEN])] == [3]
            found = await twin(SEVEN)
            with pytest.raises(regard.BadInput, match=r"await model.look"):
                found.heat("raw")
    rows = {"id": "i", "results": [{"attention": looked(mapped(np.ones((1, 2, 6), np.float32), objects=[3, 1]))}]}
    with told(answer(200, json.dumps(rows).encode())) as (url, asked):
        async with regard.AsyncService(url) as service:
            look = await AsyncModel(service._transport, detector()).look(found, "raw", kind="cross")
            assert look.heat(object=3).shape == (8, 12)
    with told(answer(200, filed(Image.new("RGB", (30, 20))), "image/png")) as (url, asked):
        async with regard.AsyncService(url) as service:
            assert (await AsyncModel(service._transport, detector()).image(found)).size == (30, 20)
    assert b"method=raw" in asked[0], "every object that was found is drawn"
    assert b"kind=cross" in asked[0]


async def test_requests_run_beside_one_another(address):
    async with regard.AsyncService(address) as service:
        dates, texts = await service.model("dates"), {}

        async def ask(day):
            texts[day] = (await dates.generate(f"3/{day}/21")).text

        async with anyio.create_task_group() as group:
            for day in range(1, 29):
                group.start_soon(ask, day)
        assert texts == {day: f"2021-03-{day:02}" for day in range(1, 29)}


async def test_tokens_come_one_by_one(address):
    async with regard.AsyncService(address) as service:
        dates = await service.model("dates")
        async with dates.stream(DATE, attention={"kind": "cross", "method": "raw", "steps": True}) as stream:
            found = [token async for token in stream]
        assert "".join(token.text for token in found) == stream.result.text == "2021-03-23"
        assert all(token.maps for token in found)
        async with dates.stream(DATE) as stream:
            assert (await anext(stream)).text == "2"
        with pytest.raises(regard.StreamBroken):
            stream.result  # noqa: B018 # it was left early


async def test_a_stream_that_breaks_holds_what_came(dates):
    token = b'event: token\ndata: {"index": 0, "token": 5, "text": "2"}\n\n'
    with told(answer(200, token, "text/event-stream")) as (url, _):
        async with regard.AsyncService(url) as service:
            stream = AsyncModel(service._transport, dates.description).stream(DATE)
            with pytest.raises(regard.StreamBroken) as caught:
                [token async for token in stream]
    assert caught.value.text == "2"


async def test_refusals_are_retried_and_errors_are_the_same(address, dates):
    models = b'{"models": []}'
    with told(problem(429, retry_after="0.1"), problem(503, retry_after="0"), answer(200, models)) as (url, asked):
        async with regard.AsyncService(url) as service:
            assert await service.models() == []
        assert len(asked) == 3
    with told(problem(429, retry_after="60")) as (url, asked):
        async with regard.AsyncService(url) as service:
            with pytest.raises(regard.Busy):
                await service.models()
        assert len(asked) == 1
    async with regard.AsyncService("http://127.0.0.1:1") as service:
        with pytest.raises(regard.NoService):
            await service.models()
    async with regard.AsyncService(address) as service:
        with pytest.raises(regard.NotFound, match="digits"):
            await service.model("digts")
        twin = await service.model("dates")
        with pytest.raises(regard.BadInput):
            await twin.generate(3)
        with pytest.raises(regard.InputRefused):
            await twin.generate(DATE, num_beams=-1)


async def test_an_input_that_the_service_does_not_keep_is_sent_again(light):
    with in_process(light, keep_count=0) as client:
        async with regard.AsyncService(str(client.base_url)) as service:
            dates = await service.model("dates")
            assert (await dates.look(await dates.generate(DATE), "raw")).maps
            with pytest.raises(regard.NotFound, match="id:"):
                await dates.look(await dates.generate(DATE, temperature=2.0), "raw")


async def test_the_address_and_the_key_come_from_the_environment(address, monkeypatch):
    monkeypatch.setenv("REGARD_URL", address)
    monkeypatch.setenv("REGARD_KEY", "known")
    async with regard.AsyncService() as service:
        assert service.url == address
        assert await service.models()
        assert isinstance(service._transport.http, httpx.AsyncClient)
        assert service._transport._headers["Authorization"] == "Bearer known"
