"""The protocol of Hugging Face's pipelines: inputs are posted to a model's own path and answered as its task has it.

`huggingface_hub.InferenceClient(model=".../v1/models/NAME")` speaks it. `texts.py` writes what is generated;
`parameters.py` says which of the clients' parameters are honoured.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from service.answering.call import answer, check_ready, find
from service.api.pipelines.asked import Asked
from service.api.pipelines.parameters import (
    check_client_options,
    merged,
)
from service.api.pipelines.texts import error_type
from service.api.reading.request_parsing import (
    content_type,
    parse_texts,
    read_document,
)
from service.api.reading.sorts import sort_of
from service.api.tasks.table import task_of
from service.repository.models.served_model import Prediction, ServedModel
from service.state import State, StateDep

S = TypeVar("S", bound=ServedModel)
T = TypeVar("T")
Show = Callable[[Prediction], T]

router = APIRouter(tags=["Hugging Face"])
BESIDE = ("info", "health")
"""What InferenceClient asks for beneath the path that it posts to."""
SIMILARITY = {"source_sentence", "sentences"}
"""The members of `inputs` where texts are compared with one."""


def error(
    status: int, detail: str, errors: Sequence[Mapping[str, str]] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as an answer in the form of this protocol."""
    body = {"error": detail, "error_type": error_type(status, "generation")}
    return Response(orjson.dumps(body), int(status), dict(headers or {}), "application/json")


@router.post("/v1/models/{model}", operation_id="hugging_face_pipeline")
async def pipeline(model: str, request: Request, state: StateDep) -> Response:
    """Answer inputs as the pipeline of the model's task does; text generation with `stream` sends tokens as events."""
    served = find(state, model)
    check_ready(served)
    return await answer(request, state, served, _answer(request, state, served))


async def _answer(request: Request, state: State, served: ServedModel) -> Response:
    return await task_of(served).answer_pipeline(await _read(request, state, served), served)


async def _read(request: Request, state: State, served: ServedModel) -> Asked:
    """Read an image, or a JSON document of inputs and parameters. Raises the refusals of `request_parsing`."""
    settings = state.settings
    sort = sort_of(served)
    kind, _ = content_type(request)
    raw = await sort.read_raw(request, kind, settings)
    if raw is not None:
        return Asked(state, request, [raw], {})
    document = await read_document(request, sort.most_bytes(settings), settings)
    inputs, parameters = document.pop("inputs", None), document.pop("parameters", None)
    check_client_options(document.pop("options", None))
    given = merged(parameters, document)
    if served.inputs.tokenizer and served.manifest.task == "feature-extraction" and is_comparison(inputs):
        texts = parse_texts([inputs["source_sentence"], *inputs["sentences"]], settings)
        return Asked(state, request, texts, given, several=True, compared=True)
    several = isinstance(inputs, list)
    return Asked(state, request, await sort.read_inputs(inputs, settings, served.manifest.task), given, several)


def is_comparison(inputs: object) -> TypeGuard[dict[str, Any]]:
    """Return whether inputs are texts to compare with one."""
    return isinstance(inputs, dict) and inputs.keys() == SIMILARITY and isinstance(inputs["sentences"], list)
