"""What has failed, as an error of this package: what httpx raises, what is no regard service or cannot be read."""

import ssl
from importlib.metadata import version

import httpx

from regard.connecting import BAD_URL
from regard.errors import BadInput, Incompatible, NoService, RegardError, TimedOut

VERSION = version("regard-client")
OF_PROXIES = (408, 413, 414, 429, 431)
"""The statuses below 500 with which a proxy answers by itself, in HTML."""


def meant(error: httpx.HTTPError | UnicodeError, address: str) -> RegardError:
    """Return this package's error for one of httpx, or for a host whose name cannot be looked up."""
    if isinstance(error, httpx.UnsupportedProtocol | UnicodeError):
        return BadInput(f"{BAD_URL}{address!r}")
    if is_of_tls(error):
        return NoService(
            f"{address}: TLS failed. Use http:// if the service has no TLS, or give connect(..., verify=...) the path "
            "of its authority's certificate."
        )
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
        return NoService(f"{address}: nothing answers there. Start a service (`regard serve`), or give another url.")
    if isinstance(error, httpx.TimeoutException):
        return TimedOut(f"{address}: no answer in time. Ask for less, or give connect(..., timeout=...) more seconds.")
    return NoService(f"{address}: the connection broke ({type(error).__name__}). Is it an address of a regard service?")


def is_of_tls(error: BaseException | None) -> bool:
    """True if no connection was made because of TLS: plain HTTP answered, or a certificate cannot be verified.

    What lies beneath httpx' errors says so; what lies deeper still is the caller's.
    """
    if not isinstance(error, httpx.ConnectError):
        return False
    while error is not None and type(error).__module__.partition(".")[0] in ("httpx", "httpcore"):
        error = error.__cause__ or error.__context__
    return isinstance(error, ssl.SSLError)


def is_foreign(found: httpx.Response) -> bool:
    """True if an answer is none of a regard service's: a way to another address, a page, or a 404 without a problem.

    Pages of 5xx and of OF_PROXIES are not: a proxy answers so for a service that is there.
    """
    kind, status = found.headers.get("content-type", ""), found.status_code
    if status in (404, 405):
        return "problem+json" not in kind
    is_of_proxy = status in OF_PROXIES or status >= 500
    return 300 <= status < 400 or (kind.startswith("text/html") and not is_of_proxy)


def foreign(address: str, found: httpx.Response) -> NoService:
    """Return the error for an address where something else answers."""
    if 300 <= found.status_code < 400:
        return NoService(f"{address}: sends on to another address. Give that one; it may begin with https://.")
    return NoService(f"{address}: what answers there is no regard service. Give the address that `regard serve` shows.")


def incompatible(found: str | None) -> Incompatible:
    """Return the error for an answer that cannot be read, with the version that the service says it has."""
    service = f"the service is version {found}" if found else "the service does not say its version"
    return Incompatible(f"answer: cannot be read: {service}, this client {VERSION}. Use the same version of both.")
