"""Origins of web pages (RFC 6454) and names of this server, as headers have them and as settings list them."""

import ipaddress
import re
from collections.abc import Iterable

_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::([0-9]{1,5}|\*))?")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::([0-9]{1,5}|\*))?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_ANY = "*"

_Parts = tuple[str, str, str]
"""Scheme, host and port."""


class WebOrigins:
    """A set of origins. Case, default ports and the notation of IPv6 addresses do not matter; a trailing dot does."""

    def __init__(self, origins: Iterable[str]) -> None:
        """`SCHEME://HOST`, `SCHEME://HOST:PORT`, or `SCHEME://HOST:*` for every port. Raises `ValueError`."""
        self._parts = frozenset(_listed(origin) for origin in origins)

    def __contains__(self, origin: str) -> bool:
        """Match the text of an `Origin` header. `null` and lists of origins never match."""
        parts = _parts_of(origin)
        return parts is not None and (parts in self._parts or (*parts[:2], _ANY) in self._parts)


def is_origin_of(origin: str, host: str, *, scheme: str) -> bool:
    """Check whether the page with this `Origin` came from the server in the `Host` header.

    A proxy may have received a plain http request over TLS, so schemes are compared over https only.
    """
    page, own = _parts_of(origin), _HOST.fullmatch(host.lower())
    if page is None or own is None or page[0] not in _DEFAULT_PORTS or (scheme == "https" and page[0] != scheme):
        return False
    return page[1:] == (_plain(own[1]), own[2] or _DEFAULT_PORTS[page[0]])


class ServerNames:
    """Names by which this server may be addressed."""

    def __init__(self, names: Iterable[str]) -> None:
        """`NAME` and `NAME:*` for every port, or `NAME:PORT`."""
        self._names = frozenset(name.lower().removesuffix(":*").strip("[]") for name in names)

    def __contains__(self, host: str) -> bool:
        """Match the text of a `Host` header, ignoring case."""
        found = _HOST.fullmatch(host.lower())
        if found is None:
            return False
        name = found[1].strip("[]")
        return name in self._names or f"{found[1]}:{found[2]}" in self._names

    def __str__(self) -> str:
        return ", ".join(sorted(self._names))


def _listed(origin: str) -> _Parts:
    parts = _parts_of(origin.rstrip("/"), lists=True)
    if parts is None:
        raise ValueError(
            f"{origin[:100]!r} is not the origin of a page: write SCHEME://HOST or SCHEME://HOST:PORT, "
            "each origin by itself"
        )
    return parts


def _parts_of(origin: str, *, lists: bool = False) -> _Parts | None:
    found = _ORIGIN.fullmatch(origin.lower())
    if found is None or (found[3] == _ANY and not lists):
        return None
    scheme, host, port = found.groups()
    return scheme, _plain(host), port or _DEFAULT_PORTS.get(scheme, "")


def _plain(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return host
