"""The page's main jobs in Firefox ESR, driven by Playwright over WebDriver BiDi, which needs no driver beside it.

Each job is a visit of its own. Nothing may be said on the console, and no stranger be asked. Jobs of a model that is
not there are left out.

    python -m tests.rigs.page_firefox
"""

import argparse
import contextlib
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import httpx
from playwright.sync_api import Browser, Error, expect, sync_playwright

from tests.conftest import ROOT
from tests.page.conftest import Visit
from tests.rigs import page_jobs, report
from tests.rigs.page_jobs import JOBS, MODELS, Job
from tests.rigs.replica import Replica

FIREFOX = shutil.which("firefox-esr")
MISSING = "Firefox ESR is not installed: apt-get install --no-install-recommends firefox-esr"
PREFERENCES: dict[str, dict[str, str | float | bool]] = {
    "light": {"layout.css.prefers-color-scheme.content-override": 1},
    "dark": {"layout.css.prefers-color-scheme.content-override": 0},
    "forced colours": {"browser.display.document_color_use": 2},
}
"""How Firefox is told of each look: BiDi of ESR 153 has no command for them, so each look is a browser of its own."""
MOUSE = {"ui.primaryPointerCapabilities": 6, "ui.allPointerCapabilities": 6}
"""A fine pointer that hovers: without a screen Firefox says that it has none, as a phone would."""
UNKNOWN = "emulation.setMediaFeaturesOverride"
"""Playwright 1.65 sends this for every context; Firefox ESR 153 does not know it, and refuses."""
REPLACE = f"""const plain = JSON.stringify
JSON.stringify = (value, ...others) => plain(value?.method === '{UNKNOWN}'
  ? {{ ...value, method: 'session.status', params: {{}} }} : value, ...others)"""
"""Run in Playwright's process before all else: what is unknown becomes a question that changes nothing."""
PICTURES = ROOT / "build/page-firefox"
"""Of the page after each job that failed."""
MOST_WORDS = 40
"""Of an error: Playwright's are long."""
MILLISECONDS = 20_000
"""For which anything is waited for."""
OK, LEFT_OUT = "ok", "left out"


@contextlib.contextmanager
def firefox(look: str, downloads: Path) -> Iterator[Browser]:
    """Give a browser with one of `PREFERENCES`, which saves files to a folder, until the block ends."""
    script = "data:text/javascript," + urllib.parse.quote(REPLACE, safe="")
    with patch.dict(os.environ, NODE_OPTIONS=f"--import={script}"):
        playwright = sync_playwright().start()
    try:
        browser = playwright.firefox.launch(
            channel="moz-firefox",
            executable_path=FIREFOX,
            downloads_path=downloads,
            firefox_user_prefs=MOUSE | PREFERENCES[look],
        )
        try:
            yield browser
        finally:
            browser.close()
    finally:
        playwright.stop()


def run(base: str, only: str = "") -> dict[str, str]:
    """Do the jobs whose names hold some words on the page of a service; print and return what became of each."""
    served = {model["name"] for model in httpx.get(f"{base}/v1/models").json()["models"]}
    chosen = [job for job in JOBS if only in job.name]
    results = {job.name: LEFT_OUT for job in chosen if job.model not in served}
    expect.set_options(timeout=MILLISECONDS)
    _row("job", "result", "seconds")
    for look in PREFERENCES:
        jobs = [job for job in chosen if job.look == look and job.model in served]
        if not jobs:
            continue
        with tempfile.TemporaryDirectory() as folder, firefox(look, Path(folder)) as browser:
            report.progress("page-firefox", f"Firefox {browser.version}, {look}")
            for job in jobs:
                begin = time.monotonic()
                results[job.name] = fault = do(job, browser, base, Path(folder))
                _row(job.name, OK if fault == OK else "FAILED", f"{time.monotonic() - begin:.1f}")
                if fault != OK:
                    print(f"    {fault}", flush=True)
    for job in chosen:
        if results[job.name] == LEFT_OUT:
            _row(job.name, LEFT_OUT, "")
    return results


def do(job: Job, browser: Browser, base: str, downloads: Path) -> str:
    """Do a job; return `OK`, or what is wrong, and keep a picture of the page then."""
    context = browser.new_context(viewport={"width": job.width, "height": 1000})
    context.set_default_timeout(MILLISECONDS)
    seen = Visit(context, base, refusals=False)
    try:
        job.do(seen, downloads) if job.saves else job.do(seen)
        assert not seen.said, "nothing may be on the console"
        assert not seen.strangers, f"a stranger was asked: {seen.strangers[0]}"
    except Exception as error:  # whatever it is, the other jobs are done
        steps = traceback.extract_tb(error.__traceback__)
        where = [f"line {step.lineno}, {step.line}:" for step in steps if step.filename == page_jobs.__file__][:1]
        said = [f"The console says: {words}" for words in seen.said[:1]]  # before the picture, which adds to it
        PICTURES.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(Error):
            seen.page.screenshot(path=PICTURES / f"{re.sub('[^a-z0-9]+', '-', job.name.lower())}.png")
        return " ".join(" ".join([*where, type(error).__name__, *str(error).split()[:MOST_WORDS], *said]).split())
    finally:
        context.close()
    return OK


def _row(name: str, result: str, seconds: str) -> None:
    print(f"{name:64} {result:8} {seconds:>7}".rstrip(), flush=True)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Do the page's main jobs in Firefox.")
    parser.add_argument("--artifacts", type=Path, default=ROOT / "artifacts", help="holds digits and dates")
    parser.add_argument("--only", default="", help="words that the names of the jobs to do hold")
    given = parser.parse_args()
    if not FIREFOX:
        print(MISSING, file=sys.stderr)
        return 1
    shutil.rmtree(PICTURES, ignore_errors=True)
    others = [name for name in MODELS if name not in report.BUNDLED]
    with report.only_bundled(given.artifacts, *others) as artifacts, Replica(artifacts, log_level="warning") as replica:
        results = list(run(str(replica.http.base_url).rstrip("/"), given.only).values())
        if replica.process.poll() is not None:
            print(f"The service has ended with {replica.process.returncode}: {replica.said()[-2000:]}", flush=True)
    left_out, failed = results.count(LEFT_OUT), len([one for one in results if one not in (OK, LEFT_OUT)])
    print(f"{len(results)} jobs: {failed} failed, {left_out} left out", flush=True)
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
