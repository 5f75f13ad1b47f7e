"""Look up known vulnerabilities of what the images install: `python -m deploy.audit [--strict]`.

It asks the database that pip-audit asks, for every pin of the lock files. The exit status is 1 if there is a known
vulnerability, and 2 if pip-audit failed. Where the database cannot be reached, or knows none of the packages (as a
mirror of the index does not), nothing can be said: it prints "not audited", its last line names what was not, and the
exit status is 0, with `--strict` 2.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "requirements"
UNREACHABLE = re.compile(r"\b(\w*ConnectionError|ConnectTimeout|ReadTimeout|ProxyError)\b|Could not connect to ")
"""What pip-audit prints, or what is raised in it, if it cannot connect."""
LAST_LINES = 5
"""Lines of an error of pip-audit that are printed."""


class AuditError(Exception):
    """pip-audit failed. The text is the end of what it printed."""


def audit(lock: Path) -> Mapping[str, Any]:
    """Return what pip-audit reports of a lock file; {} if it could not connect. Raises AuditError."""
    pinned = "--require-hashes" if lock.suffix == ".lock" else "--no-deps"
    command = [sys.executable, "-m", "pip_audit", "--requirement", lock, "--disable-pip", pinned]
    options = ["--format", "json", "--progress-spinner", "off"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)  # noqa: S603 # our own words
    try:
        report: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        if UNREACHABLE.search(done.stderr):
            return {}
        raise AuditError("\n  ".join(done.stderr.strip().splitlines()[-LAST_LINES:])) from None
    return report


def found(report: Mapping[str, Any]) -> tuple[int, int, list[str]]:
    """Return how many packages were looked up and how many skipped, and a line for each known vulnerability."""
    packages = report.get("dependencies", [])
    audited = [one for one in packages if "vulns" in one]
    lines = []
    for package in audited:
        for fault in package["vulns"]:
            mended = ", ".join(fault["fix_versions"]) or "no version"
            lines.append(f"{package['name']} {package['version']}: {fault['id']}, mended in {mended}")
    return len(audited), len(packages) - len(audited), lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit every lock file; return the exit status."""
    parser = argparse.ArgumentParser(prog="make audit", description="Look up known vulnerabilities.")
    parser.add_argument("--strict", action="store_true", help="end with 2 where something cannot be looked up")
    strict = parser.parse_args(arguments).strict
    status = 0
    unknown = []
    for lock in [*sorted(FOLDER.glob("*.lock")), FOLDER / "torch.txt"]:
        try:
            report = audit(lock)
        except AuditError as error:
            print(f"{lock.name}: pip-audit failed", error, sep="\n  ")  # noqa: T201 # for a person
            status = 2
            continue
        count, skipped, lines = found(report)
        said = f"{count} packages, {skipped} skipped, {len(lines)} known vulnerabilities"
        if not count:
            unknown.append(lock.name)
        if not report:
            said = "not audited: the database cannot be reached"
        elif not count:
            said = f"not audited: the database knows none of {skipped} packages"
        print(f"{lock.name}: {said}", *lines, sep="\n  ")  # noqa: T201 # for a person
        status = status or int(bool(lines))
    if unknown:
        print(f"NOT AUDITED: {', '.join(unknown)}")  # noqa: T201 # for a person
    return status or (2 if strict and unknown else 0)


if __name__ == "__main__":
    sys.exit(main())
