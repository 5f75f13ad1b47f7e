"""A real browser for tests of the page: Debian's Chromium, driven by Playwright."""

import os
import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = os.environ.get("CHROMIUM", "") or shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium():
    """Give a browser until the block ends; without one, or without Playwright, the test is skipped and says so."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
