"""The OpenAPI document of an application: FastAPI's list of the routes, with our description of each operation."""

import asyncio
import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

PATH = "/openapi.json"


def _shared(parameter: dict[str, Any]) -> dict[str, Any]:
    """Return a reference to a parameter of a path, which many operations have; any other without its title."""
    from service.api.openapi.components import COMPONENTS

    parameter["schema"].pop("title", None)  # it only repeats the name
    if parameter["in"] != "path":
        return parameter
    return COMPONENTS.named("parameters", f"path_{parameter['name']}", parameter)


def describe(app: FastAPI, read_operations: Callable[[], Mapping[str, dict[str, Any]]]) -> None:
    """Have an application serve an OpenAPI document that says what each operation takes and answers.

    `read_operations` returns that by the name of the operation. It is called when the document is first asked for,
    since what it imports takes as long as loading a small model; requests are answered meanwhile.
    """
    original, alone = app.openapi, threading.Lock()

    @functools.cache
    def made() -> dict[str, Any]:
        from service.api.openapi.components import COMPONENTS

        document = original()
        known = read_operations()
        for operations in document["paths"].values():
            for operation in operations.values():
                own = known[operation["operationId"]]
                operation["responses"] = {str(status): one for status, one in own["responses"].items()}
                if parameters := [*map(_shared, operation.get("parameters", [])), *own.get("parameters", [])]:
                    operation["parameters"] = parameters
                if "requestBody" in own:
                    operation["requestBody"] = own["requestBody"]
        document["components"] = COMPONENTS.used_by(document["paths"])
        return document

    def openapi() -> dict[str, Any]:
        with alone:
            return made()

    async def answer(_: Request) -> Response:
        written = await asyncio.to_thread(lambda: orjson.dumps(app.openapi()))
        return Response(written, media_type="application/json")

    app.openapi = openapi  # type: ignore[method-assign] # the way that FastAPI documents
    app.add_route(PATH, answer, include_in_schema=False)
