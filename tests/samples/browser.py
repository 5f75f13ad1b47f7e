"""A real browser for tests of the page, which are skipped without one, and say so."""

from contextlib import contextmanager

import pytest

from benchmarks import browser


def require():
    """Skip the test without a browser, or without what drives it."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    if not browser.CHROMIUM:
        pytest.skip("chromium is not installed: apt-get install chromium")


@contextmanager
def chromium():
    """Give a browser until the block ends."""
    require()
    with browser.chromium() as started:
        yield started
