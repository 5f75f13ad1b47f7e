"""What KServe's `InferenceRESTClient` calls."""

import asyncio
import base64
import functools
import json
from pathlib import Path

import httpx
import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

DATE, ISO = "the twenty-third of March 2021", "2021-03-23"


def with_client(call, protocol="v2"):
    """Return a call that runs a coroutine with a client."""

    @functools.wraps(call)
    def run(service):
        async def asked():
            async with InferenceRESTClient(RESTConfig(protocol=protocol)) as client:
                await call(service, client)

        asyncio.run(asked())

    return run


def with_v1(call):
    """Return a call that runs a coroutine with a client of KServe's older protocol."""
    return with_client(call, "v1")


def tensor(name, elements, *, binary=True):
    """Return an input of texts or bytes, of shape [n]."""
    found = InferInput(name, [len(elements)], "BYTES", parameters={})
    found.set_data_from_numpy(np.array(elements, dtype=object), binary_data=binary)
    return found


def image(service, *, binary=True):
    """Return a request with an image; within JSON it is base64."""
    data = Path(service.picture).read_bytes()
    return InferRequest(
        service.images,
        [tensor("image", [data if binary else base64.b64encode(data).decode()], binary=binary)],
        request_id="a-7",
    )


def values(answer, name):
    return answer.get_output_by_name(name).as_numpy()


async def refused(asked):
    """Return the status and the words of a refusal."""
    try:
        await asked
    except httpx.HTTPStatusError as error:
        return error.response.status_code, str(error).partition(", '")[0]
    raise AssertionError("it was not refused")


@with_client
async def server_is_live(service, client):
    """The server is live."""
    assert await client.is_server_live(service.url) is True


@with_client
async def server_is_ready(service, client):
    """The server is ready."""
    assert await client.is_server_ready(service.url) is True


@with_client
async def model_is_ready(service, client):
    """A model is ready, an unknown one is not."""
    assert await client.is_model_ready(service.url, service.images) is True
    assert await client.is_model_ready(service.url, "none") is False


@with_client
async def an_image_in_json(service, client):
    """An image as base64 within the JSON."""
    answer = await client.infer(service.url, image(service, binary=False), service.images)
    assert (answer.id, answer.model_name) == ("a-7", service.images)
    assert values(answer, "label").ravel().tolist() == ["7"]
    assert values(answer, "probabilities").shape == (1, 10)
    assert values(answer, "probabilities").argmax() == 7


@with_client
async def an_image_in_binary(service, client):
    """An image as bytes after the JSON, answered in JSON."""
    answer = await client.infer(service.url, image(service), service.images)
    assert values(answer, "label").ravel().tolist() == ["7"]
    assert abs(values(answer, "probabilities").sum() - 1) < 1e-5


@with_client
async def binary_outputs(service, client):
    """Outputs in binary, all of them or one."""
    every = image(service)
    every.parameters = {"binary_data_output": True}
    headers = {}
    answer = await client.infer(service.url, every, service.images, response_headers=headers)
    assert "inference-header-content-length" in headers
    assert headers["content-type"] == "application/octet-stream"
    assert values(answer, "probabilities").argmax() == 7
    one = image(service)
    one.request_outputs = [RequestedOutput("probabilities", {"binary_data": True}), RequestedOutput("label")]
    answer = await client.infer(service.url, one, service.images)
    assert [output.name for output in answer.outputs] == ["probabilities", "label"]
    assert values(answer, "probabilities").shape == (1, 10)
    assert values(answer, "label").ravel().tolist() == ["7"]


@with_client
async def a_document(service, client):
    """A request that is written as a document."""
    data = base64.b64encode(Path(service.picture).read_bytes()).decode()
    document = {"inputs": [{"name": "image", "shape": [1, 1], "datatype": "BYTES", "data": [data]}]}
    answer = await client.infer(service.url, document, service.images)
    assert values(answer, "label").ravel().tolist() == ["7"]
    assert answer.id


@with_client
async def several_images(service, client):
    """Several images in one request."""
    data = Path(service.picture).read_bytes()
    answer = await client.infer(
        service.url, InferRequest(service.images, [tensor("image", [data] * 3)]), service.images
    )
    assert values(answer, "probabilities").shape == (3, 10)


@with_client
async def attention_as_a_tensor(service, client):
    """Attention as a tensor and as a document, once their outputs are named."""
    request = image(service)
    request.request_outputs = [RequestedOutput("attention.encoder"), RequestedOutput("attention")]
    request.parameters = {"attention": "raw", "layers": "all", "heads": "all", "queries": "all"}
    answer = await client.infer(service.url, request, service.images)
    maps = values(answer, "attention.encoder")
    assert maps.shape == (1, 4, 4, 50, 50)
    document = json.loads(values(answer, "attention").ravel()[0])
    assert np.allclose(maps[0, 0], document["maps"][0]["values"], atol=1e-4)


@with_client
async def a_text_becomes_another(service, client):
    """A text that becomes another one, with options as parameters."""
    for binary in (True, False):
        request = InferRequest(service.seq2seq, [tensor("text", [DATE], binary=binary)], parameters={"num_beams": 2})
        answer = await client.infer(service.url, request, service.seq2seq)
        assert values(answer, "text").ravel().tolist() == [ISO]


@with_client
async def embeddings_beyond_ascii(service, client):
    """Embeddings of texts beyond ASCII, in JSON that is not escaped and in binary."""
    found = []
    for binary in (True, False):
        request = InferRequest(service.embeddings, [tensor("text", ["Grüße, 猫", "a cat"], binary=binary)])
        found.append(values(await client.infer(service.url, request, service.embeddings), "embedding"))
    assert found[0].shape == (2, 384)
    assert np.allclose(*found, atol=1e-6)


@with_client
async def refusals(service, client):
    """The client shows the sentence of a refusal."""
    status, words = await refused(client.infer(service.url, image(service), "none"))
    assert status == 404
    assert words.startswith("model: ")
    status, words = await refused(
        client.infer(service.url, InferRequest(service.images, [tensor("image", [b"no picture"])]), service.images)
    )
    assert (status, words.partition(":")[0]) == (415, "image")
    unknown = image(service)
    unknown.request_outputs = [RequestedOutput("logits")]
    status, words = await refused(client.infer(service.url, unknown, service.images))
    assert status == 400
    assert "probabilities" in words


@with_client
async def keys_are_asked_for(service, client):
    """Where keys are needed, a request without one is refused and one with a key is answered."""
    status, words = await refused(client.infer(service.keyed.url, image(service), service.images))
    assert status == 401
    assert ":" in words
    headers = {"Authorization": f"Bearer {service.keyed.predict}"}
    answer = await client.infer(service.keyed.url, image(service), service.images, headers=headers)
    assert values(answer, "label").ravel().tolist() == ["7"]


@with_v1
async def older_protocol(service, client):
    """By KServe's older protocol a model is ready, and predicting or explaining is refused."""
    assert await client.is_model_ready(service.url, service.images) is True
    status, _ = await refused(client.infer(service.url, {"instances": [1]}, service.images))
    assert status == 404
    status, _ = await refused(client.explain(service.url, service.images, {"instances": [1]}))
    assert status == 404
