"""What the tests of containers share: the image, and what is sent to the service inside it."""

import base64
import json

import pytest

from tests.conftest import ROOT
from tests.containers import images, needs

ASK = """
import json, sys, urllib.error, urllib.request as u
method, path, body, kind = json.loads(sys.argv[1])
call = u.Request("http://127.0.0.1:8000" + path, body and __import__("base64").b64decode(body), method=method)
if kind: call.add_header("Content-Type", kind)
try: answer = u.urlopen(call, timeout=20)
except urllib.error.HTTPError as error: answer = error
print(json.dumps([answer.status, dict(answer.headers), json.loads(answer.read() or b"null")]))
"""
SEVEN = (ROOT / "tests/data/digits/seven.png").read_bytes()


def pytest_collection_modifyitems(items):
    """Skip what is in this folder where it cannot run, in words."""
    reason = needs.lacking()
    for item in items:
        if "tests/containers" in str(item.path):
            item.add_marker("containers")
            item.add_marker("slow")  # what builds an image takes as long as that
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def cpu():
    """The image of the service, as the Dockerfile and this folder make it now."""
    return images.cpu()


def ask(container, method, path, body=None, kind=""):
    """Ask the service from inside its container, which may have no network; return status, headers and document."""
    given = json.dumps([method, path, body and base64.b64encode(body).decode(), kind])
    return json.loads(container.python(ASK, given))


def classify(container):
    """Classify the scan of a seven; return the label that is likeliest."""
    status, headers, document = ask(container, "POST", "/v1/models/digits/classify", SEVEN, "image/png")
    assert status == 200, document
    return document, headers
