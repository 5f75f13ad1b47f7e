"""Which clients there are, and the environment of each: below .venv-clients, made where it is missing."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import ROOT, Unusable, prepare, version

CLIENTS_FOLDER = ROOT / ".venv-clients"


@dataclass(frozen=True)
class Client:
    """What a client needs, and the modules of this folder that call it; `before` is a Python that it does not know."""

    requires: tuple[str, ...]
    modules: tuple[str, ...]
    package: str = ""
    before: tuple[int, int] | None = None
    folder: Path | None = None


CLIENTS = {
    "tritonclient": Client(("tritonclient[http]==2.73.0",), ("tritonclient_calls",), "tritonclient"),
    "kserve": Client(("kserve==0.21.0",), ("kserve_calls", "kserve_manifests"), "kserve"),
    "mlserver": Client(("mlserver==1.7.1",), ("mlserver_calls",), "mlserver", before=(3, 13)),
    "openai": Client(("openai==3.54.*", "numpy"), ("openai_calls",), "openai"),
    "huggingface_hub": Client(
        ("huggingface_hub==2.4.*", "numpy"), ("hugging_face_calls", "tei_calls"), "huggingface_hub"
    ),
    "aiperf": Client(("aiperf==0.13.0",), ("aiperf_calls",), "aiperf", folder=ROOT / ".venv-peers/aiperf"),
    "curl": Client((), ("curl_calls",)),
    "langchain": Client(("langchain-openai==1.*",), (), "langchain-openai"),
    "llama-index": Client(("llama-index-embeddings-text-embeddings-inference==0.6.*",), (), "llama-index-core"),
}
"""By name. The last two are in the examples of docs/clients.md alone."""


def prepared(name: str) -> tuple[Path, str]:
    """Return the interpreter of a client's environment and the client's version. Raises Unusable: why there is none."""
    client = CLIENTS[name]
    if client.before and sys.version_info >= client.before:
        raise Unusable(f"needs Python before {'.'.join(map(str, client.before))}")
    if not client.requires:
        if not shutil.which(name):
            raise Unusable("is not installed")
        told = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
        return Path(sys.executable), told.split()[1]
    interpreter = prepare(client.folder or CLIENTS_FOLDER / name, client.requires)
    return interpreter, version(interpreter, client.package)
