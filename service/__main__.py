"""`python -m service`: read the settings, check and load the artifacts, listen.

Exit status: 0 after a stop, 2 for settings, 3 for an artifact, 4 for the device, 5 if the port cannot be had, 6 if a
model cannot run.
"""

import socket
import sys

import structlog
import uvicorn

from contract.artifact import ArtifactError
from service.app import create_app
from service.logs import configure
from service.run import ProviderError, SessionError
from service.served import load
from service.settings import Settings, SettingsError, read_settings

log = structlog.get_logger()


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
    app = create_app(settings, models)
    try:
        listening = _listen(settings)
    except OSError as error:
        log.error("port cannot be had", host=settings.host, port=settings.port, reason=error.strerror)
        return 5
    with listening:
        host, port = listening.getsockname()[:2]
        log.info("listening", url=f"http://{host}:{port}/")
        server = uvicorn.Server(
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


def _listen(settings: Settings) -> socket.socket:
    """Bind before anything is announced, so that a taken port is one clear line."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((settings.host, settings.port))
    return listening


if __name__ == "__main__":
    sys.exit(main())
