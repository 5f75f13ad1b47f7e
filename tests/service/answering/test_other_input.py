"""The other input is admitted with the rest of its request: it costs what an input costs, in each queue."""

import base64

import pytest

from service.http import repeated_requests
from service.inputs.sandbox.decoder_pool import PIXELS_PER_IMAGE
from tests.samples.full_queue import queue_filled
from tests.samples.http_requests import SEVEN
from tests.samples.in_process import inside

INPUTS = 2


@pytest.fixture(autouse=True)
def each_request_is_judged_anew(monkeypatch):
    monkeypatch.setattr(repeated_requests, "SECONDS", 0)


@pytest.fixture(scope="module")
def service(dino):
    with inside(dino, request_seconds=3600) as (client, models):
        yield client, models["digits-dino"]


def answered(client, **attention):
    image = base64.b64encode(SEVEN).decode()
    attention = {"method": "libra", "against": {"image": image}, **attention}
    return client.post("/v1/models/digits-dino/embed", json={"images": [image] * INPUTS, "attention": attention})


def with_room(client, budget, cost, **attention):
    """Hold all of a queue but a cost, then one unit more; return the statuses of a request that must cost just that."""
    statuses = []
    for room in (cost, cost - 1):
        with queue_filled(budget, room):
            statuses.append(answered(client, **attention).status_code)
    assert budget.held == 0
    return statuses


CASES = {
    "own side": ({}, INPUTS),
    "both sides": ({"sides": "both"}, 2 * INPUTS),
    "both sides of a path": ({"sides": "both", "method": "integrated", "steps": 3}, 2 * INPUTS * 5),
}


@pytest.mark.parametrize(("asked", "runs"), CASES.values(), ids=CASES)
def test_each_side_costs_the_maps_of_an_input(service, asked, runs):
    client, served = service
    cost = runs * served.footprint.maps(served.inputs.lengths)
    assert with_room(client, served.attention_budget, cost, **asked) == [200, 429]


def test_the_other_input_costs_a_prediction(service):
    client, served = service
    _, cost = served.cost([served.inputs.lengths])
    assert with_room(client, served.prediction_budget, cost) == [200, 429]


def test_the_other_image_costs_what_an_image_costs(service):
    client, _ = service
    budget = client.app.state.regard.decoders.budget
    assert with_room(client, budget, (INPUTS + 1) * (PIXELS_PER_IMAGE + 300 * 220)) == [200, 429]


def test_the_other_input_is_decoded_and_embedded_once(service, monkeypatch):
    client, served = service
    seen = []
    predict, decode = served.predict, client.app.state.regard.decode_file

    async def counted(item, caller):
        seen.append("predict")
        return await predict(item, caller)

    async def decoded(*arguments):
        seen.append("decode")
        return await decode(*arguments)

    monkeypatch.setattr(served, "predict", counted)
    monkeypatch.setattr(client.app.state.regard, "decode_file", decoded)
    assert answered(client, sides="both").status_code == 200
    assert sorted(seen) == ["decode"] * (INPUTS + 1) + ["predict"]
