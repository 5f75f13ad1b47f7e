"""docker-compose.yml by podman-compose, with images from Debian's packages in place of those of a registry."""

import contextlib
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence

import httpx

from tests.containers import asking, images
from tests.containers.podman import FOLDER, PodmanError, inspect, run
from tests.samples.ports import free_port

API = ("api-cpu", "api-one", "api-two")
LISTENS = {"api-cpu": 8000, "proxy": 8080, "prometheus": 9090}
"""What is asked from this machine, and its port inside its container."""
STANDS_IN = {"proxy": "haproxy", "store": "redis-server", "prometheus": "prometheus"}


class Compose:
    """The services of some profiles, up until the end of the block.

    What differs from `docker compose up`, in a file of its own: images of the same programs from Debian's packages,
    free ports of this machine, no health checks (podman runs them by systemd, and start_interval needs podman 4.4), and
    no Grafana, which Debian does not have. `files` are those that a person names beside docker-compose.yml.
    """

    def __init__(
        self, *profiles: str, without: Sequence[str] = ("grafana",), files: Sequence[str] = (), **environment: str
    ) -> None:
        self.name = f"regard-{os.getpid()}"
        self.port = {service: free_port() for service in LISTENS}
        self._profiles, self._environment = profiles, environment
        self._without = without
        file = FOLDER / f"{self.name}.yaml"
        file.write_text(_changes(self.port))
        words = [word for profile in profiles for word in ("--profile", profile)]
        named = [word for one in ("docker-compose.yml", *files, str(file)) for word in ("-f", one)]
        self._command = ("podman-compose", "-p", self.name, *named, *words)
        self._file = file

    def __enter__(self) -> "Compose":
        try:
            self.up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        run(*self._command, "down", "--volumes", "--timeout", "0", check=False, **self._environment)
        self._file.unlink(missing_ok=True)

    def up(self) -> None:
        """Start all services of the profiles."""
        leave_out = [f"--scale={service}=0" for service in self._without]
        run(*self._command, "up", "--detach", "--no-build", *leave_out, **self._environment)

    def container(self, service: str) -> str:
        """Return the name of a service's container."""
        return f"{self.name}_{service}_1"

    def stop(self, service: str) -> int:
        """Stop a container as an update does, and remove it; return its exit status."""
        name = self.container(service)
        run("podman", "stop", "--time=60", name)
        status = int(inspect("container", name)["State"]["ExitCode"])
        run("podman", "rm", name)
        return status

    def start_anew(self, service: str) -> None:
        """Start another container in the place of one that was removed."""
        run(*self._command, "up", "--detach", "--no-build", "--no-deps", service, **self._environment)

    def wait_ready(self, service: str, seconds: float = 60) -> None:
        """Wait until a replica is ready, asked from inside. Raises PodmanError if it does not get there."""
        program = "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health/ready', timeout=3)"
        last = time.monotonic() + seconds
        while True:
            try:
                run("podman", "exec", self.container(service), "python", "-Ic", program)
            except PodmanError:
                if time.monotonic() > last:
                    said = run("podman", "logs", self.container(service), check=False)
                    raise PodmanError(f"{service} is not ready after {seconds:g} s: {said[-2000:]}") from None
                time.sleep(0.2)
            else:
                return

    def wait_reached(self, service: str, seconds: float = 60) -> None:
        """Ask the proxy until it has sent a replica something. Raises PodmanError if it does not get there."""
        last = time.monotonic() + seconds
        while '"event":"request"' not in run("podman", "logs", self.container(service)):
            if time.monotonic() > last:
                raise PodmanError(f"{service} gets nothing from the proxy within {seconds:g} s")
            with contextlib.suppress(httpx.TransportError):
                asking.predictions(self.port["proxy"], 4)
            time.sleep(0.2)

    def query(self, expression: str) -> list[tuple[Mapping[str, str], float]]:
        """Ask Prometheus; return labels and value of each series."""
        address = f"http://127.0.0.1:{self.port['prometheus']}/api/v1/query?query={urllib.request.quote(expression)}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def seen(self, expression: str, seconds: float = 60) -> list[tuple[Mapping[str, str], float]]:
        """Ask Prometheus until it knows, or the time is over."""
        last = time.monotonic() + seconds
        while True:
            try:
                if (found := self.query(expression)) or time.monotonic() > last:
                    return found
            except (OSError, urllib.error.URLError):
                if time.monotonic() > last:
                    raise
            time.sleep(1)


def prepare() -> None:
    """Build every image that the services need."""
    images.cpu()
    for package in STANDS_IN.values():
        images.other(package)


def _changes(ports: Mapping[str, int]) -> str:
    """Return a compose file with what differs, for podman-compose to merge."""
    lines = ["services:"]
    for service in (*API, *STANDS_IN):
        image = images.CPU if service in API else f"localhost/regard-{STANDS_IN[service]}"
        lines += [f"  {service}:", f"    image: {image}"]
        if service in API:
            lines.append("    healthcheck: !override {disable: true}")
        if service == "proxy":
            lines.append("    depends_on: !override []  # podman lets nothing be replaced that something depends on")
        if service in LISTENS:
            lines.append(f'    ports: !override ["127.0.0.1:{ports[service]}:{LISTENS[service]}"]')
    return "\n".join(lines) + "\n"
