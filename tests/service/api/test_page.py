"""The page: whole in one file, and aware of every task that is served."""

import re

from service.api.page.routes import PAGE
from service.repository.tasks import TASKS

TEXT = (PAGE / "index.html").read_text(encoding="utf-8")


def test_the_page_needs_nothing_but_the_service():
    assert (
        re.findall(
            r"https?://(?!www\.w3\.org/2000/svg')|@import|\burl\(| src=|<link(?! rel=\"icon\" href=\"data:,\")", TEXT
        )
        == []
    )
    assert "default-src 'none'" in TEXT


def test_what_a_client_sent_never_becomes_markup():
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|parseFromString", TEXT) == []


def test_every_task_that_is_served_has_a_view():
    titles = re.search(r"const TITLES = {(.*?)}", TEXT, re.DOTALL)
    assert titles
    assert set(re.findall(r"'([a-z0-9-]+)':", titles[1])) == TASKS.keys()
