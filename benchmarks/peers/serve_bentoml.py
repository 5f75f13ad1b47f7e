"""BentoML: a batchable method. It takes a list, so an image comes as base64 in JSON; raw bodies are not batched."""

import base64
import os
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bentoml
from shared import Model, parameters

ARGUMENTS = "PEER_ARGUMENTS"  # its worker processes have command lines of their own
given = parameters(shlex.split(os.environ[ARGUMENTS]) if ARGUMENTS in os.environ else None)


@bentoml.service(
    workers=given.workers,
    threads=1,
    traffic={"timeout": 60, "max_concurrency": 100000},
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
)
class Classifier:
    def __init__(self):
        self.model = Model(given.model, given.threads)
        self.pool = ThreadPoolExecutor(given.pool)

    # not a time to wait, which it chooses itself, but the latency beyond which it answers 503
    @bentoml.api(batchable=True, max_batch_size=given.batch, max_latency_ms=int(given.timeout), route="/classify")
    def classify(self, images: list[str]) -> list[dict]:
        return self.model.classify(list(self.pool.map(self.decode, images)))

    def decode(self, text):
        return self.model.decode(base64.b64decode(text))


if __name__ == "__main__":
    os.environ[ARGUMENTS] = shlex.join(sys.argv[1:])
    os.environ["BENTOML_DO_NOT_TRACK"] = "True"
    os.chdir(Path(__file__).parent)
    command = str(Path(sys.executable).parent / "bentoml")
    where = ["--host", "127.0.0.1", "--port", str(given.port)]
    os.execv(command, [command, "serve", "serve_bentoml:Classifier", *where])
