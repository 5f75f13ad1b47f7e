"""The examples of docs/clients.md: each runs in the environment of the client whose section it is in."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

PAGE = ROOT / "docs/clients.md"
BLOCK = re.compile(r"```(python|sh)\n(.*?)```", re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\) +# (.*)$", re.MULTILINE)
ADDRESS = "127.0.0.1:8000"


@dataclass(frozen=True)
class Example:
    """A block of the page, of Python or of shell, in the section of a client; `line` is where it begins."""

    client: str
    language: str
    code: str
    line: int

    def fault(self, interpreter: Path, address: str, artifacts: Path, packages: str | None = None) -> str | None:
        """Run it against the service at an address; return what was wrong, such as other output than its comments.

        `packages` are those of Node, as if `npm install` had been called where it runs.
        """
        code = self.code.replace(ADDRESS, address).replace("artifacts/", f"{artifacts}/")
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "tests").symlink_to(ROOT / "tests")
            command = [interpreter, "-c", code] if self.language == "python" else ["bash", "-euc", code]
            path = f"{interpreter.parent}:/usr/local/bin:/usr/bin:/bin"
            if packages:
                (Path(folder) / "node_modules").symlink_to(packages)
                path = f"{packages}/.bin:{Path(shutil.which('node') or '').parent}:{path}"
            environment = {"PATH": path, "HOME": folder, "NO_PROXY": "*"}
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=180)
        if done.returncode:
            return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1][:400]
        expected, printed = PRINTED.findall(self.code), done.stdout.splitlines()
        if expected and printed != expected:
            return f"printed {printed}, the page says {expected}"
        return None


def examples(page: Path = PAGE) -> list[Example]:
    """Return the examples of the page in order."""
    text, found = page.read_text(), []
    for block in BLOCK.finditer(text):
        before = text[: block.start()]
        (*_, client) = re.findall(r"^## (\S+)$", before, re.MULTILINE)
        found.append(Example(client, block[1], block[2], before.count("\n") + 1))
    return found
