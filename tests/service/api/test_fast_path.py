from fastapi.routing import APIRoute

from service.api.fast_path import PREFIX, FastPath
from service.api.routes import router


def test_every_route_of_a_models_endpoint_is_on_the_fast_path():
    posted = {
        route.path.removeprefix(PREFIX)
        for route in router.routes
        if isinstance(route, APIRoute) and "POST" in route.methods
    }
    assert (
        posted
        == set(FastPath(None, router.routes).routes)
        == {"classify", "embed", "fill-mask", "generate", "attention"}
    )
