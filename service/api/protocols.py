"""The protocols that are spoken: their routes, and the form of their errors.

Refusals happen before routing too, so the form goes by the method and the path of a request.
"""

from typing import Any

from service.api.hugging_face import pipelines, tei
from service.api.native import routes
from service.api.open_inference import routes as open_inference
from service.api.openai import routes as openai
from service.api.openai.errors import Errors, error_of_models
from service.api.page import routes as page
from service.api.rerankers import routes as rerankers
from service.http.problems import ErrorForm, problem

ROUTERS = (
    page.router,
    routes.router,
    open_inference.router,
    open_inference.index,
    openai.router,
    rerankers.router,
    pipelines.router,
    tei.router,
)
ADMIN_ROUTERS = (routes.admin, open_inference.management)
"""Of the admin port, or of the main one where API keys tell administrators from others."""
ADMIN_PORT_ROUTERS = (*ADMIN_ROUTERS, open_inference.index)
MODELS, MODEL = "/v1/models", "/v1/models/"
ATTENTION = "/v1/attention/"
OPENAI_ERRORS = Errors()
OF_PATHS: dict[str, ErrorForm] = {**openai.ERROR_FORMS, **rerankers.ERROR_FORMS}


def error_form_of(method: str, path: str) -> ErrorForm:
    """Return how errors of a method and path are written: of what no other protocol has, as problem details.

    Paths below `/v1` that nobody serves are taken for OpenAI's.
    """
    if path in OF_PATHS:
        return OF_PATHS[path]
    if path == "/v2" or path.startswith("/v2/"):
        return open_inference.error
    if path.startswith(MODEL):
        _, separator, endpoint = path.removeprefix(MODEL).partition("/")
        if endpoint in pipelines.BESIDE or (not separator and method == "POST"):
            return pipelines.error
        if endpoint == "tei" or endpoint.startswith("tei/"):
            return tei.error
        return problem if separator else error_of_models
    if path == MODELS:
        return error_of_models
    return OPENAI_ERRORS if path.startswith("/v1/") and not path.startswith(ATTENTION) else problem


def read_operations() -> dict[str, dict[str, Any]]:
    """Return what each operation takes and answers, as OpenAPI describes it, by the name of the operation."""
    from service.api.hugging_face import openapi_schema as of_hugging_face
    from service.api.open_inference import openapi_schema as of_open_inference
    from service.api.openai import openapi_schema as of_openai
    from service.api.openapi import operations
    from service.api.rerankers import openapi_schema as of_rerankers

    return {
        **operations.OPERATIONS,
        **of_open_inference.OPERATIONS,
        **of_openai.OPERATIONS,
        **of_rerankers.OPERATIONS,
        **of_hugging_face.OPERATIONS,
    }
