"""A real browser for tests of the page: Debian's Chromium, driven by Playwright."""

import os
import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = os.environ.get("CHROMIUM", "") or shutil.which("chromium") or shutil.which("chromium-browser")


ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""No name leads anywhere: whoever asks a stranger is seen, and the stranger is not asked."""


@contextmanager
def chromium():
    """Give a browser until the block ends; without one, or without Playwright, the test is skipped and says so."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", ALONE])
        try:
            yield browser
        finally:
            browser.close()
