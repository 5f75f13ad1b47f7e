"""The OpenAPI document of an application: FastAPI's list of the routes, with our description of each operation."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI


def describe(app: FastAPI, read_operations: Callable[[], Mapping[str, dict[str, Any]]]) -> None:
    """Have an application's OpenAPI document say what each operation takes and answers.

    `read_operations` returns that by the name of the operation. It is called when the document is first asked for,
    since what it imports takes as long as loading a small model.
    """
    original = app.openapi

    @functools.cache
    def openapi() -> dict[str, Any]:
        from service.api.openapi.components import COMPONENTS

        document, known = original(), read_operations()
        for operations in document["paths"].values():
            for operation in operations.values():
                own = known[operation["operationId"]]
                operation["responses"] = {str(status): one for status, one in own["responses"].items()}
                if parameters := [*operation.get("parameters", []), *own.get("parameters", [])]:
                    operation["parameters"] = parameters
                if "requestBody" in own:
                    operation["requestBody"] = own["requestBody"]
        document["components"] = COMPONENTS.used_by(document["paths"])
        return document

    app.openapi = openapi  # type: ignore[method-assign] # the way that FastAPI documents
