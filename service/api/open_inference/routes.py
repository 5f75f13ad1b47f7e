"""The endpoints of the Open Inference Protocol."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from service.answering.call import Answered, Call, answer, check_ready, find
from service.api import responses
from service.api.open_inference.descriptions import model_config, model_metadata, server_metadata
from service.api.open_inference.infer_request import JSON_LENGTH, InferRequest, read_infer_request
from service.api.open_inference.outputs import (
    attention_query,
    document_of,
    tensors_of,
    wanted_of,
)
from service.api.reading.json_body import JsonBody
from service.api.reading.request_parsing import RAW, check_encoding, read_body
from service.api.tasks.table import task_of
from service.api.tasks.tensors import Row
from service.errors import NotFound, TooSlow, Unacceptable
from service.http.exchange import exchange_of
from service.repository.models.served_model import ServedModel
from service.state import State, StateDep

MOST_MANAGEMENT_BYTES = 1 << 16
"""Of the body of a request to the repository."""
TAG = "Open Inference Protocol"
VERSION = "/v2/models/{model}/versions/{version}"
router, index, management = (APIRouter(tags=[TAG]) for _ in range(3))
"""What is predicted and described; the index of the repository; and loading and unloading, for administrators."""


def error(
    status: int, detail: str, errors: Sequence[Mapping[str, str]] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as the protocol has it. It does not know 422, for which it says 400."""
    return Response(orjson.dumps({"error": detail}), 400 if status == 422 else status, headers, "application/json")


@router.get("/v2", operation_id="open_inference_server_metadata")
async def server() -> Response:
    """Return the metadata of the server."""
    return responses.respond(server_metadata())


router.add_api_route("/v2/", server, include_in_schema=False)


@router.get("/v2/health/live", operation_id="open_inference_server_live")
async def live(state: StateDep) -> Response:
    """Answer 200 while the process answers and its device comes back from what it runs."""
    state.check_live()
    return responses.respond({"live": True})


@router.get("/v2/health/ready", operation_id="open_inference_server_ready")
async def ready(state: StateDep) -> Response:
    """Answer 200 once every session has run once, until the service is told to stop."""
    state.check_ready()
    return responses.respond({"ready": True, "live": True})


@router.get("/v2/models", operation_id="open_inference_list_models")
async def models(state: StateDep) -> Response:
    """List the names of the models that are loaded."""
    return responses.respond({"models": list(state.models)})


@router.get("/v2/models/{model}", operation_id="open_inference_model_metadata")
async def metadata(model: str, state: StateDep) -> Response:
    """Return what a model takes and answers, and the outputs of attention that a request may name."""
    return responses.respond(model_metadata(find(state, model)))


@router.get("/v2/models/{model}/ready", operation_id="open_inference_model_ready")
async def model_ready(model: str, state: StateDep) -> Response:
    """Answer 200 once a model can run."""
    check_ready(find(state, model))
    return responses.respond({"name": model, "ready": True})


@router.get("/v2/models/{model}/config", operation_id="open_inference_model_config")
async def config(model: str, state: StateDep) -> Response:
    """Return the configuration of a model, in the form of Triton's."""
    return responses.respond(model_config(find(state, model)))


@router.post("/v2/models/{model}/infer", operation_id="open_inference_infer")
async def infer(model: str, request: Request, state: StateDep) -> Response:
    """Predict; attention is computed only for outputs that the request names."""
    served = find(state, model)
    check_ready(served)
    return await answer(request, state, served, _infer(request, state, served))


@router.get(VERSION, operation_id="open_inference_version_metadata")
async def version_metadata(model: str, version: str, state: StateDep) -> Response:
    """Return the metadata of a version of a model."""
    check_version(state, model, version)
    return await metadata(model, state)


@router.get(f"{VERSION}/ready", operation_id="open_inference_version_ready")
async def version_ready(model: str, version: str, state: StateDep) -> Response:
    """Answer 200 once a version of a model can run."""
    check_version(state, model, version)
    return await model_ready(model, state)


@router.get(f"{VERSION}/config", operation_id="open_inference_version_config")
async def version_config(model: str, version: str, state: StateDep) -> Response:
    """Return the configuration of a version of a model."""
    check_version(state, model, version)
    return await config(model, state)


@router.post(f"{VERSION}/infer", operation_id="open_inference_version_infer")
async def version_infer(model: str, version: str, request: Request, state: StateDep) -> Response:
    """Predict by a version of a model."""
    check_version(state, model, version)
    return await infer(model, request, state)


@index.post("/v2/repository/index", operation_id="open_inference_repository_index")
async def repository_index(request: Request, state: StateDep) -> Response:
    """List every version of every model in the folder of artifacts, and whether it is served."""
    document = await _read_management(request, {"ready"})
    only_ready = document.get("ready", False)
    if not isinstance(only_ready, bool):
        raise Unacceptable("ready: must be true or false")
    found = await state.models.index()
    return responses.respond([one for one in found if one["state"] == "READY" or not only_ready])


@management.post(
    "/v2/repository/models/{model}/load", operation_id="open_inference_load_model", response_class=Response
)
async def load(model: str, request: Request, state: StateDep) -> Response:
    """Load the newest version of a model from the folder of artifacts, beside the one that is served, and swap."""
    document = await _read_management(request, {"parameters"})
    if document.get("parameters"):
        raise Unacceptable("parameters: cannot be given, artifacts come from the folder of the service")
    _check_alone(state)
    outcome = await state.models.load(model)
    if outcome["outcome"] == "refused":
        raise Unacceptable(f"artifact: {outcome['reason']}")
    return Response()


@management.post(
    "/v2/repository/models/{model}/unload", operation_id="open_inference_unload_model", response_class=Response
)
async def unload(model: str, request: Request, state: StateDep) -> Response:
    """Stop serving a model once its requests are answered; a later reload of all loads it again."""
    await _read_management(request, {"parameters"})
    _check_alone(state)
    await state.models.unload(model)
    return Response()


def _check_alone(state: State) -> None:
    """Raise Unacceptable where several processes serve, of which the request reaches one."""
    if state.tell_reload:
        raise Unacceptable("REGARD_WORKERS: must be 1 to load or unload one model; ask POST /admin/reload instead")


def check_version(state: State, model: str, version: str) -> None:
    """Raise NotFound for a model that is not served, or for another version of it."""
    served = find(state, model)
    if version != served.manifest.version:
        raise NotFound(f"version: must be {served.manifest.version}, which is served, given another")


async def _read_management(request: Request, known: set[str]) -> dict[str, object]:
    """Return the document of a request to the repository, {} for an empty body. Raises a Refusal."""
    check_encoding(request)
    body = JsonBody(MOST_MANAGEMENT_BYTES)
    size = 0

    def add(piece: bytes) -> None:
        nonlocal size
        size += len(piece)
        body.add(piece)

    await read_body(request, MOST_MANAGEMENT_BYTES, add)
    document = body.parse() if size else {}
    if document.keys() - known:
        raise Unacceptable(f"body: unknown member; known are {', '.join(sorted(known))}")
    return document


async def _infer(request: Request, state: State, served: ServedModel) -> Response:
    asked = await read_infer_request(request, served, state.settings)
    query = attention_query(served, asked)
    exchange = exchange_of(request.scope)
    try:
        async with asyncio.timeout(asked.seconds):
            task = task_of(served)
            options = asked.parsed.options(task.tensor_options(served))
            call = Call(state, exchange, served, asked.parsed.inputs, query)
            return await task.infer(call, options, _Answer(call, asked))
    except TimeoutError as late:
        raise TooSlow(asked.seconds or state.settings.request_seconds) from late


@dataclass(frozen=True)
class _Answer:
    """Writes the answer to an inference request."""

    call: Call[ServedModel]
    asked: InferRequest

    async def __call__(self, answered: Answered[Row]) -> Response:
        """Return the answer."""
        return await self.call.present(self._write, answered)

    def _write(self, answered: Answered[Row]) -> Response:
        served = self.call.served
        wanted = wanted_of(served, self.asked)
        tensors = tensors_of(served, answered, wanted, self.call.state.settings.max_answer_bytes)
        entries, pieces = [], []
        for output, tensor in zip(wanted, tensors, strict=True):
            entry, data = document_of(tensor, binary=output.binary)
            entries.append(entry)
            pieces.append(data)
        manifest = served.manifest
        document = responses.dump(
            {
                "model_name": manifest.name,
                "model_version": manifest.version,
                "id": answered.id if self.asked.id is None else self.asked.id,
                "outputs": entries,
            }
        )
        if not any(output.binary for output in wanted):
            return Response(document, media_type="application/json")
        headers = {JSON_LENGTH: str(len(document))}
        return Response(b"".join((document, *pieces)), headers=headers, media_type=RAW)
