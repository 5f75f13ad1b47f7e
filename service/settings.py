"""Every setting of the service, from the environment with the prefix `REGARD_`."""

import ipaddress
import os
import re
import sys
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from contract.names import suggestion

PREFIX = "REGARD_"
OF_CLIENTS = {"REGARD_KEY", "REGARD_URL"}
"""What clients read, and the service passes over: both may run in one shell."""
Count = Annotated[int, Field(ge=1)]


HOST = re.compile(r"[A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\]")
ORIGIN = re.compile(rf"\*|[a-z][a-z0-9+.-]*://({HOST.pattern})(:[0-9]{{1,5}})?")
"""An origin as browsers send it (RFC 6454, section 6.2), or any."""


Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class SettingsError(Exception):
    """The environment cannot be used; the message lists everything that is wrong with it, a line each."""


class Settings(BaseSettings):
    """Settings with their units and bounds; each is read once, at start."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    artifacts: Path = Field(Path("artifacts"), description="folder of artifacts, `<name>/<version>/` each")
    host: str = Field("127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    workers: int = Field(
        1,
        ge=1,
        le=64,
        description="processes that serve, each with models, queues and limits of its own, on Linux; for light models "
        "on a CPU of more than two cores; several take as many times the memory of one",
    )
    device: Literal["auto", "cpu", "cuda", "openvino", "tensorrt"] = Field(
        "auto",
        description="`cuda` refuses to start without CUDA, `auto` then uses the CPU and logs it; "
        "`openvino` (an extra) predicts in bfloat16 on a CPU, and computes attention in full precision; "
        "`tensorrt` runs predictions for images on engines that it builds at start, and everything else on CUDA",
    )
    device_memory_bytes: int = Field(
        0,
        ge=0,
        description="bytes of a GPU's memory that one graph of a model may take, its weights included; 0 is no limit",
    )
    cuda_graphs: bool = Field(
        True, description="with `cuda`, record what a batch of image predictions launches, and play it back"
    )
    engine_cache: Path | None = Field(
        None, description="folder where engines of `tensorrt` are kept from start to start; building one takes minutes"
    )
    cores: int = Field(
        0,
        ge=0,
        le=1024,
        description="cores that all workers may use together, where the machine and its control group show more than "
        "this service's share, such as in a pod without a CPU limit; 0 takes what they show",
    )
    threads: int = Field(
        0,
        ge=0,
        le=1024,
        description="threads of one run on a CPU, each of which takes a core; with 1, several runs go at the same "
        "time: more requests a second, but each takes longer (`python -m service.tune` measures both; "
        "generated text gains nothing); 0 takes all cores of this worker, at most 16, but one for models "
        "below 16 MiB, whose runs leave one of at most 16 cores to the rest of the service",
    )
    decode: Literal["confined", "threads"] = Field(
        "confined",
        description="where images are decoded: in confined processes, or on threads of the service; a hostile image "
        "may then end or take over the service, and its time and memory are not bounded, so set it only where all who "
        "send images are trusted",
    )
    decode_processes: int = Field(
        2, ge=1, le=64, description="processes or threads that decode images for one worker, each one at a time"
    )
    decode_seconds: float = Field(
        5.0,
        gt=0,
        le=3600,
        description="processor seconds for one image before 422; an image that takes twice as many by the clock gets "
        "503, since the machine is too busy",
    )
    decode_bytes: int = Field(
        512 << 20,
        ge=64 << 20,
        description="bytes of memory that decoding one image may take; raise it with `REGARD_MAX_IMAGE_PIXELS`",
    )

    max_body_bytes: Count = Field(16 << 20, description="bytes of a request's body")
    queue_body_bytes: Count = Field(
        128 << 20,
        description="bytes of all bodies being answered before 429; a quarter is divided among "
        "`REGARD_MAX_CONNECTIONS`, so that small bodies always fit",
    )
    max_text_bytes: Count = Field(1 << 20, description="bytes of a request's body for a model that reads text")
    max_image_bytes: Count = Field(10 << 20, description="bytes of one encoded image")
    max_audio_bytes: Count = Field(16 << 20, description="bytes of one encoded sound")
    max_audio_seconds: float = Field(600.0, gt=0, le=36_000, description="seconds of one sound")
    max_image_pixels: int = Field(16_000_000, ge=1, le=1 << 40, description="pixels of one image, from its header")
    queue_pixels: Count = Field(
        1_000_000_000,
        description="pixels of images that wait or are being decoded before 429; each image counts as 262144 more",
    )
    max_images: int = Field(32, ge=1, le=1024, description="images in one request")
    max_sounds: int = Field(8, ge=1, le=1024, description="sounds in one request")
    max_inputs: int = Field(
        2048, ge=1, le=4096, description="texts in one request, as OpenAI's clients send; what they cost is bounded too"
    )
    max_beams: int = Field(8, ge=1, le=64, description="beams of one generated text")
    max_answer_bytes: Count = Field(8 << 20, description="estimated bytes of an attention answer")

    batch_tokens: Count = Field(
        4096, description="padded tokens (patches, for an image) of one batch of predictions; fewer on a CPU"
    )
    queue_tokens: Count = Field(65536, description="tokens waiting or running before predictions are refused with 429")
    batch_map_bytes: Count = Field(
        32 << 20, description="bytes of attention maps that one batch may compute; of gradient methods an eighth"
    )
    run_bytes: Count = Field(
        8 << 30,
        description="bytes of memory that attention of one input may take while it is computed, beside the weights, as "
        "estimated from its tokens; what needs more is refused with 413",
    )
    queue_map_bytes: Count = Field(256 << 20, description="bytes of maps waiting before attention is refused with 429")
    unread_bytes: Count = Field(
        64 << 20,
        description="bytes of answers and streamed events that clients have not taken yet; beyond them the connection "
        "that has taken nothing for longest is closed",
    )
    batch_rows: int = Field(64, ge=1, le=4096, description="rows (beams) that one model decodes at a time")
    batch_cache_bytes: Count = Field(
        256 << 20, description="bytes of the caches of what one model decodes at a time, beside its widest request"
    )
    keep_count: int = Field(
        1000, ge=0, description="requests kept so that attention can be asked for by id; 0 keeps none"
    )
    keep_bytes: Count = Field(64 << 20, description="bytes of what is kept; the oldest goes first")
    keep_seconds: float = Field(600.0, gt=0, le=86400, description="seconds that a request is kept")
    redis_url: SecretStr | None = Field(
        None, description="where replicas keep them together, such as redis://cache:6379; in memory by default"
    )
    request_seconds: float = Field(30.0, gt=0, le=3600, description="seconds until a request is given up with 504")
    drain_seconds: float = Field(
        5.0,
        ge=0,
        le=3600,
        description="seconds after SIGTERM in which requests are still taken, while /health/ready answers 503",
    )
    shutdown_grace_seconds: int = Field(
        35,
        ge=0,
        le=3600,
        description="seconds what is in flight may take after that, or after SIGINT; more than a request may take",
    )
    admin_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="port of /metrics, /admin and /v2/repository/models; without it, /metrics is on the main port",
    )
    probe_port: int | None = Field(
        None, ge=0, le=65535, description="port of /health/live alone, with connections of its own; off by default"
    )

    header_seconds: float = Field(
        10.0, gt=0, le=3600, description="seconds for the head of a request, from the connection or its first byte"
    )
    keep_alive_seconds: float = Field(
        65.0,
        gt=0,
        le=3600,
        description="seconds that an idle connection stays open; more than the 60 of most proxies, or these would now "
        "and then send a request into one that is closing",
    )
    max_connections: Count = Field(
        1024,
        description="connections to a port; one more takes the place of the one that has been idle for longest, or "
        "gets 503 if none is idle; the hard limit of open files must be 240 above those of all ports",
    )
    max_url_bytes: Count = Field(8 << 10, description="bytes of a URL")
    max_header_bytes: Count = Field(16 << 10, description="bytes of a request's headers together")
    max_headers: Count = Field(100, description="headers of a request")
    body_seconds: float = Field(30.0, gt=0, le=3600, description="seconds until the whole body must have arrived")
    body_bytes_a_second: Count = Field(
        1000,
        description="bytes a second that a body must bring after its first 5 seconds, and that a client must read "
        "of an answer",
    )
    discard_bytes: Count = Field(
        64 << 20,
        description="bytes of a request that are still read and discarded after its answer, so that the client gets "
        "the answer; for the same seconds as a body",
    )
    max_body_pieces: Count = Field(65536, description="pieces (chunks) of a body")
    write_seconds: float = Field(
        30.0, gt=0, le=3600, description="seconds after which a client that does not read its answer is cut off"
    )
    allowed_hosts: str | None = Field(
        None,
        description="host names and addresses that are answered to, comma separated, without ports; by default any, "
        "but localhost alone where nobody else reaches the service. Health is always answered, and else the admin port "
        "by any host",
    )
    cors_origins: str | None = Field(
        None,
        description="origins whose pages may call, and read answers, comma separated, such as https://a.example; none "
        "by default",
    )
    trusted_proxies: str | None = Field(
        None,
        description="networks of proxies that may say who calls, by `Forwarded` or `X-Forwarded-For`, comma separated, "
        "such as 10.0.0.0/8; none by default. By its address a client without a key has its share",
    )
    api_keys: Path | None = Field(
        None,
        description="file of API keys, as `python -m service.keys` makes them; none are asked for by default",
    )
    key_in_flight: int = Field(0, ge=0, description="requests of one key being answered before 429; 0 sets no limit")

    log_format: Literal["json", "console"] = Field("json", description="one JSON object a line, or lines for people")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level that is logged")
    otlp_endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^\s@]+$",
        description="OpenTelemetry collector that traces are sent to, such as http://collector:4318 (an extra)",
    )
    trace_ratio: float = Field(0.1, ge=0, le=1, description="share of requests that are traced")

    @property
    def local(self) -> bool:
        """True if only this machine can reach what listens on the host."""
        return is_local(self.host)

    @property
    def hosts(self) -> set[str]:
        """The hosts that are answered to, as `canonical_host` has them; none for any."""
        return {host for one in split_list(self.allowed_hosts) if (host := canonical_host(one))}

    def with_hosts(self) -> "Settings":
        """Return the settings with the hosts that are answered to: of a local service its own, unless others are named.

        Any web page can have its name stand for 127.0.0.1, and so be of the service's own origin (DNS rebinding).
        """
        if split_list(self.allowed_hosts) or not self.local:
            return self
        own = f"[{self.host}]" if ":" in self.host else self.host
        return self.model_copy(update={"allowed_hosts": ",".join({*LOCAL_HOSTS, own})})

    def for_operators(self) -> "Settings":
        """Return the settings of the ports for operators and probes: any host, but of a local service only its own."""
        own = self.local and self.hosts >= {*LOCAL_HOSTS}
        return self if own else self.model_copy(update={"allowed_hosts": None})


def _given(name: object, value: object) -> str:
    """Return what an error says of a value; nothing of an address, which may hold a password."""
    return "" if name in ("otlp_endpoint", "redis_url") else f", given {str(value)[:64]!r}"


def read_settings() -> Settings:
    """Read the environment. Raises SettingsError listing every unknown name and every value out of bounds."""
    known = OF_CLIENTS | {f"{PREFIX}{name}".upper() for name in Settings.model_fields}
    faults = [
        f"{name}: is no setting{suggestion(name.upper(), known, PREFIX) or '; docs/settings.md lists them'}"
        for name in sorted(os.environ)
        if name.upper().startswith(PREFIX) and name.upper() not in known
    ]
    try:
        settings = Settings()
    except ValidationError as error:
        faults += [
            f"{PREFIX}{str(fault['loc'][0]).upper()}: {fault['msg']}{_given(fault['loc'][0], fault['input'])}"
            for fault in error.errors(include_url=False)
        ]
    else:
        ports = {"PORT": settings.port, "ADMIN_PORT": settings.admin_port, "PROBE_PORT": settings.probe_port}
        faults += [
            f"{PREFIX}{second}: must be another port than {PREFIX}{first}, given {ports[first]} for both"
            for first, second in combinations(ports, 2)
            if ports[first] and ports[first] == ports[second]
        ]
        faults += [
            f"{PREFIX}{name}: each must be {wanted}, given {one[:64]!r}"
            for name, given, fits, wanted in (
                ("ALLOWED_HOSTS", settings.allowed_hosts, canonical_host, "a host name or address without a port"),
                (
                    "CORS_ORIGINS",
                    settings.cors_origins,
                    ORIGIN.fullmatch,
                    "* or a scheme and a host such as https://a.example",
                ),
                ("TRUSTED_PROXIES", settings.trusted_proxies, network_of, "a network such as 10.0.0.0/8"),
            )
            for one in split_list(given)
            if not fits(one)
        ]
        if settings.workers > 1 and sys.platform != "linux":
            faults.append(f"{PREFIX}WORKERS: must be 1 where the system is not Linux, given {settings.workers}")
    if faults:
        raise SettingsError("\n".join(faults))
    return settings


LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
"""The hosts by which a service is called that only this machine can reach."""


def is_local(host: str) -> bool:
    """Return whether only this machine can reach what listens on an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == LOCAL_HOSTS[0]


def canonical_host(host: str) -> str | None:
    """Return a host as it is compared: in small letters, an address of IPv6 in brackets and in its shortest form.

    It may be given without brackets. None for what is no host, or has a port.
    """
    if not HOST.fullmatch(host) and not HOST.fullmatch(f"[{host}]"):
        return None
    try:
        return f"[{ipaddress.IPv6Address(host.strip('[]'))}]"
    except ValueError:
        return None if {*host} & {*":["} else host.lower()


def network_of(text: str) -> Network | None:
    """Return the network that a text names, or None."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def split_list(text: str | None) -> list[str]:
    """Return the items of a setting that is a list, separated by commas."""
    return [one.strip() for one in (text or "").split(",") if one.strip()]
