"""The gate: refuses by the head of a request alone, before anything of its body is read."""

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import Forbidden, Malformed, NotFound, Refusal
from service.http.api_keys import HEALTH_PATHS, Keys
from service.http.body_limits import check_announced
from service.http.client_address import client_address
from service.http.exchange import exchange_of
from service.http.problems import refused
from service.http.repeated_requests import RepeatedRequests
from service.settings import HOST, Settings, canonical_host, network_of, split_list

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods by which nothing is done; their answers a page of another origin cannot read."""
HOST_AND_PORT = re.compile(rf"({HOST.pattern})(:[0-9]{{0,5}})?")
PATH = re.compile(r"(/(?!\.{1,2}(/|\Z))[A-Za-z0-9._~@:+-]+)*/?")
"""Every path that is served matches this."""


class Gate:
    """Checks the host, the API key, the path and the announced size of a request, and that no web page sent it.

    What goes on knows whose request it is.

    Pages may call unless `for_pages` is False. A browser names the page's origin in whatever may change something
    (Fetch, section 3.2).
    """

    def __init__(self, app: ASGIApp, settings: Settings, keys: Keys, *, for_pages: bool = True) -> None:
        self.app = app
        self.for_pages = for_pages
        self.keys = keys
        self.hosts = settings.hosts
        self.origins = None if keys.needed or not for_pages or not settings.local else split_list(settings.cors_origins)
        """The origins whose pages may call beside the service's own; None where any may."""
        self.limit = settings.max_body_bytes
        self.repeated = RepeatedRequests()
        named = map(network_of, split_list(settings.trusted_proxies))
        self.trusted = [network for network in named if network]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            self._check_host(scope["path"], headers.get("host"))
            if (origin := headers.get("origin")) is not None:
                self._check_origin(scope["method"], origin, headers.get("host"))
            exchange = exchange_of(scope)
            key = exchange.key_name = self.keys.admit(scope["path"], headers)
            _check_path(scope["path"])
            check_announced(headers, self.limit)
            client = key or client_address(scope, headers, self.trusted)
            await self.repeated.check(client, scope, headers)
            permit = self.keys.permit(key)
        except Refusal as refusal:
            await refused(refusal, scope)(scope, receive, send)
            return
        exchange.client = client
        with permit:
            await self.app(scope, receive, send)
        if exchange.busy and scope["method"] == "POST":
            self.repeated.note(client, scope, headers, exchange.busy)

    def _check_host(self, path: str, host: str | None) -> None:
        """Refuse a malformed host, or one that is not allowed. Probes may use any: they call by IP address.

        A request by HTTP/1.0 may have none.
        """
        match = HOST_AND_PORT.fullmatch(host or "")
        named = canonical_host(match[1]) if match else None
        if named is None and host is not None:
            raise Malformed("Host: must be a host name or address, given another")
        if self.hosts and named not in self.hosts and path not in HEALTH_PATHS:
            raise Malformed("Host: must be one that this service answers to, given another")

    def _check_origin(self, method: str, origin: str, host: str | None) -> None:
        """Refuse what a web page of an origin may not call.

        A browser asks no permission for a form, or for a POST of plain text, whosoever's page sends it; without keys
        any page could let a service on its visitor's machine work.
        """
        if not self.for_pages:
            raise Forbidden("Origin: must not be given, since no web page may call this port")
        if self.origins is None or method in SAFE or {"*", origin} & {*self.origins}:
            return
        if origin.partition("://")[2] != host:
            raise Forbidden("Origin: must be this service's own, or one of REGARD_CORS_ORIGINS, given another")


def _check_path(path: str) -> None:
    """Refuse a path that no route has, before any route or dictionary sees it."""
    if not PATH.fullmatch(path):
        raise NotFound("path: no such endpoint; see /docs")
