"""Addresses of clients, as limits count them and records have them."""

import ipaddress
from collections.abc import MutableMapping
from typing import Any

UNKNOWN = "unknown"
_IPV6_NETWORK_BITS = 64
"""A host with one IPv6 address has its whole network of 64 bits (RFC 4291, section 2.5.4)."""


def address_of(scope: MutableMapping[str, Any]) -> str:
    """The client's address in an ASGI scope; `unknown` for what is no address, which a proxy may pass on."""
    client: tuple[str, int] | None = scope.get("client")
    parsed = _parsed(client[0]) if client else None
    return str(parsed) if parsed is not None else UNKNOWN


def network_of(address: str) -> str:
    """The part of the network that one client has: an IPv4 address, or an IPv6 network of 64 bits."""
    parsed = _parsed(address)
    if parsed is None or parsed.version == 4:
        return UNKNOWN if parsed is None else str(parsed)
    return str(ipaddress.ip_network((parsed, _IPV6_NETWORK_BITS), strict=False))


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, ipaddress.IPv6Address) else parsed
