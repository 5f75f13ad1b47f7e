"""What NVIDIA's `tritonclient.http` calls, with and without asyncio."""

import asyncio
import base64
import json
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import tritonclient.http
import tritonclient.http.aio
from tritonclient.http import InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

DATE, ISO = "the twenty-third of March 2021", "2021-03-23"
EVERY = {"layers": "all", "heads": "all", "queries": "all"}


def client(service):
    return tritonclient.http.InferenceServerClient(service.url.removeprefix("http://"))


def keyed(service):
    return tritonclient.http.InferenceServerClient(service.keyed.url.removeprefix("http://"))


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def tensor(name, elements, *, binary=True, column=True):
    """Return an input of texts or bytes, of shape [n, 1] or [n]."""
    array = np.array(elements, dtype=object)
    array = array[:, None] if column else array
    return InferInput(name, list(array.shape), "BYTES").set_data_from_numpy(array, binary_data=binary)


def picture(service, **options):
    return [tensor("image", [Path(service.picture).read_bytes()], **options)]


def outputs(*names, **options):
    return [InferRequestedOutput(name, **options) for name in names]


def label(result):
    return result.as_numpy("label").ravel()[0].decode()


def native(service, path, body=None, kind="application/json"):
    """Return what our own protocol answers: a document, or the problem document of a refusal."""
    request = urllib.request.Request(service.url + path, body, {"Content-Type": kind} if body else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def refused(call, *arguments, **options):
    """Return the status and the sentence of a refusal."""
    try:
        call(*arguments, **options)
    except InferenceServerException as error:
        return int(error.status()), error.message()
    raise AssertionError("it was not refused")


def server_is_live(service):
    """The server is live."""
    assert client(service).is_server_live()


def server_is_ready(service):
    """The server is ready."""
    assert client(service).is_server_ready()


def model_is_ready(service):
    """A model is ready, an unknown one is not."""
    assert client(service).is_model_ready(service.images)
    assert client(service).is_model_ready(service.images, "1")
    assert not client(service).is_model_ready("none")
    assert not client(service).is_model_ready(service.images, "999")


def server_metadata(service):
    """The server's metadata names it and its extensions."""
    metadata = client(service).get_server_metadata()
    assert metadata["name"] == "regard"
    assert {"binary_tensor_data", "classification", "model_configuration"} <= set(metadata["extensions"])
    assert "statistics" not in metadata["extensions"]
    assert metadata["version"]


def model_metadata(service):
    """A model's metadata lists its inputs, outputs and attention."""
    metadata = client(service).get_model_metadata(service.images)
    assert metadata["name"] == service.images
    assert metadata["versions"] == ["1"]
    assert metadata["platform"] == "onnxruntime_onnx"
    assert metadata["inputs"] == [{"name": "image", "datatype": "BYTES", "shape": [-1, 1]}]
    assert [(one["name"], one["datatype"]) for one in metadata["outputs"]] == [
        ("probabilities", "FP32"),
        ("label", "BYTES"),
    ]
    assert {one["name"] for one in metadata["attention"]} == {"attention", "attention.encoder"}
    assert client(service).get_model_metadata(service.images, "1") == metadata


def unknown_model(service):
    """An unknown model is a 404 with the sentence of our own protocol."""
    for call in (client(service).get_model_metadata, client(service).get_model_config):
        assert refused(call, "none") == (404, native(service, "/v1/models/none")["detail"])
    assert refused(client(service).get_model_metadata, service.images, "999")[0] == 404


def model_config(service):
    """A model's configuration has only what its metadata has, without the batch."""
    config = client(service).get_model_config(service.images)
    metadata = client(service).get_model_metadata(service.images)
    assert config["name"] == service.images
    assert config["backend"] == "onnxruntime"
    assert config["max_batch_size"] > 0
    for one, of_metadata in (("input", "inputs"), ("output", "outputs")):
        shapes = {tensor["name"]: tensor["shape"][1:] for tensor in metadata[of_metadata]}
        assert {tensor["name"]: tensor["dims"] for tensor in config[one]} == shapes
    assert config["input"][0]["data_type"] == "TYPE_STRING"


def repository_index(service):
    """The index of the repository has every model with its state."""
    index = client(service).get_model_repository_index()
    known = {(one["name"], one["version"], one["state"]) for one in index}
    assert (service.images, "1", "READY") in known
    assert (service.seq2seq, "1", "READY") in known


def load_and_unload_are_not_there_without_keys(service):
    """Without keys nobody can load or unload a model."""
    assert refused(client(service).load_model, service.images)[0] == 404
    assert refused(client(service).unload_model, service.images)[0] == 404
    assert client(service).is_model_ready(service.images)


def load_and_unload_need_the_admin_scope(service):
    """A key of the scope predict cannot load or unload a model, no key neither."""
    with keyed(service) as triton:
        assert refused(triton.unload_model, service.images)[0] == 401
        for call in (triton.load_model, triton.unload_model):
            status, sentence = refused(call, service.images, headers=bearer(service.keyed.predict))
            assert status == 403
            assert "admin" in sentence


def an_admin_unloads_and_loads_a_model(service):
    """An admin unloads a model and loads it again."""
    admin, predict = bearer(service.keyed.admin), bearer(service.keyed.predict)
    with keyed(service) as triton:
        triton.unload_model(service.images, headers=admin)
        try:
            assert not triton.is_model_ready(service.images, headers=predict)
            index = triton.get_model_repository_index(headers=predict)
            assert [one["state"] for one in index if one["name"] == service.images] == ["UNAVAILABLE"]
        finally:
            triton.load_model(service.images, headers=admin)
        assert triton.is_model_ready(service.images, headers=predict)
        assert label(triton.infer(service.images, picture(service), headers=predict)) == "7"


def a_client_cannot_bring_a_model(service):
    """A configuration or files of a client's own are refused."""
    admin = bearer(service.keyed.admin)
    with keyed(service) as triton:
        status, sentence = refused(triton.load_model, service.images, headers=admin, config='{"backend": "python"}')
        assert status == 400
        assert "cannot be given" in sentence
        assert refused(triton.load_model, "none", headers=admin)[0] == 400
        assert refused(triton.unload_model, "none", headers=admin)[0] == 400


def an_image_in_binary(service):
    """An image as bytes after the JSON; all outputs come back in binary."""
    result = client(service).infer(service.images, picture(service))
    assert label(result) == "7"
    probabilities = result.as_numpy("probabilities")
    assert probabilities.shape == (1, 10)
    assert probabilities.dtype == np.float32
    assert all("binary_data_size" in one["parameters"] for one in result.get_response()["outputs"])
    assert result.get_response()["model_name"] == service.images
    assert result.get_response()["model_version"] == "1"


def the_numbers_are_those_of_our_own_protocol(service):
    """The probabilities are those that our own protocol answers."""
    path = f"/v1/models/{service.images}/classify?top_k=10"
    labels = native(service, path, Path(service.picture).read_bytes(), "image/png")["results"][0]["labels"]
    ours = [one["probability"] for one in sorted(labels, key=lambda one: one["index"])]
    theirs = client(service).infer(service.images, picture(service)).as_numpy("probabilities")[0]
    assert np.allclose(theirs, ours, atol=1e-6)


def an_image_in_json(service):
    """An image as base64 within the JSON; the outputs that are named come back in JSON."""
    text = base64.b64encode(Path(service.picture).read_bytes()).decode()
    wanted = outputs("label", "probabilities", binary_data=False)
    result = client(service).infer(service.images, [tensor("image", [text], binary=False)], outputs=wanted)
    assert [one["name"] for one in result.get_response()["outputs"]] == ["label", "probabilities"]
    assert result.get_response()["outputs"][0]["data"] == ["7"]
    assert abs(result.as_numpy("probabilities").sum() - 1) < 1e-5


def an_output_in_each_form(service):
    """One output in binary and one in JSON, in the same answer."""
    wanted = outputs("label", binary_data=False) + outputs("probabilities", binary_data=True)
    result = client(service).infer(service.images, picture(service), outputs=wanted)
    assert result.get_output("label")["data"] == ["7"]
    assert result.as_numpy("probabilities").argmax() == 7


def one_output_alone(service):
    """Only the output that is named comes back."""
    result = client(service).infer(service.images, picture(service), outputs=outputs("probabilities"))
    assert [one["name"] for one in result.get_response()["outputs"]] == ["probabilities"]


def several_images(service):
    """Several images in one request, of shape [n, 1] and of shape [n]."""
    data = Path(service.picture).read_bytes()
    for column in (True, False):
        result = client(service).infer(service.images, [tensor("image", [data] * 3, column=column)])
        assert result.as_numpy("probabilities").shape == (3, 10)
        assert [one.decode() for one in result.as_numpy("label").ravel()] == ["7"] * 3


def a_version(service):
    """A version that is served answers, another one is a 404."""
    assert label(client(service).infer(service.images, picture(service), model_version="1")) == "7"
    assert refused(client(service).infer, service.images, picture(service), model_version="999")[0] == 404


def attention_as_a_tensor(service):
    """Attention as a tensor, once its output is named."""
    wanted = outputs("label", "attention.encoder")
    result = client(service).infer(
        service.images, picture(service), outputs=wanted, parameters={"attention": "raw", **EVERY}
    )
    maps = result.as_numpy("attention.encoder")
    assert maps.shape == (1, 4, 4, 50, 50)
    assert np.allclose(maps.sum(-1), 1, atol=1e-4)
    assert label(result) == "7"


def attention_as_a_document(service):
    """Attention as the JSON document of our own protocol, by a method."""
    result = client(service).infer(
        service.images, picture(service), outputs=outputs("attention"), parameters={"attention": "rollout"}
    )
    document = json.loads(result.as_numpy("attention").ravel()[0])
    path = f"/v1/models/{service.images}/attention?method=rollout"
    ours = native(service, path, Path(service.picture).read_bytes(), "image/png")["results"][0]["attention"]
    assert document["method"] == "rollout"
    assert document["maps"][0]["shape"] == [1, 1, 50]
    assert document == ours


def attention_is_not_computed_unasked(service):
    """Without outputs, predictions alone come back."""
    result = client(service).infer(service.images, picture(service))
    assert [one["name"] for one in result.get_response()["outputs"]] == ["probabilities", "label"]


def attention_of_a_later_request(service):
    """The X-Request-Id of an answer finds the attention of its input."""
    body, size = tritonclient.http.InferenceServerClient.generate_request_body(picture(service))
    headers = {"Inference-Header-Content-Length": str(size)}
    request = urllib.request.Request(f"{service.url}/v2/models/{service.images}/infer", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = native(service, f"/v1/attention/{answer.headers['X-Request-Id']}?method=rollout")
        sent = answer.headers["Inference-Header-Content-Length"]
        result = tritonclient.http.InferenceServerClient.parse_response_body(answer.read(), header_length=int(sent))
    assert found["results"][0]["attention"]["method"] == "rollout"
    assert label(result) == "7"


def the_classification_extension(service):
    """The likeliest classes as `value:index:label`."""
    wanted = outputs("probabilities", class_count=3)
    classes = client(service).infer(service.images, picture(service), outputs=wanted).as_numpy("probabilities")
    assert classes.shape == (1, 3)
    value, index, name = classes[0, 0].decode().split(":")
    assert (index, name) == ("7", "7")
    assert 0.9 < float(value) <= 1
    assert len(value.partition(".")[2]) == 6


def more_classes_than_there_are(service):
    """More classes than the model has are all of them."""
    wanted = outputs("probabilities", class_count=1000)
    result = client(service).infer(service.images, picture(service), outputs=wanted)
    assert result.as_numpy("probabilities").shape == (1, 10)


def a_request_id(service):
    """The id of a request comes back; without one, the service gives one."""
    assert client(service).infer(service.images, picture(service), request_id="a-7").get_response()["id"] == "a-7"
    assert client(service).infer(service.images, picture(service)).get_response()["id"]


def reserved_parameters(service):
    """A priority, a timeout and a sequence are taken."""
    result = client(service).infer(
        service.images, picture(service), priority=2, timeout=20_000_000, sequence_id=7, sequence_start=True
    )
    assert label(result) == "7"


def several_at_a_time(service):
    """Requests that are sent without waiting for each other's answers."""
    triton = tritonclient.http.InferenceServerClient(service.url.removeprefix("http://"), concurrency=4)
    asked = [triton.async_infer(service.images, picture(service), request_id=str(index)) for index in range(8)]
    answers = [one.get_result() for one in asked]
    assert [one.get_response()["id"] for one in answers] == [str(index) for index in range(8)]
    assert {label(one) for one in answers} == {"7"}


def an_error_of_one_of_several(service):
    """A refusal of a request that was not waited for."""
    asked = client(service).async_infer(service.images, [tensor("image", [b"no picture"])])
    status, sentence = refused(asked.get_result)
    assert (status, sentence.partition(":")[0]) == (415, "image")


def compressed_requests(service):
    """A compressed request is refused, with a sentence."""
    for algorithm in ("gzip", "deflate"):
        status, sentence = refused(
            client(service).infer, service.images, picture(service), request_compression_algorithm=algorithm
        )
        assert status == 415
        assert sentence.lower().startswith("content-encoding")


def compressed_answers(service):
    """A client that would take a compressed answer gets a right one."""
    result = client(service).infer(service.images, picture(service), response_compression_algorithm="gzip")
    assert label(result) == "7"


def options_are_parameters(service):
    """An option that the model does not know is refused by name, with those that it knows."""
    status, sentence = refused(client(service).infer, service.images, picture(service), parameters={"tempo": 3})
    assert status == 400
    assert "unknown option" in sentence
    status, sentence = refused(
        client(service).infer, service.images, picture(service), outputs=outputs("attention"), parameters={"layers": 99}
    )
    assert status == 400
    assert sentence.startswith("layers")


def an_unknown_output(service):
    """An unknown output is refused with the names of those that there are."""
    status, sentence = refused(client(service).infer, service.images, picture(service), outputs=outputs("logits"))
    assert status == 400
    assert "probabilities" in sentence


def an_unknown_input(service):
    """An unknown input, one of a wrong type and a missing one are refused."""
    data = Path(service.picture).read_bytes()
    pixels = InferInput("image", [1, 1], "FP32").set_data_from_numpy(np.ones((1, 1), np.float32))
    for wrong in ([tensor("pixels", [data])], [pixels], []):
        status, sentence = refused(client(service).infer, service.images, wrong)
        assert status == 400
        assert ":" in sentence


def bytes_that_are_no_image(service):
    """Bytes that are no image are refused as our own protocol refuses them."""
    ours = native(service, f"/v1/models/{service.images}/classify", b"no picture", "image/png")["detail"]
    status, sentence = refused(client(service).infer, service.images, [tensor("image", [b"no picture"])])
    assert (status, sentence) == (415, ours)


def a_text_becomes_another(service):
    """A text that becomes another one, in binary and in JSON."""
    for binary in (True, False):
        result = client(service).infer(service.seq2seq, [tensor("text", [DATE], binary=binary)])
        assert result.as_numpy("text").ravel()[0].decode() == ISO
        assert result.as_numpy("finish_reason").ravel()[0] == b"stop"
        assert result.as_numpy("score").shape == (1, 1)


def texts_beyond_ascii(service):
    """A text beyond ASCII, in binary and escaped in JSON."""
    text, found = "Grüße, 猫 \u20ac", []
    for binary in (True, False):
        result = client(service).infer(service.embeddings, [tensor("text", [text], binary=binary)])
        found.append(result.as_numpy("embedding"))
    assert np.allclose(*found, atol=1e-6)


def options_of_generation(service):
    """Options of generation: beams, temperature, a seed and a limit."""
    triton, sent = client(service), [tensor("text", [DATE])]
    assert triton.infer(service.seq2seq, sent, parameters={"num_beams": 4}).as_numpy("text")[0, 0].decode() == ISO
    short = triton.infer(service.seq2seq, sent, parameters={"max_new_tokens": 2})
    assert short.as_numpy("finish_reason")[0, 0] == b"length"
    drawn = [triton.infer(service.seq2seq, sent, parameters={"temperature": 0.5, "seed": 3}) for _ in range(2)]
    assert drawn[0].as_numpy("text") == drawn[1].as_numpy("text")


def cross_attention(service):
    """Cross-attention of texts of other lengths, filled with zeros to the longest."""
    sent = [tensor("text", ["3/23/21", DATE])]
    result = client(service).infer(
        service.seq2seq, sent, outputs=outputs("attention.cross", "attention"), parameters={"attention": "raw"}
    )
    maps = result.as_numpy("attention.cross")
    assert maps.ndim == 5
    assert maps.shape[0] == 2
    documents = [json.loads(one) for one in result.as_numpy("attention").ravel()]
    lengths = [next(one["shape"] for one in document["maps"] if one["kind"] == "cross")[-1] for document in documents]
    assert lengths[0] < lengths[1] == maps.shape[-1]
    assert not maps[0, ..., lengths[0] :].any()


def a_text_is_continued(service):
    """A text that is continued."""
    result = client(service).infer(
        service.causal, [tensor("text", ["march 3, 2021 = "])], parameters={"max_new_tokens": 10}
    )
    assert result.as_numpy("text")[0, 0].decode() == "2021-03-03"


def embeddings(service):
    """Embeddings of several texts, which are those of our own protocol."""
    texts = ["A cat sat.", "猫が座った。"]
    ours = native(service, f"/v1/models/{service.embeddings}/embed", json.dumps({"inputs": texts}).encode())
    theirs = client(service).infer(service.embeddings, [tensor("text", texts)]).as_numpy("embedding")
    assert theirs.shape == (2, 384)
    assert np.allclose(theirs, [one["embedding"] for one in ours["results"]], atol=1e-6)


def candidates_of_a_mask(service):
    """The candidates of a mask, as JSON."""
    text = "[MASK]arch 3, 2021 = 2021-03-03"
    result = client(service).infer(service.masks, [tensor("text", [text])], parameters={"top_k": 2})
    ours = native(service, f"/v1/models/{service.masks}/fill-mask", json.dumps({"inputs": text, "top_k": 2}).encode())
    assert json.loads(result.as_numpy("candidates")[0, 0]) == ours["results"][0]["candidates"]


def too_many_inputs(service):
    """More inputs than a request may have are refused."""
    data = Path(service.picture).read_bytes()
    status, sentence = refused(client(service).infer, service.images, [tensor("image", [data] * 33)])
    assert (status, sentence) == (400, "image: must be 1 to 32, given 33")


def not_served(service):
    """Statistics, traces, logs and shared memory, which are not served, are a 404 with a sentence."""
    triton = client(service)
    for call, arguments in (
        (triton.get_inference_statistics, (service.images,)),
        (triton.get_trace_settings, ()),
        (triton.get_log_settings, ()),
        (triton.get_system_shared_memory_status, ()),
        (triton.register_system_shared_memory, ("a", "/a", 16)),
    ):
        status, sentence = refused(call, *arguments)
        assert status == 404
        assert sentence.startswith("path: ")


def shared_memory_is_refused(service):
    """An input in shared memory is refused."""
    shared = InferInput("image", [1, 1], "BYTES")
    shared.set_shared_memory("a", 16)
    status, sentence = refused(client(service).infer, service.images, [shared])
    assert status == 400
    assert ":" in sentence


def keys_are_asked_for(service):
    """Where keys are needed, a request without one is refused and one with a key is answered."""
    with keyed(service) as triton:
        assert triton.is_server_live()
        assert triton.is_server_ready()
        assert refused(triton.infer, service.images, picture(service))[0] == 401
        assert label(triton.infer(service.images, picture(service), headers=bearer(service.keyed.predict))) == "7"


def with_asyncio(call):
    """Return a call that runs a coroutine with the client for asyncio."""

    def run(service):
        async def asked():
            async with tritonclient.http.aio.InferenceServerClient(service.url.removeprefix("http://")) as triton:
                await call(service, triton)

        asyncio.run(asked())

    run.__doc__, run.__name__ = call.__doc__, call.__name__
    return run


@with_asyncio
async def aio_server(service, triton):
    """With asyncio: the server is live and ready, its metadata and index."""
    assert await triton.is_server_live()
    assert await triton.is_server_ready()
    assert (await triton.get_server_metadata())["name"] == "regard"
    assert {one["name"] for one in await triton.get_model_repository_index()} >= {service.images, service.seq2seq}


@with_asyncio
async def aio_model(service, triton):
    """With asyncio: a model is ready, its metadata and configuration."""
    assert await triton.is_model_ready(service.images)
    assert not await triton.is_model_ready("none")
    assert (await triton.get_model_metadata(service.images))["inputs"][0]["name"] == "image"
    assert (await triton.get_model_config(service.images))["max_batch_size"] > 0


@with_asyncio
async def aio_infer(service, triton):
    """With asyncio: images and texts, several at a time."""
    answers = await asyncio.gather(*(triton.infer(service.images, picture(service)) for _ in range(8)))
    assert {label(one) for one in answers} == {"7"}
    result = await triton.infer(service.seq2seq, [tensor("text", [DATE], binary=False)])
    assert result.as_numpy("text")[0, 0].decode() == ISO


@with_asyncio
async def aio_attention(service, triton):
    """With asyncio: attention as a tensor."""
    wanted, options = outputs("attention.encoder"), {"attention": "raw", **EVERY}
    result = await triton.infer(service.images, picture(service), outputs=wanted, parameters=options)
    assert result.as_numpy("attention.encoder").shape == (1, 4, 4, 50, 50)


@with_asyncio
async def aio_errors(service, triton):
    """With asyncio: an unknown model, an unknown output and a compressed request are refused."""
    ours = native(service, "/v1/models/none")["detail"]
    for status, sentence, model, options in (
        (404, ours, "none", {}),
        (400, "outputs", service.images, {"outputs": outputs("logits")}),
        (415, "content-encoding", service.images, {"request_compression_algorithm": "gzip"}),
    ):
        try:
            await triton.infer(model, picture(service), **options)
        except InferenceServerException as error:
            assert int(error.status()) == status, error
            assert error.message().lower().startswith(sentence.lower()), error
        else:
            raise AssertionError(f"{model} {options}: not refused")


@with_asyncio
async def aio_load_and_unload(service, triton):
    """With asyncio: nobody can load or unload a model without keys; an admin can."""
    try:
        await triton.unload_model(service.images)
    except InferenceServerException as error:
        assert int(error.status()) == 404
    else:
        raise AssertionError("unloaded without a key")
    admin = bearer(service.keyed.admin)
    async with tritonclient.http.aio.InferenceServerClient(service.keyed.url.removeprefix("http://")) as keyed_triton:
        await keyed_triton.unload_model(service.images, headers=dict(admin))
        await keyed_triton.load_model(service.images, headers=dict(admin))
        assert await keyed_triton.is_model_ready(service.images, headers=dict(admin))
