"""What is asked of replicas through the proxy, from this machine: each time on a new connection, which any may get."""

from collections import Counter

import httpx

from tests.conftest import ROOT

SEVEN = (ROOT / "tests/data/digits/seven.png").read_bytes()


def predict(port: int) -> httpx.Response:
    """Classify the scan of a seven."""
    headers = {"Content-Type": "image/png", "Connection": "close"}
    return httpx.post(f"http://127.0.0.1:{port}/v1/models/digits/classify", content=SEVEN, headers=headers, timeout=30)


def attention(port: int, id: str) -> int:  # noqa: A002 # the word of the API
    """Ask for the attention of an earlier answer; return the status."""
    headers = {"Connection": "close"}
    return httpx.get(f"http://127.0.0.1:{port}/v1/attention/{id}", headers=headers, timeout=30).status_code


def predictions(port: int, count: int) -> Counter[int]:
    """Predict so often; return how often each status came."""
    return Counter(predict(port).status_code for _ in range(count))


def ids(port: int, count: int) -> Counter[int]:
    """Predict and then ask for the attention of that answer, so often; return how often each status came."""
    return Counter(attention(port, predict(port).headers["x-request-id"]) for _ in range(count))
