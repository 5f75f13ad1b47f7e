"""Runs every call of every real client against the service: `make conformance`.

Prints a table of the clients with how many of their calls were right, and what was wrong of the others; the exit status
is 1 if there is one. A client that cannot be installed here is named with the reason.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers import Unusable, log
from tests.clients.environments import CLIENTS, node_packages, prepared
from tests.clients.examples import examples
from tests.conftest import ROOT
from tests.rigs.replica import Replica
from tests.samples import chats
from tests.samples.api_keys import EVERY_SCOPE, line
from tests.samples.exports import exported, once
from tests.samples.sounds import written_sound
from tests.samples.whisper import export_whispers

MODELS = {
    "images": "digits", "objects": "scenes-detr", "seq2seq": "dates", "causal": "dates-clm", "masks": "dates-mlm",
    "embeddings": "minilm", "tags": "dates-tags", "ranker": "dates-rank", "speech": "several", "labels": "scenes-clip",
    "chat": "chat",
}  # fmt: skip
"""The model of each kind that calls are made of: bundled ones, and those of the tests that hear one second at once, or
take chats."""
KEYS = {"predict": "key-of-a-client", "admin": "key-of-an-admin"}
SECONDS = 900
"""What all calls of one module may take."""


@dataclass(frozen=True)
class Outcome:
    """What came of one call: `fault` is None if it was right."""

    call: str
    fault: str | None


def link_models(folder: Path) -> None:
    """Fill a folder with links to the artifacts of MODELS, which are exported now if the tests keep none."""
    found = [ROOT / "model/artifacts"]
    for name in ("languages", "minilm", "scenes-detr", "scenes-clip"):
        log(f"{name}: the tests' export, or a new one")
        found.append(exported(name))
    log("a small model of speech: the tests' export, or a new one")
    found.append(once("whispers", export_whispers))
    log("a small decoder that takes chats: the tests' export, or a new one")
    found.append(chats.folder() / "artifacts")
    for model in (model for artifacts in found for model in artifacts.iterdir()):
        (folder / model.name).symlink_to(model)


@contextlib.contextmanager
def running_service() -> Iterator[dict[str, Any]]:
    """Run the service with MODELS, and one that needs keys; gives what calls get of them."""
    with tempfile.TemporaryDirectory() as folder:
        every, one, keys = (Path(folder) / name for name in ("every", "one", "keys.txt"))
        keys.write_text(line(KEYS["predict"], name="client") + line(KEYS["admin"], EVERY_SCOPE, name="admin"))
        every.mkdir()
        one.mkdir()
        link_models(every)
        (Path(folder) / "talk.wav").write_bytes(written_sound(3.3, 2))
        (one / MODELS["images"]).symlink_to(every / MODELS["images"])
        with Replica(every) as replica, Replica(one, api_keys=keys) as keyed:
            yield {
                "url": f"http://127.0.0.1:{replica.port}",
                **MODELS,
                "classifier": None,
                "sparse": None,
                "extractor": None,
                "entailment": None,
                "picture": str(ROOT / "tests/data/digits/seven.png"),
                "coloured": str(ROOT / "model/bundled/scenes-clip/examples/red-7-blue-2.png"),
                "scene": str(ROOT / "tests/data/scenes/five.png"),
                "sound": str(Path(folder) / "talk.wav"),
                "artifacts": str(every),
                "manifests": str(ROOT / "k8s/kserve"),
                "keyed": {"url": f"http://127.0.0.1:{keyed.port}", **KEYS},
            }


def outcomes(name: str, interpreter: Path, service: dict[str, Any]) -> list[Outcome]:
    """Make all calls of a client and run its examples; return what came of each."""
    if CLIENTS[name].npm:
        service = {**service, "packages": str(node_packages(name))}
    found = [outcome for module in CLIENTS[name].modules for outcome in _called(module, interpreter, service)]
    for example in examples():
        if example.client == name:
            address = service["url"].removeprefix("http://")
            fault = example.fault(interpreter, address, Path(service["artifacts"]), service.get("packages"))
            found.append(Outcome(f"The example at line {example.line} of docs/clients.md", fault))
    return found


def _called(module: str, interpreter: Path, service: dict[str, Any]) -> list[Outcome]:
    """Run the calls of a module in its client's environment."""
    command = [interpreter, Path(__file__).with_name("run_calls.py"), module, json.dumps(service)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, env=environment, timeout=SECONDS, check=False
        )
    found = [Outcome(told["call"], told["fault"]) for told in map(json.loads, done.stdout.splitlines())]
    if done.returncode or not found:
        last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1][:400]
        found.append(Outcome(f"{module} as a whole", f"ended with {done.returncode}: {last}"))
    return found


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients.conformance", description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of {', '.join(CLIENTS)} (default: all)")
    given = parser.parse_args()
    if unknown := set(given.clients) - set(CLIENTS):
        parser.error(f"clients: must be of {', '.join(CLIENTS)}, given {', '.join(sorted(unknown))}")
    faults, missing = [], []
    print("| client | version | calls | answered |\n|---|---|---:|---:|")
    with running_service() as service:
        for name in given.clients or CLIENTS:
            try:
                interpreter, version = prepared(name)
            except Unusable as error:
                missing.append(f"{name}: NOT RUN: {error}")
                continue
            found = outcomes(name, interpreter, service)
            wrong = [outcome for outcome in found if outcome.fault]
            faults += [f"{name}: {outcome.call}: {outcome.fault}" for outcome in wrong]
            print(f"| {name} | {version} | {len(found)} | {len(found) - len(wrong)} |", flush=True)
    for said in (missing, faults):
        if said:
            print("\n" + "\n".join(said))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
