"""Calls of openapi-fetch, by types that openapi-typescript makes of `/openapi.json`: openapi_fetch_calls.ts.

Runs where there are Node and the packages of this client. Everything is made where the calls run.
"""

import base64
import json
import subprocess
from functools import cache
from pathlib import Path

CALLS_FILE = Path(__file__).with_suffix(".ts")
STRICT = ("--strict", "--noUncheckedIndexedAccess", "--noUnusedLocals", "--target", "es2022", "--lib", "es2022,dom")
MODULES = ("--module", "nodenext", "--outDir", "out")


def run(*command):
    """Run a program of the packages, or Node; return what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, (done.stdout + done.stderr)[-1500:]
    return done.stdout + done.stderr


@cache
def compiled(url, packages):
    """Generate types and compile the calls; return what the generator said."""
    if not Path("node_modules").exists():
        Path("node_modules").symlink_to(packages)
    Path("package.json").write_text('{"type": "module"}')
    Path("calls.ts").write_text(CALLS_FILE.read_text())
    programs = Path(packages) / ".bin"
    said = run(programs / "openapi-typescript", f"{url}/openapi.json", "-o", "regard.ts")
    run(programs / "tsc", *STRICT, *MODULES, "calls.ts")
    return said


def no_warnings(service):
    """Generate types, and compile calls with tsc --strict."""
    said = compiled(service.url, service.packages)
    assert "warn" not in said.lower(), said


def call_of(name, sentence):
    """Return a call of the compiled ones."""

    def call(service):
        compiled(service.url, service.packages)
        given = {name: value for name, value in vars(service).items() if isinstance(value, str)}
        given["picture"] = base64.b64encode(Path(service.picture).read_bytes()).decode()
        run("node", "out/calls.js", name, json.dumps(given))

    call.__doc__ = sentence
    return call


CALLS = [
    no_warnings,
    call_of("classify", "Classify a picture."),
    call_of("generate", "Generate texts, with alternatives and cross-attention."),
    call_of("embed", "Embed texts."),
    call_of("rerank", "Rank documents, and score a pair."),
    call_of("attention", "Ask what was looked at: now, and of an earlier answer by its id."),
    call_of("models", "List the models."),
    call_of("problem", "Be refused."),
]
