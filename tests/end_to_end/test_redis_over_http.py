"""Replicas of the service that store requests in the same Redis redis_server."""

import json

import pytest

from service.store.redis_store import ENTRY_KEY_PREFIX
from tests.conftest import served, start
from tests.samples.http_requests import CLASSIFY, PNG, SEVEN
from tests.samples.in_process import in_process


@pytest.fixture(scope="session")
def artifacts(light):
    """Most tests here need no graph that explains a score."""
    return light


def test_one_replica_gives_the_attention_of_a_request_that_another_answered(redis_server, artifacts):
    """And a server that is gone takes nothing with it but this."""
    with served(artifacts, redis_url=redis_server.url) as one, served(artifacts, redis_url=redis_server.url) as other:
        answered = one.post(f"{CLASSIFY}?attention=norm", content=SEVEN, headers=PNG)
        later = other.get(f"/v1/attention/{answered.json()['id']}?method=norm").json()
        assert later["results"][0]["attention"] == answered.json()["results"][0]["attention"]
        generated = other.post("/v1/models/dates/generate", json={"inputs": "3/23/21"}).json()
        assert one.get(f"/v1/attention/{generated['id']}?kind=cross&model=dates").status_code == 200
        redis_server.kill()
        try:
            gone = other.get(f"/v1/attention/{answered.json()['id']}")
            assert (gone.status_code, gone.headers["Retry-After"]) == (503, "5")
            again = one.post(CLASSIFY, content=SEVEN, headers=PNG)
            assert again.json()["results"][0]["labels"][0]["label"] == "7"
        finally:
            redis_server.start()


def test_a_service_whose_redis_url_cannot_be_used_says_so_and_ends(artifacts):
    process = start(artifacts, redis_url="http://:s3cret@host")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "settings cannot be used:\nREGARD_REDIS_URL: must be redis://" in said
    assert "s3cret" not in said


def test_whatever_else_is_in_redis_is_an_unknown_id(running_redis, artifacts):
    """A value of another type, other bytes, and requests that their model could never have answered."""
    header = {"format": 1, "model": "digits", "version": "1", "truncate": False, "targets": None}
    text, image = [["text", 3]], [["image", 3]]
    dates = {"model": "dates", "targets": [[1, 2]], "inputs": text}
    changes = [
        {"inputs": text}, {"inputs": []}, {"inputs": image, "targets": [[1]]}, {"inputs": image, "model": "none"},
        dates | {"inputs": image}, dates | {"targets": None}, dates | {"targets": []}, dates | {"targets": [[]]},
        dates | {"targets": [[-1]]}, dates | {"targets": [[10**30]]}, dates | {"targets": [[10**6]]},
        dates | {"targets": [[1] * 10_000]}, dates | {"inputs": [["pair", 1, 2]]},
    ]  # fmt: skip
    with in_process(artifacts, redis_url=running_redis.url) as client:
        for number, change in enumerate(changes):
            packed = json.dumps(header | change) + "\n" + "abc" * len((header | change)["inputs"])
            running_redis.ask("SET", f"{ENTRY_KEY_PREFIX}{number}", packed)
        running_redis.ask("LPUSH", f"{ENTRY_KEY_PREFIX}list", "x")
        running_redis.ask("SET", f"{ENTRY_KEY_PREFIX}bytes", "\udcff\n")
        for name in (*range(len(changes)), "list", "bytes"):
            assert client.get(f"/v1/attention/{name}").status_code == 404, name
        assert client.get("/health/ready").status_code == 200
