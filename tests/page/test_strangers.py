"""The page asks nobody but its service, runs nothing but its own files, and makes no markup of what it is told."""

import re

import pytest

MARKUP = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


def test_the_page_is_the_services_alone_and_its_policy_is_a_header(visit):
    seen = visit()
    with seen.page.expect_response("**/") as answer:
        seen.open()
    policy = answer.value.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert seen.asked
    assert {re.match(r"(blob:|data:)?(http://[^/]*)?", one.url)[2] or "" for one in seen.asked} <= {seen.base, ""}


def test_what_the_policy_forbids_does_not_run(visit):
    seen = visit()
    page = seen.open()
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), { text: 'document.title = 1' }))"
    )
    assert page.title() != "1"
    assert any("Content Security Policy" in one for one in seen.said)
    seen.said.clear()


@pytest.mark.parametrize("model", ["dates", "minilm"])
def test_markup_in_a_text_stays_text(visit, model):
    seen = visit()
    page = seen.open(f"#model={model}")
    page.locator("#text").fill(MARKUP)
    page.locator("#ask").click()
    seen.settle()
    _holds_no_markup(page)


def test_markup_in_the_address_stays_text(visit):
    page = visit(refusals=True).open(
        "#" + "&".join(f"{name}={MARKUP}" for name in ("text", "row", "layer", "colormap", "compare", "heads", "view"))
        + "&model=dates"
    )  # fmt: skip
    _holds_no_markup(page)


def test_markup_in_the_name_of_a_file_stays_text(visit):
    seen = visit()
    page = seen.open("#model=digits")
    picture = page.request.get(f"{seen.base}/v1/models/digits/examples/1").body()
    page.locator("#choose + input").set_input_files(
        {"name": MARKUP + ".png", "mimeType": "image/png", "buffer": picture}
    )
    seen.settle()
    assert page.locator("#problem").inner_text() == ""
    _holds_no_markup(page)


def test_markup_in_labels_and_refusals_stays_text(visit):
    seen = visit(refusals=True)
    labels = [{"label": MARKUP, "index": 0, "probability": 1.0}]
    seen.page.route("**/classify*", lambda route: _change(route, lambda body: body["results"][0].update(labels=labels)))
    page = seen.open("#model=digits")
    assert MARKUP in page.locator("#answer").inner_text()
    _holds_no_markup(page)
    page.route("**/v1/attention/**", lambda route: route.fulfill(status=422, json={"detail": MARKUP}))
    page.locator("[name=method][value=raw]").check(force=True)
    page.locator("#problem:not(:empty)").wait_for()
    assert MARKUP in page.locator("#problem").inner_text()
    _holds_no_markup(page)


def _change(route, change):
    answer = route.fetch()
    body = answer.json()
    change(body)
    route.fulfill(response=answer, json=body)


def _holds_no_markup(page):
    assert page.title() != "broken"
    assert page.locator("img[src=x]").count() == 0
    assert page.locator("body script").count() == 0


def test_the_viewer_shows_the_interface_without_the_internet(visit):
    seen = visit()
    page = seen.page
    page.goto(f"{seen.base}/docs")
    page.locator(".opblock").first.wait_for()
    assert page.get_by_text("/v1/models/{model}/classify", exact=True).count() == 1
    listed = page.locator(".opblock", has=page.get_by_text("/v1/models", exact=True)).first
    listed.click()
    listed.get_by_role("button", name="Try it out").click()
    listed.get_by_role("button", name="Execute").click()
    listed.get_by_text("Response body").first.wait_for()
    assert "digits" in listed.inner_text()
    assert {one.url.startswith((seen.base, "data:")) for one in seen.asked} == {True}
