"""Look up known vulnerabilities of what the images install: `python -m deploy.audit`.

It asks the database that pip-audit asks, for every pin of the lock files. The exit status is 1 if there is a known
vulnerability. Where no database can be reached nothing can be said: it prints that, and the exit status is 0.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOCKS = Path(__file__).parents[1] / "requirements"


def audit(lock: Path) -> Mapping[str, Any]:
    """Return what pip-audit reports of a lock file; {} if it could not ask."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", lock, "--disable-pip", "--require-hashes"]
    options = ["--format", "json", "--progress-spinner", "off"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)  # noqa: S603 # our own words
    try:
        report: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {}
    return report


def found(report: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return how many packages were looked up, and a line for each known vulnerability."""
    audited = [one for one in report.get("dependencies", []) if "vulns" in one]
    lines = []
    for package in audited:
        for one in package["vulns"]:
            mended = ", ".join(one["fix_versions"]) or "no version"
            lines.append(f"{package['name']} {package['version']}: {one['id']}, mended in {mended}")
    return len(audited), lines


def main() -> int:
    """Audit every lock file; return the exit status."""
    vulnerable = False
    for lock in sorted(LOCKS.glob("*.lock")):
        count, lines = found(audit(lock))
        said = f"{count} packages, {len(lines)} known vulnerabilities" if count else "no database can be reached"
        print(f"{lock.name}: {said}", *lines, sep="\n  ")  # noqa: T201 # for a person
        vulnerable = vulnerable or bool(lines)
    return int(vulnerable)


if __name__ == "__main__":
    sys.exit(main())
