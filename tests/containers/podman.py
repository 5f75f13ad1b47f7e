"""podman and buildah, as a person would type them."""

import json
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".containers"
"""What is kept between runs."""
HARDENED = ("--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL", "--security-opt=no-new-privileges")
"""What docker-compose.yml and k8s/ deny every container."""
PATHS = os.pathsep.join((f"{ROOT}/.venv/bin", "/usr/sbin", "/sbin", "/usr/lib/podman", "/usr/libexec/podman"))
"""Where programs are too that PATH may not name: those of this environment, of root, and podman's own."""


class PodmanError(Exception):
    """A command ended with an error: what it said."""


def run(*command: object, seconds: float = 900, check: bool = True, **environment: str) -> str:
    """Run a command; return what it wrote to standard output. Raises PodmanError with the end of what it said."""
    program, *words = map(str, command)
    done = subprocess.run(
        [found(program) or program, *words],
        cwd=ROOT,
        env=os.environ | {"CONTAINERS_CONF": str(_configuration())} | environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if check and done.returncode:
        raise PodmanError(f"{program} {' '.join(words[:3])}: status {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def inspect(kind: str, name: str) -> dict:
    """Return what podman knows of an image or a container."""
    (found,) = json.loads(run("podman", kind, "inspect", name))
    return found


def exists(image: str) -> bool:
    """Say whether there is an image of this name."""
    return bool(run("podman", "images", "--quiet", image).strip())


class Container:
    """A container in the background, as hardened as those that are shipped, until the end of the block.

    `tmp` is the size of its /tmp, which is the only folder that it can write; without it there is none.
    """

    def __init__(
        self,
        image: str,
        *,
        settings: Mapping[str, object] | None = None,
        options: Sequence[object] = (),
        tmp: str = "512m",
    ) -> None:
        environment = [f"--env=REGARD_{name.upper()}={value}" for name, value in (settings or {}).items()]
        folder = [f"--tmpfs=/tmp:size={tmp},mode=1777"] if tmp else []
        # podman runs health checks by systemd, which not every machine has
        plain = ("--detach", "--health-interval=disable", *HARDENED, *folder, *environment, *options)
        self.id = run("podman", "run", *plain, image).strip()

    @classmethod
    def of(cls, id: str) -> "Container":  # noqa: A002 # podman's word
        """Return what runs already."""
        container = cls.__new__(cls)
        container.id = id
        return container

    def __enter__(self) -> "Container":
        return self

    def __exit__(self, *_: object) -> None:
        run("podman", "rm", "--force", "--time=0", "--volumes", self.id, check=False)

    def log(self) -> str:
        """Return what it has written."""
        done = subprocess.run(["podman", "logs", self.id], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def events(self) -> dict[str, dict]:
        """Return the last line of its log for each event."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return {line["event"]: line for line in lines}

    def wait_for(self, event: str, seconds: float = 60) -> dict:
        """Wait until its log has an event. Raises PodmanError if it ends before, or does not come."""
        last = time.monotonic() + seconds
        while time.monotonic() < last:
            if event in (events := self.events()):
                return events[event]
            if not inspect("container", self.id)["State"]["Running"]:
                break
            time.sleep(0.1)
        raise PodmanError(f"no {event!r}: {self.log()[-2000:]}")

    def wait(self, seconds: float = 60) -> int:
        """Wait until it ends; return its exit status."""
        return int(run("podman", "wait", self.id, seconds=seconds))

    def stop(self) -> int:
        """Tell it to stop; return its exit status."""
        run("podman", "stop", "--time=60", self.id)
        return int(inspect("container", self.id)["State"]["ExitCode"])

    def python(self, program: str, *words: object) -> str:
        """Run a program inside it, by the Python that the image has; return what it printed."""
        return run("podman", "exec", self.id, "python", "-Ic", program, *words)


def found(program: str) -> str | None:
    """Return where a program is; None if it is not here."""
    return shutil.which(program) or shutil.which(program, path=PATHS)


def _configuration() -> Path:
    """Write what podman is told here: limits of a container that this process may set, and what runs it.

    Else Debian's podman takes crun where it is, which knows no hybrid control groups, and keeps the network that it had
    at its first use, which without netavark has no names.
    """
    limits = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    most = {name: resource.getrlimit(one)[1] for name, one in limits.items()}
    lines = [
        f'"{name}={min(4096, value) if value > 0 else 4096}:{min(4096, value) if value > 0 else 4096}"'
        for name, value in most.items()
    ]
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / "containers.conf"
    text = f"[containers]\ndefault_ulimits = [{', '.join(lines)}]\n"
    text += '[engine]\nruntime = "runc"\n[network]\nnetwork_backend = "netavark"\n'
    if not file.exists() or file.read_text() != text:
        file.write_text(text)
    return file
