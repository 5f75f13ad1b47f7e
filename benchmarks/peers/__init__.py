"""Runtimes that are compared with: each in a virtual environment and a process of its own, which runs when told to."""

import json
import os
import subprocess
import sys
from pathlib import Path

from deploy import install

ROOT = Path(__file__).parents[2]


def log(line):
    """Say how far it is."""
    print(line, file=sys.stderr, flush=True)


class Unusable(Exception):
    """A peer that cannot be installed, started or believed: why."""


def prepare(folder, requires, python=sys.executable):
    """Make a virtual environment with these packages where it is missing or other; return its interpreter.

    `python` is the interpreter that it is made of. uv installs them, or pip where uv fails. Raises Unusable.
    """
    done, interpreter = folder / "installed.txt", folder / "bin/python"
    if not done.exists() or done.read_text() != "\n".join(requires):
        log(f"{folder.name}: installing {', '.join(requires)}")
        if not interpreter.exists():
            subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
        uv = install.find_uv(str(interpreter))
        pip = [*install.PIP, "--python", interpreter, "install", "--disable-pip-version-check"]
        for command in (uv, pip) if uv else (pip,):
            ended = subprocess.run([*command, "--quiet", *requires], capture_output=True, text=True)
            if not ended.returncode:
                break
        else:
            raise Unusable(f"cannot be installed: {(ended.stderr.strip().splitlines() or ['no reason'])[-1][:200]}")
        done.write_text("\n".join(requires))
    return interpreter


def version(interpreter, package):
    """Return the version of a package in an interpreter's environment."""
    command = [interpreter, "-c", f"from importlib.metadata import version; print(version('{package}'))"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def python(name, *packages):
    """Return the interpreter of a peer's virtual environment, which has these packages. Raises Unusable."""
    return prepare(ROOT / ".venv-peers" / name, packages)


class Peer:
    """A script at work: one JSON line goes in, one comes back."""

    def __init__(self, interpreter, script, *arguments, **environment):
        command = [interpreter, Path(__file__).parent / script, *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
        self.about = self._read()

    def ask(self, **question):
        """Return the answer to a question."""
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return self._read()

    def close(self):
        """Let the process end."""
        self._process.stdin.close()
        self._process.wait()

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args[1]}: ended with {self._process.wait()}")
        return json.loads(line)
