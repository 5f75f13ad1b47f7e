"""What a first visit may cost: bytes and requests."""

MOST_BYTES = 160_000
MOST_REQUESTS = 24
PICTURES = ("image/", "font/")


def test_the_first_screen_is_light(visit):
    seen = visit()
    seen.open()
    answers = [request.response() for request in seen.asked if request.url.startswith(seen.base)]
    sizes = {answer.url: answer.request.sizes()["responseBodySize"] for answer in answers}
    counted = [
        one for one in answers if not one.headers.get("content-type", "").startswith(PICTURES)
    ]  # examples are pictures of the model's, a few hundred bytes each
    assert len(counted) <= MOST_REQUESTS, sorted(sizes)
    assert 0 < sum(sizes[one.url] for one in counted) < MOST_BYTES, sizes


def test_the_files_are_not_sent_twice(visit):
    seen = visit()
    page = seen.open()
    seen.asked.clear()
    page.reload()
    seen.settle()
    files = [request.response() for request in seen.asked if "/page/" in request.url]
    assert files
    assert {(one.status, one.request.sizes()["responseBodySize"]) for one in files} <= {(304, 0), (200, 0)}


def test_a_look_asks_for_the_attention_alone(visit):
    seen = visit()
    page = seen.open("#model=digits")
    seen.asked.clear()
    page.locator("[name=method][value=raw]").check(force=True)
    seen.settle()
    assert {request.method for request in seen.asked} == {"GET"}
    assert all("/v1/attention/" in request.url for request in seen.asked)
