"""Who sends a request, as far as its address says."""

import ipaddress
import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import Scope

from service.settings import Network

FORWARDED_FOR = re.compile(r'(?:^|[;,])\s*for="?([^",;\s]+)', re.IGNORECASE)
"""The addresses that a header Forwarded names (RFC 7239, section 4)."""
WITH_PORT = re.compile(r"\[(?P<six>.+)\](?::[0-9]{1,5})?|(?P<four>[^:]+):[0-9]{1,5}")
IPV6_BITS = 64
"""A client of IPv6 has all addresses that begin with these bits."""


def client_address(scope: Scope, headers: Headers, trusted: Sequence[Network]) -> str:
    """Return the address of a request's client, of IPv6 its network; empty for a Unix socket.

    It is that of the connection, or behind `trusted` proxies the one that they were called by. A proxy adds that behind
    what the headers said before, so the last address counts that is not of such a proxy. What stands before it may be
    invented, as may what others than these proxies say; where both headers disagree, the proxy's own address counts.
    """
    peer = (scope.get("client") or ("",))[0]
    if _trusts(peer, trusted):
        standard = [one for line in headers.getlist("forwarded") for one in FORWARDED_FOR.findall(line)]
        usual = [one.strip() for line in headers.getlist("x-forwarded-for") for one in line.split(",")]
        named = {_last(chain, trusted) for chain in (standard, usual) if chain}
        if len(named) == 1:
            peer = named.pop() or peer
    return _network(peer)


def _last(chain: Sequence[str], trusted: Sequence[Network]) -> str | None:
    """Return the last address that is not trusted, or the first if all are; None where one cannot be read."""
    address = None
    for given in reversed(chain):
        match = WITH_PORT.fullmatch(given)
        address = (match["six"] or match["four"]) if match else given
        if not _is_address(address):
            return None
        if not _trusts(address, trusted):
            return address
    return address


def _trusts(address: str, trusted: Sequence[Network]) -> bool:
    if not trusted or not _is_address(address):
        return False
    read = _read(address)
    return any(read in network for network in trusted)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _read(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address; one of IPv4 that IPv6 carries as what it is."""
    read = ipaddress.ip_address(address)
    return (isinstance(read, ipaddress.IPv6Address) and read.ipv4_mapped) or read


def _network(peer: str) -> str:
    """Return by what a client is known whose address, if it has one, is `peer`."""
    if ":" not in peer or not _is_address(peer):
        return peer
    read = _read(peer)
    bits = IPV6_BITS if read.version == 6 else read.max_prefixlen
    return str(ipaddress.ip_network((read, bits), strict=False).network_address)
