"""Which clients there are, and the environment of each: below .venv-clients, made where it is missing."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.peers import ROOT, Unusable, prepare, version

CLIENTS_FOLDER = ROOT / ".venv-clients"


@dataclass(frozen=True)
class Client:
    """What a client needs, and the modules of this folder that call it; `before` is a Python that it does not know.

    `npm` are packages of Node, which a client of another language needs. `is_ours` is true of our own client, whose
    wheel is installed beside what it `requires`; `python` is the version that it has there.
    """

    requires: tuple[str, ...]
    modules: tuple[str, ...]
    package: str = ""
    before: tuple[int, int] | None = None
    folder: Path | None = None
    npm: tuple[str, ...] = ()
    is_ours: bool = False
    python: str = ""


FLOORS = tuple(line for line in (ROOT / "tests/clients/floors.txt").read_text().splitlines() if line[:1] != "#")
"""The lowest versions of what our own client needs."""
OURS = Client((), ("regard_calls",), "regard-client", is_ours=True)
CLIENTS = {
    "regard-lowest": replace(OURS, requires=FLOORS, python="3.10"),
    "regard-gradio": replace(OURS, requires=("gradio==6.*", "streamlit==1.*")),
    "regard-lit-nlp": replace(OURS, requires=("lit-nlp==1.3.*",)),
    "regard-pyright": replace(OURS, requires=("pyright==1.1.*",), modules=("pyright_calls",)),
    "tritonclient": Client(("tritonclient[http]==2.73.0",), ("tritonclient_calls",), "tritonclient"),
    "kserve": Client(("kserve==0.21.0",), ("kserve_calls", "kserve_manifests"), "kserve"),
    "mlserver": Client(("mlserver==1.7.1",), ("mlserver_calls",), "mlserver", before=(3, 13)),
    "openai": Client(("openai==3.54.*", "numpy"), ("openai_calls",), "openai"),
    "huggingface_hub": Client(
        ("huggingface_hub==2.4.*", "numpy"), ("hugging_face_calls", "tei_calls"), "huggingface_hub"
    ),
    "aiperf": Client(("aiperf==0.13.0",), ("aiperf_calls",), "aiperf", folder=ROOT / ".venv-peers/aiperf"),
    "curl": Client((), ("curl_calls",)),
    "openapi-python-client": Client(
        ("openapi-python-client==0.29.1",), ("openapi_python_calls",), "openapi-python-client"
    ),
    "openapi-fetch": Client(
        (),
        ("openapi_fetch_calls",),
        "openapi-fetch",
        npm=("openapi-fetch@0.17.0", "openapi-typescript@7.13.0", "typescript@5.9.3"),
    ),
    "cohere": Client(("cohere==5.21.1", "langchain-cohere==0.6.*"), ("cohere_calls",), "cohere"),
    "tei-client": Client(("tei-client==0.2.4",), ("tei_client_calls",), "tei-client"),
    "llama-index": Client(
        (
            "llama-index-embeddings-text-embeddings-inference==0.6.*",
            "llama-index-postprocessor-cohere-rerank==0.10.*",
            "llama-index-postprocessor-jinaai-rerank==0.6.*",
            "llama-index-postprocessor-tei-rerank==0.6.*",
        ),
        ("llama_index_calls",),
        "llama-index-core",
    ),
    "langchain": Client(("langchain-openai==1.*", "numpy"), ("langchain_calls",), "langchain-openai"),
}
"""The clients by name."""


def prepared(name: str) -> tuple[Path, str]:
    """Return the interpreter of a client's environment and the client's version. Raises Unusable: why there is none."""
    client = CLIENTS[name]
    if client.before and sys.version_info >= client.before:
        raise Unusable(f"needs Python before {'.'.join(map(str, client.before))}")
    if client.npm:
        return _prepared_node(CLIENTS_FOLDER / name, client)
    if not client.requires:
        if not shutil.which(name):
            raise Unusable("is not installed")
        told = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
        return Path(sys.executable), told.split()[1]
    requires = (*client.requires, wheel()) if client.is_ours else client.requires
    interpreter = prepare(client.folder or CLIENTS_FOLDER / name, requires, found_python(client.python))
    return interpreter, version(interpreter, client.package)


def found_python(version: str) -> str:
    """Return the interpreter of a version, or this one where none is named. Raises Unusable if there is none."""
    if not version or sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    kept = (Path.home() / ".pyenv/versions").glob(f"{version}.*/bin")
    found = shutil.which(f"python{version}", path=os.pathsep.join([*map(str, sorted(kept)), os.environ["PATH"]]))
    if not found or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
        raise Unusable(f"needs Python {version}, which is not here")
    return found


def wheel() -> str:
    """Return our own client as a requirement: a wheel that is built of a copy, since a build writes into its folder."""
    left_out = shutil.ignore_patterns("*.egg-info", "build", "__pycache__", "signatures", "examples")
    made = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}  # the same files are the same wheel
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(ROOT / "client", Path(folder) / "client", ignore=left_out)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", copy]
        command += ["--wheel-dir", CLIENTS_FOLDER]
        done = subprocess.run(command, capture_output=True, text=True, env=made, check=False)
    if done.returncode:
        raise Unusable(f"cannot be built: {(done.stderr.strip().splitlines() or ['no reason'])[-1][:200]}")
    (found,) = CLIENTS_FOLDER.glob("regard_client-*.whl")
    return f"regard-client @ {found.as_uri()}#sha256={hashlib.sha256(found.read_bytes()).hexdigest()}"


def node_packages(name: str) -> Path:
    """Return the folder of a client's packages of Node, which other programs find as they find those beside them."""
    return CLIENTS_FOLDER / name / "node_modules"


def _prepared_node(folder: Path, client: Client) -> tuple[Path, str]:
    """Return the interpreter of the calls, and the client's version, once its packages are there. Raises Unusable."""
    if missing := [program for program in ("node", "npm") if not shutil.which(program)]:
        raise Unusable(f"needs {' and '.join(missing)}: apt-get install nodejs npm")
    done, packages = folder / "installed.txt", node_packages(folder.name)
    if not done.exists() or done.read_text() != "\n".join(client.npm):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", *client.npm]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, timeout=300)
        if ended.returncode:
            raise Unusable(f"npm: cannot install: {(ended.stderr.strip().splitlines() or ['no reason'])[0][:200]}")
        done.write_text("\n".join(client.npm))
    return Path(sys.executable), json.loads((packages / client.package / "package.json").read_text())["version"]
