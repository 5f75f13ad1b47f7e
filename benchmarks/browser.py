"""A real browser: Debian's Chromium, driven by Playwright."""

import shutil
from contextlib import contextmanager

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""No name leads anywhere: whoever asks a stranger can be seen, and the stranger is not asked."""


@contextmanager
def chromium():
    """Give a browser until the block ends. Only one may run at a time in a process."""
    from playwright.sync_api import sync_playwright

    if not CHROMIUM:
        raise FileNotFoundError("chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", ALONE])
        try:
            yield browser
        finally:
            browser.close()
