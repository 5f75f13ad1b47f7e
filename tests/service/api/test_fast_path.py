import pytest
from fastapi.routing import APIRoute
from starlette.routing import Match

from service.api.fast_path import FastPath
from service.api.protocols import ROUTERS

ROUTES = [route for router in ROUTERS for route in router.routes]
POSTED = [route for route in ROUTES if isinstance(route, APIRoute) and route.methods == {"POST"}]


def scope_of(path):
    return {"type": "http", "method": "POST", "path": path, "root_path": "", "headers": []}


@pytest.mark.parametrize("route", POSTED, ids=lambda route: route.path)
def test_the_fast_path_finds_every_route_that_fastapi_finds(route):
    fast = FastPath(None, ROUTES)
    path = route.path.replace("{model}", "digits")
    matched, found = route.matches(scope_of(path))
    assert matched == Match.FULL
    if set(route.param_convertors) <= {"model"}:
        assert fast._find(path.split("/")) == (route, found["path_params"])


@pytest.mark.parametrize(
    "path", ["/", "/v1/models//classify", "/v1/models/a/b/classify", "/v1/models/a/classify/", "x"]
)
def test_the_fast_path_leaves_other_paths_to_fastapi(path):
    assert FastPath(None, ROUTES)._find(path.split("/")) == (None, {})
