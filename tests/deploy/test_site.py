"""The site of the docs: what is staged for it holds every page, and whatever a page links to."""

import pytest

from deploy import site
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "pages"
    site.stage(folder)
    return folder


def test_every_link_of_a_page_leads_to_a_file_that_is_staged(pages):
    links = [(page, link) for page in pages.rglob("*.md") for link in site.LINK.findall(page.read_text())]
    assert len(links) > 300
    assert [
        (page.name, link) for page, link in links if not link.startswith("/") and not (page.parent / link).is_file()
    ] == []


def test_a_page_in_the_list_exists_and_every_page_of_docs_is_in_it(pages):
    listed = {name for files in site.NAV.values() for name in files}
    assert all((pages / name).is_file() for name in listed)
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= listed


def test_a_page_asks_no_other_server(pages):
    assert site.config(pages, pages)["theme"]["font"] is False
