"""The OpenAPI document of an application: FastAPI's description of the routes, with our components."""

import functools
from typing import Any

from fastapi import FastAPI

from service.api.openapi.components import COMPONENTS

FASTAPIS_OWN = {"HTTPValidationError", "ValidationError"}
"""Schemas of an answer that FastAPI describes for each path with a parameter. No request here is answered so."""


def describe(app: FastAPI) -> None:
    """Have an application's OpenAPI document hold the components that its operations refer to."""
    original = app.openapi

    @functools.cache
    def openapi() -> dict[str, Any]:
        document = original()
        for operations in document["paths"].values():
            for operation in operations.values():
                operation["responses"] = _responses(operation["responses"])
        found = document.pop("components", {})
        schemas = {name: one for name, one in found.get("schemas", {}).items() if name not in FASTAPIS_OWN}
        used = COMPONENTS.used_by(document["paths"])
        document["components"] = {**used, "schemas": {**schemas, **used.get("schemas", {})}}
        return document

    app.openapi = openapi  # type: ignore[method-assign] # the way that FastAPI documents


def _responses(described: dict[str, Any]) -> dict[str, Any]:
    """Return the answers of an operation, without FastAPI's own; a reference stands alone."""
    found = {}
    for status, response in described.items():
        if "$ref" in response:
            found[status] = {"$ref": response["$ref"]}
        elif not any(name in str(response) for name in FASTAPIS_OWN):
            found[status] = response
    return found
