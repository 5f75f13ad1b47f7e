"""API keys: every path but health and the page needs one, of the right scope; nothing tells what is known."""

import asyncio
import hashlib
import hmac
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest
from fastapi.testclient import TestClient

from service.api.native.routes import health, monitoring
from service.api.protocols import ADMIN_PORT_ROUTERS, ROUTERS, error_form_of
from service.app import create_app
from service.http import api_keys
from service.http.api_keys import Keys, KeysError, read_keys, scope_of
from service.http.gate import PATH
from service.settings import Settings
from service.store import open_store
from service.telemetry.metrics import Metrics
from tests.conftest import ROOT, served, start
from tests.samples.api_keys import EVERY_SCOPE, bearer, line
from tests.samples.http_requests import GENERATE


def ask(client, path, method="GET", host="x", key=None):
    """Send a path as it is written, which a client of a library would tidy; returns status, headers, was it read."""
    sent, read = [], []

    async def receive():
        read.append(True)
        if len(read) > 1:
            await asyncio.sleep(3600)  # until the client leaves
        return {"type": "http.request", "body": b"{}"}

    async def send(message):
        sent.append(message)

    path, _, query = path.partition("?")
    headers = {"host": host, "content-type": "application/json"} | ({"x-api-key": key} if key else {})
    scope = {
        "type": "http",
        "method": method,
        "path": urllib.parse.unquote(path),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    client.portal.call(client.app, scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), bool(read)


OPEN = api_keys.HEALTH_PATHS | {"/", "/page/{file}", "/docs", "/docs/{file}", "/openapi.json"}
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE")


def spellings(path):
    """Ways of writing a path that a router or a proxy might take for it."""
    yield from (path, path + "/", "/" + path, path.replace("/", "//"), path.upper(), path + "%00", path + "%0a")
    yield from (path + "?x=/health/live", path + ";/health/live", path + "%3f/health/live", path + "%23/health/live")
    yield from ("/health/live/.." + path, "/health/live/%2e%2e/.." + path, "/health/live%2f.." + path, "/." + path)
    yield path.replace("/", "%2f").replace("%2f", "/", 1)
    yield "/" + "".join(f"%{ord(letter):02x}" for letter in path[1:])


def test_every_route_however_it_is_written_needs_a_key(client):
    routes = [route for one in (*ROUTERS, health, monitoring, *ADMIN_PORT_ROUTERS) for route in one.routes]
    paths = {route.path for route in (*client.app.routes, *routes) if hasattr(route, "path")} - OPEN
    assert {"/metrics", "/v1/models", "/v1/models/{model}/generate"} <= paths
    paths = {path.replace("{model}", "dates").replace("{id}", "x").replace("{version}", "1") for path in paths}
    paths |= {"/admin/reload", "/admin", "/nowhere", "/health", "/health/liv", "/health/live2", "/healthy"}
    for path, method in itertools.product(sorted(paths), METHODS):
        for spelling in spellings(path) if method in ("GET", "POST") else (path, path + "/"):
            status, headers, read = ask(client, spelling, method)
            assert (status, read) == (401, False), (method, spelling)
            assert headers[b"www-authenticate"] == b"Bearer"
            wanted = error_form_of(method, urllib.parse.unquote(spelling.partition("?")[0]))(401, "").headers
            assert headers[b"content-type"].decode() == wanted["content-type"], (method, spelling)


@pytest.mark.parametrize("path", sorted(api_keys.HEALTH_PATHS))
def test_health_needs_no_key_and_its_neighbours_do(client, path):
    for key in (None, "wrong"):
        assert ask(client, path, key=key)[0] in (200, 503)
    for other in (path + "/", "/" + path, path + "%20", path + "x", path.upper(), path + "/../ready", path + "%0a"):
        assert ask(client, other)[0] == 401, other


@pytest.mark.parametrize("path", ["/", "/page/preact.js", "/docs", "/docs/start.js", "/openapi.json"])
def test_the_page_and_the_documentation_need_no_key_and_their_neighbours_do(client, path):
    for key in (None, "wrong"):
        assert ask(client, path, key=key)[0] == 200
    assert ask(client, path, method="POST")[0] == 405
    beside = ["/page", "/page/", "/page//preact.js", "/page/../metrics", "/page/%2e%2e/metrics", "/page/a/../metrics"]
    for other in (
        *beside,
        "/" + path,
        path + "%20",
        path + "%0a",
        path + "%00",
        path + "/../v1/models",
        "/openapi.jsonx",
    ):
        assert ask(client, other)[0] == 401, other


@pytest.mark.parametrize(
    "host", ["a/health/live?", "a/health/live#", "x@/health/live?", "health/live", "[::1]/?", "a?"]
)
def test_a_host_header_that_holds_a_path_does_not_avoid_the_key(client, host):
    for path in ("/v1/models", "/metrics", "/nowhere"):
        assert ask(client, path, host=host)[0] == 400


def test_what_each_scope_may_do(client):
    table = {
        "/v1/models": {"p": 200, "m": 403, "a": 200},
        "/": {"p": 200, "m": 200, "a": 200},
        "/nowhere": {"p": 404, "m": 403, "a": 404},
        "/metrics": {"p": 403, "m": 200, "a": 200},
        "/metrics%0a": {"p": 404, "m": 403, "a": 404},  # which a route's pattern would take for /metrics
        "/admin%2freload%0a": {"p": 403, "m": 403, "a": 404},
        "/admin/nothing": {"p": 403, "m": 403, "a": 404},
        "/admin": {"p": 403, "m": 403, "a": 404},
        "/%61dmin/nothing": {"p": 403, "m": 403, "a": 404},
    }
    for path, wanted in table.items():
        assert {key: ask(client, path, key=key)[0] for key in wanted} == wanted, path
    answer = client.get("/metrics", headers=bearer("p"))
    assert answer.json()["detail"] == "key: must have the scope metrics, given one without"


def test_no_other_spelling_of_a_path_reaches_the_route_of_another_scope():
    """A path that passes the gate is spelled in one way only, so that its scope is that of the route it reaches."""
    for path in ("/admin/x", "/metrics", "/v2/repository/models/x/load"):
        assert scope_of(path) != "predict"
        for other in ("/" + path, path.replace("/", "/./", 1), "/x/.." + path, path + "\n", path + "\0", "\\" + path):
            assert not PATH.fullmatch(other), other


def test_a_key_is_accepted_in_either_header_but_not_in_both(client):
    good = [bearer("p"), {"Authorization": "bearer p"}, {"Authorization": "Bearer   p "}, {"X-API-Key": "p"},
            {"Authorization": "Basic eDp5", "X-API-Key": "p"}]  # fmt: skip
    for headers in good:
        assert client.get("/v1/models", headers=headers).status_code == 200, headers
    bad = [{}, bearer("wrong"), bearer(""), {"Authorization": "p"}, {"Authorization": "Basic p"}, {"X-API-Key": "P"},
           {"X-API-Key": "p", **bearer("p")}, [("X-API-Key", "p"), ("X-API-Key", "wrong")], bearer("p p"),
           bearer(hashlib.sha256(b"p").hexdigest()), {"X-API-Key": b"\xff\xfe"}, {"Cookie": "X-API-Key=p"}]  # fmt: skip
    for headers in bad:
        assert client.get("/v1/models", headers=headers).status_code == 401, headers
    assert client.get("/v1/models?X-API-Key=p&key=p").status_code == 401


def test_a_body_is_not_read_before_its_key(client):
    while ask(client, "/health/ready")[0] != 200:
        time.sleep(0.01)
    for key, wanted in ((None, (401, False)), ("x", (401, False)), ("m", (403, False)), ("p", (422, True))):
        status, _, read = ask(client, GENERATE, "POST", key=key)
        assert (status, read) == wanted


def test_a_key_is_compared_with_every_one_that_is_known(client, monkeypatch):
    compared = []
    plain = hmac.compare_digest
    monkeypatch.setattr(
        api_keys.hmac, "compare_digest", lambda one, other: (compared.append(other), plain(one, other))[1]
    )
    for key in ("p", "m", "a", "wrong"):
        compared.clear()
        client.get("/v1/models", headers=bearer(key))
        assert len(set(compared)) == 3, key
        assert all(len(one) == 32 for one in compared)


def test_the_file_is_read_again_and_a_bad_one_changes_nothing(client, file):
    known = client.app.state.keys
    file.write_text(line("new") + line("p"))
    assert known.reload(Metrics())
    assert client.get("/v1/models", headers=bearer("new")).status_code == 200
    assert client.get("/v1/models", headers=bearer("a")).status_code == 401
    for bad in ("", "# none\n", line("other") + "nonsense\n", line("x") + line("x"), None):
        file.unlink() if bad is None else file.write_text(bad)
        assert not known.reload(Metrics())
        assert client.get("/v1/models", headers=bearer("new")).status_code == 200
        assert client.get("/v1/models", headers=bearer("other")).status_code == 401


def test_without_a_file_no_key_is_asked_for(models):
    settings = Settings()
    with TestClient(create_app(settings, models, open_store(settings))) as client:
        assert client.get("/v1/models").status_code == 200
        assert client.get("/v1/models", headers=bearer("anything")).status_code == 200
        assert client.app.state.keys.reload(client.app.state.metrics)
        assert "securitySchemes" not in client.get("/openapi.json").json()["components"]


def test_openapi_says_that_a_key_is_needed_and_where_not(client):
    document = client.get("/openapi.json", headers=bearer("p")).json()
    assert document["components"]["securitySchemes"].keys() == {"bearer", "header"}
    assert document["security"] == [{"bearer": []}, {"header": []}]
    free = {path for path, operations in document["paths"].items() if operations.get("get", {}).get("security") == []}
    assert free == api_keys.HEALTH_PATHS


BAD = [
    "secret",
    f"{'0' * 64} predict",
    f"{'0' * 63} predict a",
    f"{'G' * 64} predict a",
    f"{'A' * 64} predict a",
    f"{'0' * 64} predict, a",
    f"{'0' * 64} cook a",
    f"{'0' * 64} predict a b",
    f"{'0' * 64} predict secret!",
    f"{'0' * 64} predict {'a' * 65}",
]


@pytest.mark.parametrize("bad", BAD)
def test_an_invalid_line_is_named_by_its_number(tmp_path, bad):
    path = tmp_path / "keys"
    path.write_text(line("p") + "\n" + bad + "\n")
    with pytest.raises(KeysError) as caught:
        read_keys(path)
    assert str(caught.value) == (
        "REGARD_API_KEYS: line 3: must be a sha256 in hex, scopes of predict,admin,metrics, and a name"
    )


def test_a_file_that_is_not_there_is_named_with_who_must_read_it(tmp_path):
    with pytest.raises(KeysError) as caught:
        read_keys(tmp_path / "keys")
    assert str(caught.value).startswith(f"REGARD_API_KEYS: {tmp_path}/keys cannot be read: No such file or directory; ")
    assert f"readable for user {os.getuid()}" in str(caught.value)


def test_a_file_that_cannot_be_used_stops_the_start(tmp_path, light):
    path = tmp_path / "keys"
    path.write_text("secret words\n" + line("p") + line("p") + "secret\n")
    process = start(light, port=0, api_keys=path)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 2
    assert [said.count(f"line {number}: must") for number in (1, 2, 3, 4)] == [1, 0, 1, 1]
    assert "secret" not in said
    assert hashlib.sha256(b"p").hexdigest() not in said
    assert "Traceback" not in said
    with pytest.raises(KeysError, match="cannot be read: No such file"):
        Keys(Settings(api_keys=tmp_path / "absent"))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(KeysError, match="must be UTF-8"):
        Keys(Settings(api_keys=path))


def make(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "service.keys", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_command_makes_a_key_and_the_line_that_knows_it(tmp_path):
    made = make("alice", "--scopes", "predict,metrics")
    assert made.returncode == 0
    key = made.stderr.split()[-1]
    assert len(key) == 43, "32 bytes"
    assert key not in made.stdout
    path = tmp_path / "keys"
    path.write_text(made.stdout)
    (known,) = read_keys(path)
    assert (known.name, known.scopes) == ("alice", {"predict", "metrics"})
    assert known.digest == hashlib.sha256(key.encode()).digest()
    for wrong in (["a b"], ["a", "--scopes", "cook"]):
        assert make(*wrong).returncode == 2


def test_the_log_names_the_client_and_never_the_key(light, file):
    key = "k" * 43
    file.write_text(file.read_text() + line(key, EVERY_SCOPE, "alice"))
    with served(light, api_keys=file, log_level="debug") as client:
        assert client.get("/v1/models", headers=bearer(key)).status_code == 200
        assert client.get("/v1/models", headers={"X-API-Key": "w" * 43}).status_code == 401
    said = json.dumps(client.log)
    for secret in ("k" * 43, "w" * 43, hashlib.sha256(key.encode()).hexdigest()):
        assert secret not in said
    lines = [one for one in client.log if one["event"] == "request" and not one["route"].startswith("/health")]
    assert [(one["client"], one["status"]) for one in lines] == [("alice", 200), (None, 401)]


def test_requests_in_flight_are_bounded_for_each_key(models, file):
    settings = Settings(api_keys=file, key_in_flight=2)
    app = create_app(settings, models, open_store(settings))
    entered, let = threading.Semaphore(0), threading.Event()

    @app.get("/wait")
    def wait():
        entered.release()
        let.wait(10)

    with TestClient(app) as client:
        waiting = [threading.Thread(target=client.get, args=("/wait",), kwargs={"headers": bearer("p")}) for _ in "ab"]
        for task in waiting:
            task.start()
        for _ in waiting:
            assert entered.acquire(timeout=10)
        answer = client.get("/v1/models", headers=bearer("p"))
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
        assert answer.json()["detail"] == "key: at most 2 requests at a time, given one more"
        refusals = client.app.state.metrics.refusals
        assert refusals.labels("key_busy")._value.get() == 1
        assert refusals.labels("busy")._value.get() == 0, "which says that a queue is full"
        assert client.get("/v1/models", headers=bearer("a")).status_code == 200
        assert client.app.state.keys.reload(client.app.state.metrics)
        assert client.get("/v1/models", headers=bearer("p")).status_code == 429
        let.set()
        for task in waiting:
            task.join()
        assert client.get("/v1/models", headers=bearer("p")).status_code == 200


def test_a_reload_says_and_counts_that_the_file_cannot_be_used(client, file):
    def refused():
        return client.app.state.metrics.reloads.labels("refused")._value.get()

    while client.post("/admin/reload", headers=bearer("a")).status_code == 409:  # while the models warm up
        time.sleep(0.01)
    before = refused()
    file.write_text(line("a", "admin") + "nonsense\n")
    answer = client.post("/admin/reload", headers=bearer("a"))
    assert answer.status_code == 422
    assert (
        answer.json()["detail"] == "keys: must be a file that can be used, so the old ones stay; the log has the reason"
    )
    assert refused() == before + 1
    assert client.get("/v1/models", headers=bearer("p")).status_code == 200
