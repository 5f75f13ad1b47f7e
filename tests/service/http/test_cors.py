"""Pages of other origins (CORS): outside of the gate, since a preflight request carries no key."""

from fastapi.testclient import TestClient

from service.app import create_app
from service.settings import Settings
from service.store import open_store
from tests.samples.api_keys import bearer
from tests.samples.http_requests import GENERATE


def test_pages_of_listed_origins_may_ask_and_others_may_not(models, file):
    settings = Settings(api_keys=file, cors_origins="https://a.example, https://b.example")
    asking = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,inference-header-content-length,x-stainless-lang",
    }
    with TestClient(create_app(settings, models, open_store(settings))) as client:
        for origin in ("https://a.example", "https://b.example"):
            allowed = client.options(GENERATE, headers={"Origin": origin, **asking})  # carries no key, as browsers do
            assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, origin)
            answer = client.post(GENERATE, json={}, headers={"Origin": origin})
            assert answer.status_code == 401
            assert answer.headers["access-control-allow-origin"] == origin, "or the page could not read the refusal"
            assert (
                answer.headers["access-control-expose-headers"]
                == "X-Request-Id, Retry-After, Inference-Header-Content-Length"
            )
            assert "access-control-allow-credentials" not in answer.headers
        for origin in ("https://a.example.evil", "http://a.example", "null", "*"):
            denied = client.options(GENERATE, headers={"Origin": origin, **asking})
            assert denied.status_code == 400
            assert "access-control-allow-origin" not in denied.headers
            answer = client.get("/v1/models", headers={"Origin": origin, **bearer("p")})
            assert "access-control-allow-origin" not in answer.headers
        assert client.options(GENERATE).status_code == 401


def test_without_listed_origins_no_page_of_another_may_ask(client):
    answer = client.get("/v1/models", headers={"Origin": "https://a.example", **bearer("p")})
    assert not [name for name in answer.headers if name.startswith("access-control")]
