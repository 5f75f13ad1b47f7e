"""What the start of the service says to whoever started it: the models, the device, the address, a command to try."""

import json
import socket
from collections.abc import Mapping
from pathlib import Path

import structlog

from contract.names import listed
from service.explanations.usual import usual
from service.inputs.graph_inputs import SAMPLE_GRAPH, GraphInputs
from service.repository.models.served_model import ServedModel
from service.runtime.providers import PROVIDERS
from service.settings import Settings
from service.telemetry.logs import OUTPUT

log = structlog.get_logger()

PICTURE = "tests/data/digits/seven.png"
"""Of the repository; elsewhere there is none to send."""
EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 # these are compared, not bound
KEY = '-H "Authorization: Bearer $REGARD_KEY" '
"""The shell puts the key of whoever asks in its place."""


def welcome(settings: Settings, listening: socket.socket, models: Mapping[str, ServedModel]) -> None:
    """Say the four things: as an event of the log, or as lines if the log is for people."""
    served = sorted(models.values(), key=lambda one: (one.manifest.order, one.manifest.name))
    names = [one.manifest.name for one in served]
    device = ", ".join(name for name, provider in PROVIDERS.items() if provider in {one.provider for one in served})
    url = address(*listening.getsockname()[:2])
    command = command_to_try(url, served, needs_key=settings.api_keys is not None)
    if settings.log_format == "console":
        lines = [f"models   {listed(names)}", f"device   {device}", f"address  {url}/", f"try      {command}"]
        OUTPUT.write("\n".join(["", *lines, "", ""]))
    else:
        log.info("serving", models=names, device=device, url=url, command=command)


def address(host: str, port: int) -> str:
    """Return the URL at which a client on this machine reaches a socket."""
    host = EVERY_ADDRESS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def command_to_try(url: str, served: list[ServedModel], *, needs_key: bool) -> str:
    """Return a command that runs here: of the first model for which there is an input, or else the list of models."""
    key = KEY if needs_key else ""
    has_picture = Path(PICTURE).is_file()
    for model in served:
        endpoint = f"{url}/v1/models/{model.manifest.name}/{model.endpoints[0]}"
        if model.inputs.tokenizer:
            body = json.dumps({"inputs": model.example_text})
            return f"curl {key}-H 'Content-Type: application/json' -d '{body}' {endpoint}"
        if isinstance(model.inputs, GraphInputs):
            body = f'{{"graphs": [{SAMPLE_GRAPH}]}}'
            return f"curl {key}-H 'Content-Type: application/json' -d '{body}' {endpoint}"
        if has_picture:
            few = "top_k=1&" if model.endpoints[0] == "classify" else ""
            options = {"method": "raw"} if model.manifest.detection else usual(model.manifest)
            shown = "&".join(f"{name}={value}" for name, value in {**options, "digits": 2}.items())
            query = f"{few}{shown.replace('method=', 'attention=')}"
            return f"curl {key}-H 'Content-Type: image/png' --data-binary @{PICTURE} '{endpoint}?{query}'"
    return f"curl {key}{url}/v1/models"
