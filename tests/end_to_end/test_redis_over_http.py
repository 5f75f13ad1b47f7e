"""Replicas of the service that store requests in the same Redis redis_server."""

from tests.conftest import ROOT, served, start


def test_one_replica_gives_the_attention_of_a_request_that_another_answered(redis_server, artifacts):
    """And a server that is gone takes nothing with it but this."""
    image = (ROOT / "tests/data/digits/seven.png").read_bytes()
    with served(artifacts, redis_url=redis_server.url) as one, served(artifacts, redis_url=redis_server.url) as other:
        answered = one.post(
            "/v1/models/digits/classify?attention=norm", content=image, headers={"Content-Type": "image/png"}
        )
        later = other.get(f"/v1/attention/{answered.json()['id']}?method=norm").json()
        assert later["results"][0]["attention"] == answered.json()["results"][0]["attention"]
        generated = other.post("/v1/models/dates/generate", json={"inputs": "3/23/21"}).json()
        assert one.get(f"/v1/attention/{generated['id']}?kind=cross&model=dates").status_code == 200
        redis_server.kill()
        try:
            gone = other.get(f"/v1/attention/{answered.json()['id']}")
            assert (gone.status_code, gone.headers["Retry-After"]) == (503, "5")
            again = one.post("/v1/models/digits/classify", content=image, headers={"Content-Type": "image/png"})
            assert again.json()["results"][0]["labels"][0]["label"] == "7"
        finally:
            redis_server.start()


def test_a_service_whose_redis_url_cannot_be_used_says_so_and_ends(artifacts):
    process = start(artifacts, redis_url="http://:s3cret@host")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "settings cannot be used:\nREGARD_REDIS_URL: must be redis://" in said
    assert "s3cret" not in said
