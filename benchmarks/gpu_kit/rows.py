"""Make rows for RESULTS.md of what was measured: `python -m benchmarks.gpu_kit.rows result.json`."""

import json
import sys
from pathlib import Path

COLUMNS = ("what", "against", "aim", "reached")


def rows(result: dict) -> str:
    """Return a heading and a table: *what, against, aim, reached*; and which parts ended early."""
    lines = [f"Commit {result['commit'][:8]}, Python {result['python']}, `measure.py --device {result['device']}`.", ""]
    lines += ["| What | Against | Aim | Reached |", "|---|---|---|---|"]
    for part in result["parts"]:
        for figure in part["figures"]:
            cells = (str(figure.get(name) or "").replace("|", "/") for name in COLUMNS)
            lines.append(f"| {' | '.join(cells)} |")
    for part in result["parts"]:
        if part.get("ended"):
            lines += ["", f"{part['part']}: {part['ended']}, {part['seconds']} s."]
    return "\n".join(lines)


if __name__ == "__main__":
    print(rows(json.loads(Path(sys.argv[1]).read_text())))
