"""A text whose stream breaks off: it is dimmed, and stays a look by the model that wrote it."""

import pytest


@pytest.fixture
def broken(visit):
    """A visit whose captions end in the middle."""
    seen = visit(refusals=True)

    def cut(route):
        answer = route.fetch()
        begun, _, _ = answer.text().rpartition("event: done")
        route.fulfill(response=answer, body=begun)

    seen.page.route("**/captions-soft/generate*", cut)
    page = seen.open("#model=captions-soft")
    page.wait_for_selector("#problem > *")
    return page


def test_all_of_a_stream_that_broke_off_is_dimmed(broken):
    assert broken.locator("#answer .stale .words").count() == 1
    assert broken.locator("#look.stale .picture").count() == 1


def test_rows_of_a_stream_are_drawn_in_the_grid_of_the_model_that_wrote_them(broken):
    broken.route("**/dates/generate", lambda route: None)  # it is never answered
    broken.locator("header select").select_option("dates")
    broken.wait_for_selector("body[data-busy=true]")
    broken.wait_for_timeout(200)
    assert broken.locator("#look .picture").count() == 1
    broken.unroute("**/dates/generate")
