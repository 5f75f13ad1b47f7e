"""`python -m service`: read the settings, check and load the artifacts, listen.

Exit status: 0 after a stop, 2 for settings, 3 for an artifact, 4 for the device, 5 if the port cannot be had, 6 if a
model cannot run.
"""

import contextlib
import signal
import socket
import sys
from collections.abc import Iterator, Mapping

import structlog
import uvicorn

from contract.artifact import ArtifactError
from service.app import create_app
from service.logs import configure
from service.run import ProviderError, SessionError
from service.served import Served, load
from service.settings import Settings, SettingsError, read_settings

log = structlog.get_logger()

TRY = {
    "image-classification": (
        "curl -H 'Content-Type: image/png' --data-binary @tests/data/digits/seven.png "
        "'{url}/v1/models/{name}/classify?top_k=1&attention=rollout&digits=2'"
    ),
    "text2text-generation": (
        "curl -H 'Content-Type: application/json' -d '{{\"inputs\": \"the twenty-third of March 2021\"}}' "
        "{url}/v1/models/{name}/generate"
    ),
}


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
    except SettingsError as error:
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
        app = create_app(settings, models, lambda: _welcome(settings, url, models))
        server = Server(
            uvicorn.Config(
                app,
                loop="uvloop" if sys.platform != "win32" else "asyncio",
                http="httptools",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
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
    for name, served in models.items():
        lines += [f"try   {line}" for line in TRY.get(served.manifest.task, "").format(url=url, name=name).splitlines()]
    print("", *lines, "", sep="\n", flush=True)  # noqa: T201 # for a person


def _listen(settings: Settings) -> socket.socket:
    """Bind before anything is announced, so that a taken port is one clear line."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((settings.host, settings.port))
    return listening


if __name__ == "__main__":
    sys.exit(main())
