"""What the descriptions of all predictions share: how they are answered, and refused."""

from pydantic import BaseModel

from service.api.openapi.answers import Problem
from service.api.openapi.components import Json, in_json, refusals

PROBLEM = "application/problem+json"
REFUSALS = refusals(
    Problem,
    {
        400: "the body cannot be read",
        404: "no such model, example or id, or the model's task does not serve this endpoint",
        406: "an answer of a type that is not made",
        409: "not while something else goes on",
        413: "larger than a limit",
        415: "a content type that is not read, or no image",
        422: "not to be answered; errors lists why",
        429: "the queue is full; see Retry-After",
        503: "warming up, failing or stopping; see Retry-After",
        504: "the deadline passed",
    },
    PROBLEM,
)


def answered(description: str, kind: type[BaseModel], *statuses: int) -> dict[int | str, Json]:
    """Return the description of an answer in JSON, and of refusals."""
    answer: dict[int | str, Json] = {200: {"description": description, "content": in_json(kind)}}
    return answer | {status: REFUSALS[status] for status in statuses}


def prediction(answer: type[BaseModel], content: Json, parameters: list[Json]) -> Json:
    """Return the description of a prediction: its answer, the bodies that it takes, and parameters of the query."""
    refused = [int(status) for status in REFUSALS if status != 409]
    return {
        "responses": answered("one result per input, in order", answer, *refused),
        "parameters": parameters,
        "requestBody": {"required": True, "content": content},
    }
