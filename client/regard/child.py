"""The service and the exporter as processes of their own, where their packages are installed."""

import atexit
import importlib.metadata
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, runtime_checkable

from typing_extensions import Self

from regard.connecting import Connecting
from regard.errors import BadInput, CommandFailed, NoService, NotInstalled
from regard.service import Service

DISTRIBUTION = "regard-service"
READY_SECONDS = 120.0
STOP_SECONDS = 40.0
"""The service lets requests end before it stops."""
LAST_LINES = 8
"""So many lines of a failed process are in the error."""
REASON = ": not exported: "
"""Stands in the line in which the exporter says why it failed."""
WRONG_OPTION = ": error: "
"""Stands in the line in which it says which option is wrong, behind lines that list them all."""
NOT_SAVED = re.compile(rf"({REASON}(?!config|model)\S+): must be in the checkpoint's folder.*")
"""Stands in the exporter's reason where a model was saved without its tokenizer or image processor."""
PROGRESS = re.compile(
    r"\s*($|WARNING|\[notice\]|Looking|Collecting|Obtaining|Downloading|Using|Requirement|Installing|Preparing|Building"
    r"|Attempting|Found|Uninstalling|Successfully|Resolved|Prepared|Installed|Uninstalled|Audited|[-+~] |[━╸]|Progress)"
)
"""How lines begin in which pip and uv tell what they do."""
CHOSEN_HERE = ("host", "port")
"""Settings that `start` chooses itself."""
JOINED = {"methods": ",", "image_size": "x"}
"""Options of an export that hold several values in one word, and what stands between them."""
REPEATED = ("example", "ignore", "without")
"""Options of an export that are given once for each value."""
WORDS = "clone the repository of regard, run `make serve` there, and use its .venv/bin/python"


def command(module: str) -> list[str]:
    """Return the command of the service or the exporter. Raises NotInstalled if it is not in this environment."""
    try:
        importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError as error:
        raise NotInstalled(
            f"{module}: is not installed in this environment, which has the client alone; {WORDS}"
        ) from error
    return [sys.executable, "-m", module]


@runtime_checkable
class SavesItself(Protocol):
    """A model, tokenizer or processor of the library transformers."""

    def save_pretrained(self, save_directory: str) -> object:
        """Write it to a folder."""


class Started(Service):
    """A service that `start` started. It stops with `stop`, at the end of a `with`, or when this Python ends.

    A signal that ends this process at once, as SIGTERM does by default and SIGKILL always, leaves the service running.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", url: str, key: str | None, options: Connecting) -> None:
        super().__init__(url, key, **options)
        self.process = process
        atexit.register(self.stop)

    def stop(self) -> None:
        """Stop the service; requests that run may end."""
        atexit.unregister(self.stop)
        self.close()
        _stop(self.process)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def __enter__(self) -> Self:
        return self


def start(artifacts: str | os.PathLike[str] = "artifacts", *, key: str | None = None, **settings: object) -> Started:
    """Start a service of the models in a folder on a free port, and return it once it is ready.

    `settings` are the service's, such as `device="cuda"` for REGARD_DEVICE; a list is joined by commas. Where
    `api_keys` names a file of keys, `key` is one of them. Raises NotInstalled without the service's packages,
    and CommandFailed with its last words if it does not become ready.
    """
    folder = Path(artifacts)
    if not folder.is_dir():
        raise BadInput("artifacts: must be a folder of exported models, given none; `regard export NAME` makes one")
    for name in settings:
        if name.lower() in CHOSEN_HERE:
            raise BadInput(f"{name}: must not be given: the service gets a free port of 127.0.0.1; its url says which")
    port = _free_port()
    given = {f"REGARD_{name.upper()}": _joined(value, ",") for name, value in settings.items() if value is not None}
    # nothing routes to it that would have to be told that it stops
    environment = {**os.environ, "REGARD_LOG_FORMAT": "console", "REGARD_DRAIN_SECONDS": "0", **given}
    environment |= {"REGARD_ARTIFACTS": str(folder), "REGARD_HOST": "127.0.0.1", "REGARD_PORT": str(port)}
    with tempfile.TemporaryFile() as log:
        # a session of its own: an interrupt of the notebook's cell is none of the service's
        process = subprocess.Popen(
            command("service"),
            env=environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            service = Started(process, f"http://127.0.0.1:{port}", key, {})
            _wait(service, lambda: _last_lines(log))
        except BaseException:
            _stop(process)
            raise
    return service


def export(
    model: SavesItself | str | os.PathLike[str],
    *others: SavesItself,
    to: str | os.PathLike[str] = "artifacts",
    name: str | None = None,
    say: Callable[[str], object] = print,
    **options: object,
) -> Path:
    """Export a model of the library transformers, with its tokenizer or image processor, and return the artifact.

    `model` and `others` have `save_pretrained`; or `model` is the folder or the name of a checkpoint. `options` are
    those of the command, such as `precision="int8"`; several values are a list. `say` gets each line of progress.
    Of two models that are compared, it is the artifact of the one that was named. Raises CommandFailed with the
    exporter's reason.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = str(model)
        if isinstance(model, SavesItself):
            source = str(Path(folder) / re.sub(r"[^A-Za-z0-9._-]", "-", name or _name_of(model)))
            for part in (model, *others):
                part.save_pretrained(source)
        elif others:
            raise BadInput("model: must have save_pretrained where a tokenizer or a processor is given, given another")
        flags = {"name": name, **options}
        given = [word for flag, value in flags.items() for word in _flag(flag, value)]
        run = [*command("export"), source, "--to", str(to), *given]
        lines = list[str]()
        with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                for line in process.stdout or ():
                    lines.append(_of_saved(line.rstrip(), folder) if isinstance(model, SavesItself) else line.rstrip())
                    say(lines[-1])
            except BaseException:  # an interrupt may have come to this process alone
                process.terminate()
                raise
        if process.returncode:
            raise CommandFailed("\n".join(["export: failed:", *_last_words(lines)]))
    found = [line.split(maxsplit=1)[1] for line in lines if line.split()[:1] == ["pack"]]
    return Path(found[0]) if found else Path(to)


def _of_saved(line: str, folder: str) -> str:
    """Return what the exporter says in the words of who gave objects, which were saved in a folder for it."""
    advice = r"\1: is missing; pass the tokenizer or image processor too, as in regard.export(model, tokenizer)"
    return NOT_SAVED.sub(advice, line.replace(f"{folder}{os.sep}", ""))


def _last_words(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines that say why an export failed: the exporter's reason, or else the last that are no progress."""
    if wrong := [line.partition(WRONG_OPTION)[2] for line in lines if WRONG_OPTION in line]:
        return wrong[-1:]
    reasons = [number for number, line in enumerate(lines) if REASON in line]
    told = lines[reasons[0] :] if reasons else [line for line in lines if not PROGRESS.match(line)]
    return told[-LAST_LINES:]


def _flag(flag: str, value: object) -> list[str]:
    word = f"--{flag.replace('_', '-')}"
    if value is None or value is False:
        return []
    if value is True:
        return [word]
    if isinstance(value, list | tuple) and flag in REPEATED:
        return [part for one in value for part in (word, str(one))]
    if isinstance(value, list | tuple) and flag not in JOINED:
        raise BadInput(f"{flag}: must be one value, given a {type(value).__name__}")
    return [word, _joined(value, JOINED.get(flag, ""))]


def _joined(value: object, between: str) -> str:
    """Return a value as a word: a list with something between its values."""
    return between.join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _name_of(model: object) -> str:
    path = str(getattr(model, "name_or_path", "")).rstrip("/").split("/")[-1]
    return path or type(model).__name__.lower()


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(service: Started, last_lines: Callable[[], str]) -> None:
    until = time.monotonic() + READY_SECONDS
    asked = service.with_options(retries=0)
    while time.monotonic() < until:
        if service.process.poll() is not None:
            raise CommandFailed(f"service: did not start:\n{last_lines()}")
        try:
            if all(model.ready for model in asked.models()):
                return
        except NoService:
            pass
        time.sleep(0.1)
    raise CommandFailed(f"service: was not ready in {READY_SECONDS:.0f} seconds:\n{last_lines()}")


def _last_lines(log: IO[bytes]) -> str:
    log.seek(0)
    return "\n".join(log.read().decode(errors="replace").splitlines()[-LAST_LINES:])
