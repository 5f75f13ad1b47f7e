"""The page and the viewer as files: their headers, what a client has already, and no file but theirs."""

import re

import pytest
from fastapi.testclient import TestClient

from service.api.page.joined import joined
from service.api.page.routes import BUNDLED_VIEWER, INDEX, JOINED, MEDIA_TYPES, PAGE, VIEWER
from service.app import create_app
from service.settings import Settings
from service.store import open_store

FILES = [
    "/",
    *(f"/page/{name}" for name in JOINED),
    "/docs",
    *(f"/page/{path.name}" for path in PAGE.iterdir() if path.name != INDEX),
    *(f"/docs/{path.name}" for path in VIEWER.iterdir() if path.name != INDEX),
    *(f"/docs/{name}" for name in BUNDLED_VIEWER),
]


@pytest.fixture(scope="module")
def client():
    settings = Settings()
    with TestClient(create_app(settings, {}, open_store(settings)), raise_server_exceptions=False) as client:
        yield client


@pytest.mark.parametrize("path", FILES)
def test_a_file_says_what_it_is_and_what_it_may_load(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    suffix = "." + path.rpartition(".")[2] if "." in path else ".html"
    assert answer.headers["content-type"] == MEDIA_TYPES[suffix]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"
    rules = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert rules == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' blob: data:",
        "media-src": "blob:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("encoding", ["gzip, deflate, br", "identity"])
def test_a_file_that_the_client_has_is_not_sent_again(client, path, encoding):
    tag = client.get(path, headers={"Accept-Encoding": encoding}).headers["etag"]
    for given in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = client.get(path, headers={"If-None-Match": given, "Accept-Encoding": encoding})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag), given
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_packed_for_those_who_unpack_and_is_the_same(client, path):
    packed, plain = (client.get(path, headers={"Accept-Encoding": one}) for one in ("gzip", "identity"))
    assert packed.content == plain.content
    assert "content-encoding" not in plain.headers
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert int(plain.headers["content-length"]) == len(plain.content)
    if path.endswith(".png"):
        assert packed.headers["etag"] == plain.headers["etag"]
    else:
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.headers["etag"] != plain.headers["etag"]


@pytest.mark.parametrize("said", ["gzip;q=0", "gzip;Q=0", "br, gzip; q=0.000", "xgzip", "gzip-x", ""])
def test_a_file_is_not_packed_for_those_who_do_not_unpack(client, said):
    assert "content-encoding" not in client.get("/page/app.js", headers={"Accept-Encoding": said}).headers


@pytest.mark.parametrize("said", ["gzip;q=0.5", "br, gzip", "gzip ;q=1.0, br;q=0"])
def test_a_file_is_packed_whatever_is_said_beside_it(client, said):
    assert client.get("/page/app.js", headers={"Accept-Encoding": said}).headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("path", ["/page/index.html", "/docs/index.html"])
def test_the_first_file_is_served_where_its_links_lead_somewhere(client, path):
    assert client.get(path).status_code == 404


def test_the_page_loads_its_modules_as_one_script(client):
    assert re.findall(r"<script.* src=\"(.*?)\"", client.get("/").text) == ["page/joined.js"]
    for name, (entry, before) in JOINED.items():
        assert client.get(f"/page/{name}").text == joined(entry, behind=before)


def test_a_file_that_has_changed_is_read_again(client, tmp_path, monkeypatch):
    monkeypatch.setattr("service.api.page.routes.PAGE", tmp_path)
    (tmp_path / "a.js").write_text("1")
    first = client.get("/page/a.js")
    (tmp_path / "a.js").write_text("2")
    again = client.get("/page/a.js", headers={"If-None-Match": first.headers["etag"]})
    assert (first.text, again.text) == ("1", "2")


@pytest.mark.parametrize("folder", ["page", "docs"])
@pytest.mark.parametrize(
    "name",
    [
        "nothing.js", "routes.py", "..%2froutes.py", "%2e%2e%2froutes.py", "..%5croutes.py", "%2fetc%2fpasswd",
        "preact.js%00", "preact.js/", ".%2fpreact.js", "static", "static%2fpreact.js", "redoc.standalone.js",
        "a" * 5000,
    ],
)  # fmt: skip
def test_no_other_file_is_served(client, folder, name):
    assert client.get(f"/{folder}/{name}").status_code == 404


def test_a_folder_of_the_page_holds_only_files_that_are_served():
    for path in (*PAGE.iterdir(), *VIEWER.iterdir()):
        assert path.is_file(), path
        assert re.fullmatch(r"[a-z][a-z0-9._-]*|LICENSES\.[a-z]+\.txt", path.name), path.name
        assert path.suffix in MEDIA_TYPES, path.name


def test_the_files_are_no_endpoints_of_the_interface(client):
    assert not {path for path in client.get("/openapi.json").json()["paths"] if path.startswith(("/page", "/docs"))}


def test_metrics_count_the_files_under_one_name(client):
    for name in ("preact.js", "nothing.js"):
        client.get(f"/page/{name}")
    routes = set(re.findall(r'route="(/page[^"]*)"', client.get("/metrics").text))
    assert routes == {"/page/{file}"}


def test_the_models_are_asked_for_beside_the_script_where_that_needs_no_key(client, tmp_path):
    assert client.get("/").headers["link"] == "<v1/models>; rel=preload; as=fetch; crossorigin"
    (tmp_path / "keys").write_text(64 * "0" + " predict somebody\n")
    settings = Settings(api_keys=tmp_path / "keys")
    with TestClient(create_app(settings, {}, open_store(settings))) as guarded:
        assert "link" not in guarded.get("/").headers
