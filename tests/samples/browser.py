"""A real browser for tests of the page, which are skipped without one, and say so."""

from contextlib import contextmanager

import pytest

from benchmarks import browser


@contextmanager
def chromium():
    """Give a browser until the block ends."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    if not browser.CHROMIUM:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with browser.chromium() as started:
        yield started
