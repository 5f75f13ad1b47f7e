"""The protocols that are spoken: their routes, and the manner of their errors.

Refusals happen before routing too, so the manner goes by the method and the path of a request.
"""

from service.api import openai, pipelines, routes, tei
from service.http.problems import Manner, problem

ROUTERS = (routes.router, openai.router, pipelines.router, tei.router)
MODEL = "/v1/models/"


def manner_of(method: str, path: str) -> Manner:
    """Return how errors of a method and path are written: of what no other protocol has, as problem details."""
    if path in openai.PATHS:
        return openai.error
    if path.startswith(MODEL):
        _, separator, endpoint = path.removeprefix(MODEL).partition("/")
        if endpoint in pipelines.BESIDE or (not separator and method == "POST"):
            return pipelines.error
        if endpoint == "tei" or endpoint.startswith("tei/"):
            return tei.error
    return problem
