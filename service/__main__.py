"""`python -m service`: read the settings, check and load the artifacts, listen.

Exit status: 0 after a stop, 2 for settings, 3 for an artifact, 4 for the device, 5 if the port cannot be had, 6 if a
model cannot run.
"""

import contextlib
import json
import signal
import socket
import sys
from collections.abc import Iterator, Mapping

import structlog
import uvicorn

from contract.artifact import ArtifactError
from service.app import create_app
from service.kept import open_store
from service.keys import Keys
from service.logs import configure
from service.run import ProviderError, SessionError
from service.served import Predictor, Served, load
from service.settings import Settings, SettingsError, read_settings
from service.wire import wire

log = structlog.get_logger()

EXAMPLES = {
    "text2text-generation": "the twenty-third of March 2021",
    "text-generation": "Once upon a time",
    "fill-mask": "The cat sat on the {mask}.",
}
"""Texts to try, by task."""


class Server(uvicorn.Server):
    """A server for which being told to stop is no failure: uvicorn would raise the signal again once it has stopped."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM; the second one does not wait."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def main() -> int:
    """Serve until stopped; return the exit status."""
    try:
        settings = read_settings()
        store = open_store(settings)
        Keys(settings)
    except (SettingsError, ValueError, ImportError) as error:
        print(f"settings cannot be used:\n{error}", file=sys.stderr)  # noqa: T201 # there is no log yet
        return 2
    configure(settings)
    log.info("settings", **settings.model_dump(mode="json"))
    try:
        models = load(settings)
    except ArtifactError as error:
        log.error("artifact cannot be used", file=str(error.file), reason=error.reason)
        return 3
    except (ProviderError, SessionError) as error:
        log.error("device or graph cannot be used", reason=str(error))
        return 4
    try:
        listening = _listen(settings)
    except OSError as error:
        log.error("port cannot be had", host=settings.host, port=settings.port, reason=error.strerror)
        return 5
    with listening:
        url = "http://{}:{}".format(*listening.getsockname()[:2])
        log.info("listening", url=url)
        app = create_app(settings, models, store, lambda: _welcome(settings, url, models))
        server = Server(
            uvicorn.Config(
                app,
                loop="uvloop" if sys.platform != "win32" else "asyncio",
                http=wire(settings),
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=settings.shutdown_grace_seconds,
            )
        )
        server.run(sockets=[listening])
    if failure := app.state.regard.failure:
        log.error("model cannot run", reason=failure)
        return 6
    return 0


def _welcome(settings: Settings, url: str, models: Mapping[str, Served]) -> None:
    """Tell a person, where logs are lines for people, what to open and what to try."""
    if settings.log_format != "console":
        return
    lines = [f"open  {url}/", f"      {url}/docs"]
    lines += [f"try   {_command(served, f'{url}/v1/models/{name}')}" for name, served in models.items()]
    print("", *lines, "", sep="\n", flush=True)  # noqa: T201 # for a person


def _command(served: Served, url: str) -> str:
    """Return a curl command that a model answers, with the files that lie in the repository."""
    endpoint = f"{url}/{served.endpoints[0]}"
    if served.manifest.image:
        query = "top_k=1&attention=rollout&digits=2" if served.endpoints[0] == "classify" else "attention=rollout"
        return f"curl -H 'Content-Type: image/png' --data-binary @tests/data/digits/seven.png '{endpoint}?{query}'"
    text = EXAMPLES.get(served.manifest.task, "The cat sat on the mat.")
    body = json.dumps({"inputs": text.format(mask=served.mask) if isinstance(served, Predictor) else text})
    return f"curl -H 'Content-Type: application/json' -d '{body}' {endpoint}"


def _listen(settings: Settings) -> socket.socket:
    """Bind before anything is announced, so that a taken port is one clear line."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((settings.host, settings.port))
    return listening


if __name__ == "__main__":
    sys.exit(main())
